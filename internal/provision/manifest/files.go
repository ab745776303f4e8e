package manifest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/kubelet/envfile"
)

// maxContent bounds what is unpacked to be understood, in bytes.
const maxContent = 4 << 20

// fragment is a kubelet patch; several are laid over each other by their names.
type fragment struct {
	at   value
	base string
	data []byte
}

// files carries files. Those with a meaning of their own become what they
// mean: kubelet's patch and flags, modules, sysctls.
func (c *converter) files(d *draft, m *machine, v value, patches string) {
	var kubelet []fragment
	for _, f := range v.items() {
		f.only("path", "owner", "permissions", "encoding", "append", "content", "contentFrom", "contentFormat")
		f.at("contentFrom").left("write the content into the manifest, or bring the file by other means", "refers to a secret, which isn't among the documents")
		f.at("contentFormat").left("write the content as it shall be", "a template isn't filled in")
		if f.at("contentFrom").is() {
			continue
		}
		where := f.at("path").text()
		plain, encoding, content, ok := c.content(f)
		if !ok {
			continue
		}
		base := path.Base(where)
		switch {
		case patches != "" && path.Dir(where) == patches:
			if strings.HasPrefix(base, "kubeletconfiguration") {
				kubelet = append(kubelet, fragment{f, base, plain})
			} else {
				d.remark("Left out: " + where + ", a patch that kubeadm doesn't read on a worker.")
			}
			m.fixed[where] = true
		case where == "/etc/disk-setup.sh" || where == "/etc/containerd/config.toml" || where == "/etc/kubeadm.yml" || where == "/etc/kubeadm.sh" || strings.HasPrefix(where, "/run/kubeadm/"):
			home := map[string]string{"/etc/disk-setup.sh": "describe the disks in the machine's template, or in spec.disks", "/etc/containerd/config.toml": "use spec.runtime"}[where]
			if home == "" {
				home = "leave it out"
			}
			c.bad(f, home, "%s is what nodeagent does itself", where)
		case where == "/etc/hostname":
			if s := strings.TrimSpace(string(plain)); !standsForHost(s) {
				c.hostname(d, m, f, s)
			}
		case (where == "/etc/sysconfig/kubelet" || where == "/etc/default/kubelet") && onlyFlags(string(plain)):
			c.environment(d, m, f, string(plain))
		case where == "/var/lib/kubelet/kubeadm-flags.env":
			c.environment(d, m, f, string(plain))
		case path.Dir(where) == "/etc/modules-load.d" && !f.at("append").yes() && c.moduleFile(d, f, string(plain)):
		case path.Dir(where) == "/etc/sysctl.d" && !f.at("append").yes() && c.sysctlFile(d, f, string(plain)):
		default:
			c.file(d, m, f, where, plain, encoding, content)
		}
	}
	c.kubeletPatches(d, kubelet)
}

// content is what a file holds, and how it is written into the output.
func (c *converter) content(f value) (plain []byte, encoding, content string, ok bool) {
	at := f.at("content")
	content = at.text()
	raw := []byte(content)
	if at.is() && at.n.Tag == "!!binary" {
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
		if err != nil {
			c.bad(at, "", "is not base64")
			return nil, "", "", false
		}
		raw, content = b, base64.StdEncoding.EncodeToString(b)
		encoding = "base64"
	}
	given := f.at("encoding").text()
	switch given {
	case "":
		return raw, encoding, content, true
	case "base64", "gzip+base64", "gz+b64", "gzip+b64", "b64":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(raw)), ""))
		if err != nil {
			c.bad(at, "make it with: base64 FILE, or gzip -c FILE | base64", "is not base64")
			return nil, "", "", false
		}
		encoding, content, raw = "base64", base64.StdEncoding.EncodeToString(b), b
	case "gzip", "gz":
		encoding, content = "base64", base64.StdEncoding.EncodeToString(raw)
	default:
		c.bad(f.at("encoding"), "base64, gzip or gzip+base64", "%q is not an encoding", short(given))
		return nil, "", "", false
	}
	if !strings.HasPrefix(given, "gz") {
		return raw, encoding, content, true
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err == nil {
		plain, err = io.ReadAll(io.LimitReader(z, maxContent+1))
	}
	if err != nil {
		c.bad(at, "make it with: gzip -c FILE | base64", "is not what gzip has packed")
		return nil, "", "", false
	}
	if len(plain) > maxContent {
		c.bad(at, "bring the file by other means", "unpacks to more than %d MiB", maxContent>>20)
		return nil, "", "", false
	}
	return plain, "gzip+base64", content, true
}

// file carries a file as it is.
func (c *converter) file(d *draft, m *machine, f value, where string, plain []byte, encoding, content string) {
	mode := f.at("permissions").text()
	n, err := strconv.ParseUint(mode, 8, 32)
	if secret := mode != "" && err == nil && n&0o007 == 0 || bytes.Contains(plain, []byte("PRIVATE KEY-----")) || holdsToken(string(plain)); secret && !c.WithSecrets {
		c.bad(f, "take it along with --with-secrets, or bring the file by other means", "is secret: the content of %s", where)
		return
	}
	if encoding == "" {
		var ok bool
		if content, ok = c.render(m, f.at("content"), content); !ok {
			return
		}
	} else if bytes.Contains(plain, []byte("PROVIDER_ID")) || bytes.Contains(plain, []byte("NODE_IP")) {
		c.note("%s:%d: %s holds PROVIDER_ID or NODE_IP in an encoding, and is carried as it is", f.file, f.n.Line, where)
	}
	d.add(f, "", fields{{"path", where}, {"owner", f.at("owner").text()}, {"permissions", mode}, {"encoding", encoding}, {"append", f.at("append").yes()}, {"content", content}}, "spec", "files")
}

// kubeletPatches become spec.kubelet.config.
func (c *converter) kubeletPatches(d *draft, all []fragment) {
	slices.SortStableFunc(all, func(a, b fragment) int { return strings.Compare(a.base, b.base) })
	for _, p := range all {
		name := strings.TrimSuffix(p.base, path.Ext(p.base))
		if _, kind, ok := strings.Cut(name, "+"); ok && kind != "strategic" && kind != "merge" {
			c.bad(p.at, "write it as a strategic patch", "a patch of type %s can't be carried", short(kind))
			continue
		}
		var n yaml.Node
		if err := yaml.Unmarshal(p.data, &n); err != nil || len(n.Content) == 0 || n.Content[0].Kind != yaml.MappingNode {
			c.bad(p.at.at("content"), "JSON or YAML", "is not a patch that can be read")
			continue
		}
		left := maxNodes
		root, ok := expand(n.Content[0], 0, &left)
		if !ok {
			c.bad(p.at.at("content"), "", "is nested too deeply")
			continue
		}
		c.kubeletPatch(d, p.at, root)
	}
}

func (c *converter) kubeletPatch(d *draft, at value, root *yaml.Node) {
	plainStyle(root)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, v := root.Content[i].Value, root.Content[i+1]
		switch key {
		case "apiVersion", "kind":
		case "clientCAFile":
			d.remark("Left out of the kubelet's patch: clientCAFile, which kubelet doesn't know at this place and passes over; the cluster's own configuration has authentication.x509.clientCAFile.")
			c.note("%s:%d: the patch has clientCAFile at its top, which kubelet passes over; it is left out", at.file, at.n.Line)
		case "providerID":
			d.put(at, "", v.Value, "spec", "kubelet", "providerID")
		default:
			mergeInto(d.parent([]string{"spec", "kubelet", "config"}), root.Content[i], v)
			d.origin(at, v)
		}
	}
}

// mergeInto lays one key over a mapping, as a strategic patch does it with
// mappings.
func mergeInto(m, key, v *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != key.Value {
			continue
		}
		if m.Content[i+1].Kind == yaml.MappingNode && v.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(v.Content); j += 2 {
				mergeInto(m.Content[i+1], v.Content[j], v.Content[j+1])
			}
			return
		}
		m.Content[i+1] = v
		return
	}
	m.Content = append(m.Content, text(key.Value), v)
}

// plainStyle writes JSON as the YAML around it.
func plainStyle(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	} else if n.Tag == "!!str" {
		*n = *text(n.Value)
	} else if n.Style != 0 && n.Tag != "!!str" {
		n.Style = 0
	}
	for _, child := range n.Content {
		plainStyle(child)
	}
}

// environment carries the flags of an environment file of kubelet.
func (c *converter) environment(d *draft, m *machine, at value, content string) {
	var args []arg
	for _, variable := range []string{"KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS"} {
		for _, f := range envfile.Flags(content, variable) {
			args = append(args, arg{f.Name, f.Value, at})
		}
	}
	what := "a command"
	if at.is() && at.n.Kind == yaml.MappingNode {
		what = at.at("path").text()
	}
	d.remark("Decided: the flags of " + what + " are kubelet's flags here.")
	c.flags(d, m, args)
}

// onlyFlags tells whether an environment file says nothing but flags.
func onlyFlags(content string) bool {
	for line := range strings.Lines(strings.ReplaceAll(content, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && !strings.HasPrefix(line, "KUBELET_EXTRA_ARGS=") && !strings.HasPrefix(line, "KUBELET_KUBEADM_ARGS=") {
			return false
		}
	}
	return true
}

var (
	moduleForm = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	sysctlForm = regexp.MustCompile(`^-?([a-z0-9_]+(?:[./][a-zA-Z0-9_:*-]+)+)\s*=\s*(\S.*?)\s*$`)
)

// moduleFile carries a file of modules-load.d(5), if it holds nothing else.
func (c *converter) moduleFile(d *draft, at value, content string) bool {
	var names []string
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case moduleForm.MatchString(line):
			names = append(names, line)
		default:
			return false
		}
	}
	for _, n := range names {
		c.module(d, at, n)
	}
	return true
}

// module adds a module to those that are always loaded.
func (c *converter) module(d *draft, at value, name string) {
	if name == "overlay" || name == "br_netfilter" {
		return // always loaded
	}
	if list := d.parent([]string{"spec", "kernel"}); len(list.Content) > 0 {
		for i := 0; i+1 < len(list.Content); i += 2 {
			if list.Content[i].Value == "modules" && slices.ContainsFunc(list.Content[i+1].Content, func(n *yaml.Node) bool { return n.Value == name }) {
				return
			}
		}
	}
	d.add(at, "", name, "spec", "kernel", "modules")
}

// sysctlFile carries a file of sysctl.d(5), if it holds nothing else.
func (c *converter) sysctlFile(d *draft, at value, content string) bool {
	set := map[string]string{}
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		kv := sysctlForm.FindStringSubmatch(line)
		if kv == nil || line[0] == '-' {
			return false
		}
		set[kv[1]] = kv[2]
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		d.put(at, "", set[key], "spec", "kernel", "sysctls", key)
	}
	return true
}
