package manifest

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kubeadmConfig reads a KubeadmConfig, or the one in a KubeadmConfigTemplate.
// Both formats, cloud-config and ignition, say the same of a host.
func (c *converter) kubeadmConfig(d *draft, m *machine, doc document) {
	v := doc.at("spec")
	if doc.kind == "KubeadmConfigTemplate" {
		v.only("template")
		v.at("template").only("metadata", "spec")
		v = v.at("template", "spec")
	}
	d.head = append(d.head, "Made of "+doc.where()+".")
	v.only("clusterConfiguration", "initConfiguration", "joinConfiguration", "files", "diskSetup", "mounts", "bootCommands", "preKubeadmCommands",
		"postKubeadmCommands", "users", "ntp", "format", "verbosity", "useExperimentalRetryJoin", "ignition")
	for _, key := range []string{"clusterConfiguration", "initConfiguration"} {
		v.at(key).left("leave it out", "is of a control plane: workers are the job")
	}
	if f := v.at("format").text(); f != "" && f != "cloud-config" && f != "ignition" {
		c.bad(v.at("format"), "cloud-config or ignition", "%q is not a format of bootstrap data", short(f))
	}
	v.at("ignition").left("write its units and files into files, or render the NodeConfig and merge: nodeagent render ignition", "is Ignition's own configuration, which can't be carried")
	if v.at("verbosity").is() {
		d.remark("Left out: verbosity of kubeadm; see nodeagent --log-level.")
	}
	if v.at("useExperimentalRetryJoin").is() {
		d.remark("Left out: useExperimentalRetryJoin; a failed join is cleaned up and tried again by itself.")
	}
	c.diskSetup(d, m, v)
	c.ntp(d, v.at("ntp"))
	c.users(d, v.at("users"))
	join := v.at("joinConfiguration")
	patches := strings.TrimSuffix(join.at("patches", "directory").text(), "/")
	c.files(d, m, v.at("files"), patches)
	c.joinConfiguration(d, m, join)
	k := commands{c: c, d: d, m: m, files: map[string]bool{}}
	for _, f := range v.at("files").items() {
		k.files[f.at("path").text()] = true
	}
	k.time = len(v.at("ntp", "servers").items()) > 0
	k.devices(v)
	for _, b := range v.at("bootCommands").items() {
		if s := b.text(); !k.native(b, s) {
			c.bad(b, "hooks.preJoin runs a command once; a unit in files runs it at every boot", "runs at every boot, before anything else, which no hook does: %s", short(s))
		}
	}
	for _, p := range v.at("preKubeadmCommands").items() {
		k.carry(p, "preJoin")
	}
	for _, p := range v.at("postKubeadmCommands").items() {
		k.carry(p, "postJoin")
	}
}

func (c *converter) ntp(d *draft, v value) {
	v.only("servers", "enabled")
	servers := v.at("servers").items()
	if e := v.at("enabled"); e.is() && !e.yes() {
		d.remark("Left out: ntp, which is not enabled.")
		return
	}
	for _, s := range servers {
		d.add(s, "", s.text(), "spec", "time", "servers")
	}
}

func (c *converter) users(d *draft, v value) {
	for _, u := range v.items() {
		u.only("name", "gecos", "groups", "primaryGroup", "homeDir", "inactive", "shell", "passwd", "passwdFrom", "lockPassword", "sudo", "sshAuthorizedKeys")
		u.at("passwdFrom").left("give passwd, or set the password by other means", "refers to a secret, which isn't among the documents")
		if u.at("inactive").yes() {
			c.bad(u.at("inactive"), "leave the user out", "a user that may not log in can't be carried")
		}
		var groups []string
		for g := range strings.SplitSeq(u.at("groups").text(), ",") {
			if g = strings.TrimSpace(g); g != "" {
				groups = append(groups, g)
			}
		}
		hash := u.at("passwd").text()
		if hash != "" && !c.WithSecrets {
			c.bad(u.at("passwd"), "take it along with --with-secrets, or leave it out", "is secret: the password hash of user %s", short(u.at("name").text()))
			hash = ""
		}
		var lock *yaml.Node
		if l := u.at("lockPassword"); l.is() {
			lock = encode(l.yes())
		}
		user := encode(fields{{"name", u.at("name").text()}, {"comment", u.at("gecos").text()}, {"groups", groups}, {"primaryGroup", u.at("primaryGroup").text()},
			{"home", u.at("homeDir").text()}, {"shell", u.at("shell").text()}, {"sshAuthorizedKeys", u.at("sshAuthorizedKeys").texts()},
			{"sudo", u.at("sudo").text()}, {"passwordHash", hash}})
		if lock != nil {
			user.Content = append(user.Content, text("lockPassword"), lock)
		}
		d.add(u, "", user, "spec", "users")
	}
}

// diskSetup reads diskSetup and mounts, which belong together: what is made
// there is mounted here.
func (c *converter) diskSetup(d *draft, m *machine, v value) {
	setup := v.at("diskSetup")
	setup.only("partitions", "filesystems")
	mounts := v.at("mounts").items()
	claimed := map[int]bool{}
	filesystems := setup.at("filesystems").items()
	for _, p := range setup.at("partitions").items() {
		p.only("device", "layout", "overwrite", "tableType", "diskLayout")
		p.at("diskLayout").left("one filesystem a disk", "more than one partition on a disk can't be carried")
		if p.at("overwrite").yes() {
			c.bad(p.at("overwrite"), "leave it out", "a disk that holds anything is never partitioned anew")
		}
		if !slices.ContainsFunc(filesystems, func(f value) bool { return f.at("device").text() == p.at("device").text() }) && p.at("layout").yes() {
			c.bad(p, "give it a filesystem", "a disk that is only partitioned can't be carried")
		}
	}
	for _, f := range filesystems {
		f.only("device", "filesystem", "label", "partition", "overwrite", "replaceFS", "extraOpts")
		f.at("replaceFS").left("leave it out", "another filesystem is never replaced")
		if f.at("overwrite").yes() {
			c.bad(f.at("overwrite"), "leave it out; a blank disk is formatted, and one with this filesystem is adopted", "a disk that holds anything is never formatted")
		}
		device, label := f.at("device").text(), f.at("label").text()
		where, options := "", []string(nil)
		for i, row := range mounts {
			cells := row.texts()
			if len(cells) >= 2 && !claimed[i] && (cells[0] == device || label != "" && (cells[0] == "LABEL="+label || cells[0] == "/dev/disk/by-label/"+label)) {
				where, options, claimed[i] = cells[1], mountOptions(cells), true
				break
			}
		}
		if where == "" {
			c.bad(f, "add a row to mounts", "is mounted nowhere")
			continue
		}
		if m.mounts[where] {
			d.remark("Decided: " + where + " is a disk of the machine's template or pool, which says more than diskSetup.")
			continue
		}
		var selected fields
		comment := ""
		switch {
		case strings.HasPrefix(device, "/dev/disk/by-id/"), strings.HasPrefix(device, "/dev/disk/by-path/"):
			selected = fields{{"path", device}}
		case len(filesystems) == 1:
			selected = fields{{"blank", &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}}}
			comment = "Decided: the one blank disk, since " + device + " is another disk after another boot; once formatted it is found by its label."
		default:
			c.bad(f.at("device"), "name a link below /dev/disk/by-id or /dev/disk/by-path", "%s is another disk after another boot, and there are several", short(device))
			continue
		}
		if p := f.at("partition").text(); p != "" && p != "none" && p != "auto" && p != "any" && p != "1" {
			c.bad(f.at("partition"), "one filesystem a disk", "partition %s can't be carried", short(p))
			continue
		}
		if len(setup.at("partitions").items()) > 0 {
			comment = strings.TrimSpace(comment + " Decided: the filesystem is made on the whole disk, without a partition.")
		}
		if label == "" || len(label) > labelLimit(f.at("filesystem").text()) {
			label = c.label(d, where)
		}
		c.disk(d, m, f, comment, diskEntry{name: diskName(where), selected: selected, fs: f.at("filesystem").text(), label: label, where: where,
			mkfs: f.at("extraOpts").texts(), options: options})
	}
	for i, row := range mounts {
		if claimed[i] {
			continue
		}
		cells := row.texts()
		if len(cells) < 2 {
			c.bad(row, "[what, where, type, options]", "names no mount point")
			continue
		}
		if m.mounts[cells[1]] {
			d.remark("Decided: " + cells[1] + " is a disk of the machine's template or pool, which mounts it.")
			continue
		}
		if cells[1] == "none" || cells[1] == "swap" || len(cells) > 2 && cells[2] == "swap" {
			c.bad(row, "leave it out; swap is turned off unless spec.swap.mode is keep", "is swap")
			continue
		}
		what := cells[0]
		if strings.HasPrefix(what, "/dev/") && !strings.HasPrefix(what, "/dev/disk/") || strings.HasPrefix(what, "ephemeral") {
			c.bad(row, "name its label: LABEL=…", "%s is another disk after another boot", short(what))
			continue
		}
		kind := ""
		if len(cells) > 2 && cells[2] != "auto" {
			kind = cells[2]
		}
		d.add(row, "", fields{{"what", what}, {"where", path.Clean(cells[1])}, {"type", kind}, {"options", mountOptions(cells)}}, "spec", "mounts")
	}
}

// mountOptions are those of a row of mounts, without those that are a matter
// of fstab.
func mountOptions(cells []string) (out []string) {
	if len(cells) < 4 {
		return nil
	}
	for o := range strings.SplitSeq(cells[3], ",") {
		if o = strings.TrimSpace(o); o != "" && o != "defaults" && o != "nofail" && o != "auto" && !strings.HasPrefix(o, "x-systemd.") {
			out = append(out, o)
		}
	}
	return out
}
