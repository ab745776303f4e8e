package manifest

import (
	"path"
	"regexp"
	"strings"
)

// commands tells those with a native meaning from those that become hooks.
type commands struct {
	c     *converter
	d     *draft
	m     *machine
	files map[string]bool   // files that the manifest brings
	disks map[string]string // device → where a command mounts it
	time  bool              // the manifest names time servers
}

// unit is a systemd unit in a command.
const unit = `[a-zA-Z0-9@_.-]+`

var (
	waitsForRoute = regexp.MustCompile(`^(while|until)\s.*ip (-[46] )?r(oute)?\b.*default.*\bdone\b`)
	diskSetup     = regexp.MustCompile(`^(if \[ -[fex] /etc/disk-setup\.sh \]; then )?((ba)?sh |\. |source )?/etc/disk-setup\.sh(; fi)?$`)
	runClusterAPI = regexp.MustCompile(`^(mkdir (-p |-m ?\d+ )*|restorecon (-[A-Za-z]+ )*)/run/cluster-api/?$`)
	sentinel      = regexp.MustCompile(`^(touch|echo .*>)\s*/run/cluster-api/bootstrap-success\.complete$`)
	swapOff       = regexp.MustCompile(`^swapoff (-a|--all)( -v)?$`)
	swapFstab     = regexp.MustCompile(`^sed (-[a-zA-Z.]+ )*(-[a-zA-Z]*i\S* )(-[a-zA-Z]+ )*('[^']*swap[^']*'|"[^"$` + "`" + `]*swap[^"$` + "`" + `]*") /etc/fstab$`)
	systemctl     = regexp.MustCompile(`^(?:sudo )?systemctl ((?:--now |-q |--quiet |--system )*)(enable|start|restart|reload-or-restart|reload|disable|stop|mask|daemon-reload)((?: --now| --force|(?: ` + unit + `))*)$`)
	setHostname   = regexp.MustCompile(`^(?:hostnamectl (?:--static )?set-hostname|hostname) ["']?([^"'$` + "`" + `\s][^"'$` + "`" + `]*)["']?$`)
	writeHostname = regexp.MustCompile(`^echo ["']?([^"'$` + "`" + `]*?)["']?\s*>\s*/etc/hostname$`)
	modprobe      = regexp.MustCompile(`^modprobe (?:-a )?((?:[a-zA-Z0-9_-]+ ?)+)$`)
	setSysctl     = regexp.MustCompile(`^sysctl (?:-q )?(?:-w )?["']?([a-z0-9_]+(?:[./][a-zA-Z0-9_-]+)+)\s*=\s*["']?([^"'$` + "`" + `]+?)["']?$`)
	reloadSysctl  = regexp.MustCompile(`^sysctl (-q )?(--system|-p( /etc/sysctl\S*)?)$`)
	formats       = regexp.MustCompile(`(^|[;&|]\s*|\bthen |\bdo )\s*(sudo )?(mkfs(\.[a-z0-9]+)?|mke2fs|wipefs|parted|sgdisk|sfdisk|fdisk|pvcreate|mkswap)\s|\bof=/dev/`)
	mkfs          = regexp.MustCompile(`^(?:sudo )?mkfs(?:\.[a-z0-9]+| -t [a-z0-9]+)(?: -[fFq]| -L \S+)* (/dev/\S+)$`)
	mount         = regexp.MustCompile(`^(?:sudo )?mount (?:-t \S+ )?(?:-o \S+ )?(/dev/\S+|LABEL=\S+) (/\S+)$`)
	fstabLine     = regexp.MustCompile(`^echo ["']([^"'$` + "`" + `\s]+)\s+(/\S+)\s[^"'$` + "`" + `]*["']\s*>>\s*/etc/fstab$`)
	makeDir       = regexp.MustCompile(`^(?:sudo )?mkdir (?:-p )?(/\S+)$`)
	kubeletEnv    = regexp.MustCompile(`^echo (?:-e )?(["']?)((?:KUBELET_EXTRA_ARGS)=[^>]*?)(["']?)\s*>>?\s*/etc/(?:sysconfig|default)/kubelet$`)
	substitutes   = regexp.MustCompile(`^sed -i\S* (-e )?["']?s(.)(PROVIDER_ID|NODE_IP)`)
	forgiven      = regexp.MustCompile(`(\s*(>|1>|2>|&>)\s*/dev/null|\s*2>&1)*(\s*\|\| (true|:))?$`)
	kubeadm       = regexp.MustCompile(`(^|[;&|(]\s*)(sudo )?kubeadm\s+(join|init|reset)\b`)
)

// ours are units whose state is nodeagent's, and what says so.
var ours = map[string]string{"kubelet": "spec.kubelet", "containerd": "spec.runtime"}

// clocks are units that keep the time.
var clocks = map[string]bool{"chronyd": true, "chrony": true, "ntpd": true, "ntp": true, "systemd-timesyncd": true}

// firewalls are units that commands in manifests stop so that ports are open.
var firewalls = map[string]bool{"firewalld": true, "ufw": true, "iptables": true, "ip6tables": true, "nftables": true}

// devices learns which command mounts which device, so that the format of a
// disk that the machine's template describes is known for what it is.
func (k *commands) devices(v value) {
	k.disks = map[string]string{}
	for _, key := range []string{"bootCommands", "preKubeadmCommands", "postKubeadmCommands"} {
		for _, item := range v.at(key).items() {
			for _, part := range parts(item.text()) {
				for _, form := range []*regexp.Regexp{mount, fstabLine} {
					if found := form.FindStringSubmatch(part); found != nil {
						k.disks[found[1]] = path.Clean(found[2])
					}
				}
			}
		}
	}
}

// parts cuts a command at ; and && outside of quotes and of the shell's
// blocks; a command with more of the shell's grammar stays whole.
func parts(s string) []string {
	s = strings.TrimSpace(s)
	var out []string
	var quote rune
	start := 0
	for i, r := range s {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune("|(){}`\\", r):
			return []string{s}
		case r == ';' || r == '\n' || r == '&' && strings.HasPrefix(s[i:], "&&"):
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		case r == '&' && i > 0 && s[i-1] == '&':
			start = i + 1
		case r == '&':
			return []string{s}
		}
	}
	out = append(out, strings.TrimSpace(s[start:]))
	kept := out[:0]
	for _, p := range out {
		first, _, _ := strings.Cut(p, " ")
		switch first {
		case "":
			continue
		case "if", "then", "else", "elif", "fi", "while", "until", "for", "do", "done", "case", "esac", "cd", "export", "set":
			return []string{s} // what comes after depends on it
		}
		kept = append(kept, p)
	}
	return kept
}

// carry makes a hook of what has no native meaning.
func (k *commands) carry(at value, when string) {
	whole := strings.TrimSpace(at.text())
	if whole == "" || k.native(at, whole) {
		return
	}
	all := parts(whole)
	var rest []string
	for _, p := range all {
		if !k.native(at, p) {
			rest = append(rest, p)
		}
	}
	switch {
	case len(rest) == 0:
		return
	case len(rest) == len(all):
		rest = []string{whole}
	}
	between := " && "
	if !strings.Contains(whole, "&&") { // what came after a failure still does
		between = "; "
	}
	hook := strings.Join(rest, between)
	switch {
	case kubeadm.MatchString(hook):
		k.c.bad(at, "leave it out", "runs kubeadm itself, which is nodeagent's: %s", short(hook))
		return
	case formats.MatchString(hook):
		k.c.bad(at, "describe the disk in the machine's template, in diskSetup, or in spec.disks: a blank one is formatted, one with data is adopted",
			"formats a disk by itself: %s", short(hook))
		return
	case holdsToken(hook) && !k.c.WithSecrets:
		k.c.bad(at, "take it along with --with-secrets, or leave it out", "is secret: it holds something of a token's form")
		return
	}
	if !regexp.MustCompile(`\b(NODE_IP|PROVIDER_ID)=`).MatchString(hook) { // else they are variables of its own
		var ok bool
		if hook, ok = k.c.render(k.m, at, hook); !ok {
			return
		}
	}
	comment := ""
	if hook != whole {
		comment = "Was: " + whole
	}
	k.d.add(at, comment, hook, "spec", "hooks", when)
}

// native tells whether nodeagent does by itself what a command does, and
// writes it into its section.
func (k *commands) native(at value, s string) bool {
	s = strings.TrimSpace(s)
	d, c := k.d, k.c
	// A comment, and what the last part of the seed's own line prints.
	if s == "" || strings.HasPrefix(s, "#") && !strings.Contains(s, "\n") {
		return true
	}
	was := s
	s = forgiven.ReplaceAllString(strings.TrimPrefix(s, "sudo "), "")
	is := func(why string) bool {
		d.remark("Native: " + why + "; was: " + was)
		return true
	}
	// A wait often ends with an echo of what it waited for.
	if before, after, ok := cutLast(s, "done;"); ok && regexp.MustCompile(`^\s*echo ["'][^"'$`+"`"+`]*["']$`).MatchString(after) {
		s = before + "done"
	}
	switch {
	case waitsForRoute.MatchString(s):
		return is("the default route is awaited (spec.network.defaultRoute)")
	case diskSetup.MatchString(s) && !k.files["/etc/disk-setup.sh"]:
		return is("data disks (spec.disks)")
	case runClusterAPI.MatchString(s), sentinel.MatchString(s):
		return is("/run/cluster-api is made, labelled and marked after the join")
	case swapOff.MatchString(s), swapFstab.MatchString(s):
		return is("swap is turned off, now and for good (spec.swap)")
	case reloadSysctl.MatchString(s) && !k.brings("/etc/sysctl.conf", "/etc/sysctl.d/"):
		return is("sysctls take effect at once (spec.kernel.sysctls)")
	case substitutes.MatchString(s):
		return is("PROVIDER_ID and NODE_IP are resolved here")
	}
	if found := systemctl.FindStringSubmatch(s); found != nil {
		return k.systemctl(is, found[2], strings.Fields(found[3]))
	}
	for _, form := range []*regexp.Regexp{setHostname, writeHostname} {
		if found := form.FindStringSubmatch(s); found != nil && !strings.HasPrefix(found[1], "-") {
			if name := strings.TrimSpace(found[1]); !standsForHost(name) {
				c.hostname(d, k.m, at, name)
			}
			return is("the host's name (spec.hostname)")
		}
	}
	if found := modprobe.FindStringSubmatch(s); found != nil && !strings.Contains(s, " -r") {
		for _, name := range strings.Fields(found[1]) {
			if strings.HasPrefix(name, "-") {
				return false
			}
			c.module(d, at, name)
		}
		return is("modules are loaded at every boot (spec.kernel.modules)")
	}
	if found := setSysctl.FindStringSubmatch(s); found != nil {
		d.put(at, "", found[2], "spec", "kernel", "sysctls", found[1])
		return is("sysctls are set at every boot (spec.kernel.sysctls)")
	}
	if found := kubeletEnv.FindStringSubmatch(s); found != nil && found[1] == found[3] {
		c.environment(d, k.m, at, strings.ReplaceAll(found[2], `\"`, `"`)+"\n")
		return is("kubelet's flags (spec.kubelet)")
	}
	return k.diskCommand(is, s)
}

// brings tells whether a file of the output has one of these names or stands
// below one of these directories.
func (k *commands) brings(names ...string) bool {
	for _, f := range k.d.list("spec", "files") {
		for _, name := range names {
			if path := textOf(f, "path"); path == name || strings.HasSuffix(name, "/") && strings.HasPrefix(path, name) {
				return true
			}
		}
	}
	return false
}

func (k *commands) systemctl(is func(string) bool, verb string, words []string) bool {
	// What the manifest brings may need exactly this moment.
	if (verb == "daemon-reload" || strings.HasPrefix(verb, "re")) && k.brings("/etc/systemd/", "/usr/lib/systemd/", "/usr/local/lib/systemd/", "/etc/containerd/", "/etc/sysconfig/", "/etc/default/", "/etc/crictl") {
		return false
	}
	if verb == "daemon-reload" {
		return is("systemd is reloaded when a unit has changed")
	}
	var units []string
	for _, w := range words {
		if !strings.HasPrefix(w, "-") {
			units = append(units, strings.TrimSuffix(w, ".service"))
		}
	}
	on := verb == "enable" || verb == "start" || strings.Contains(verb, "re")
	if len(units) == 0 {
		return false
	}
	for _, u := range units {
		switch {
		case ours[u] != "" && on, clocks[u] && on && k.time, firewalls[u] && !on:
		case strings.HasSuffix(u, ".swap") && !on, u == "swap.target" && !on:
		default:
			return false
		}
	}
	switch u := units[0]; {
	case firewalls[u]:
		k.c.note("a command turns %s off; it isn't carried: the firewall stays on, and spec.firewall opens what a worker needs (name the network plugin: spec.firewall.cni)", u)
		return is("the firewall stays on and gets its ports (spec.firewall)")
	case clocks[u]:
		return is("the clock (spec.time)")
	case strings.HasSuffix(u, "swap") || u == "swap.target":
		return is("swap is turned off, now and for good (spec.swap)")
	}
	return is(strings.Join(units, " and ") + " (" + ours[units[0]] + ")")
}

// diskCommand knows the commands that format and mount a disk of spec.disks.
func (k *commands) diskCommand(is func(string) bool, s string) bool {
	where := ""
	if found := mkfs.FindStringSubmatch(s); found != nil {
		where = k.disks[found[1]]
	}
	for _, form := range []*regexp.Regexp{mount, fstabLine} {
		if found := form.FindStringSubmatch(s); found != nil {
			where = path.Clean(found[2])
		}
	}
	if found := makeDir.FindStringSubmatch(s); found != nil {
		where = path.Clean(found[1])
	}
	if where == "" || !k.m.mounts[where] {
		return false
	}
	return is("the disk of " + where + " (spec.disks)")
}
