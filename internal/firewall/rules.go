package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/iptables"
	"nodeagent/internal/host"
	"nodeagent/internal/join/route"
)

// rulesFile is a file that a service feeds to iptables-restore at boot.
type rulesFile struct{ family, path string }

// rulesFiles are Photon OS's, and those of the package iptables-services.
var rulesFiles = []rulesFile{
	{"ipv4", "/etc/systemd/scripts/ip4save"},
	{"ipv6", "/etc/systemd/scripts/ip6save"},
	{"ipv4", "/etc/sysconfig/iptables"},
	{"ipv6", "/etc/sysconfig/ip6tables"},
}

// iptablesUnits load those files.
var iptablesUnits = []string{"iptables.service", "ip6tables.service"}

// ours ends every rule that nodeagent adds, so that exactly those can be found
// again.
const ours = " -m comment --comment nodeagent -j ACCEPT"

// rules writes what is wanted as rules of one family, as iptables-save prints
// them.
func (w wants) rules(family string) []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf("-A "+format, a...)+ours) }
	for _, r := range w.ports {
		add("INPUT -p %[1]s -m %[1]s --dport %[2]s", r.Protocol, r.Ports(":"))
	}
	if w.cni.icmp && family == "ipv4" {
		add("INPUT -p icmp -m icmp --icmp-type 8")
	}
	if w.cni.icmp && family == "ipv6" {
		add("INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 128")
	}
	if family == "ipv4" { // IP in IP carries IPv4 in IPv4
		for _, p := range w.cni.protocols {
			add("INPUT -p %s", p)
		}
	}
	var sources []string
	for _, s := range w.sources {
		if familyOf(s) == family {
			sources = append(sources, s)
			add("INPUT -s %s", s)
		}
	}
	for _, i := range w.cni.interfaces {
		add("FORWARD -i %s", i)
		add("FORWARD -o %s", i)
	}
	for _, s := range sources {
		add("FORWARD -s %s", s)
		add("FORWARD -d %s", s)
	}
	return out
}

func familyOf(cidr string) string {
	if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is6() {
		return "ipv6"
	}
	return "ipv4"
}

// iptablesActive tells whether iptables guards this host: its service runs (in
// a tree of files: there is a file for it), or its live rules reject something
// that isn't the cluster's own doing.
func iptablesActive(f Facts) bool {
	if !f.Live {
		return len(f.Files) > 0
	}
	for _, u := range f.Units {
		if u.ActiveState == "active" {
			return true
		}
	}
	for _, text := range f.IPTables.Filter {
		if t, err := iptables.Filter(text); err != nil || t.Rejects() {
			return true
		}
	}
	return false
}

// planIPTables plans the files for the next boot as edited text, and the live
// rules by insertion. The service isn't restarted, for that would flush the
// rules of kube-proxy and of the network plugin; and the files never get the
// live rules, for those are among them.
func planIPTables(spec config.Spec, w wants, f Facts) change.Plan {
	var p change.Plan
	node := route.NodeInterface(spec, f.Network, f.Toward).Interface
	kept := map[string]bool{}
	for _, file := range rulesFiles {
		text, ok := f.Files[file.path]
		if !ok {
			continue
		}
		kept[file.family] = true
		editFile(&p, file, text, w.rules(file.family), node)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		live, ok := f.IPTables.Filter[family]
		if !ok {
			continue
		}
		t, err := iptables.Filter(live)
		if err != nil {
			p.Blocked = append(p.Blocked, fail.Wrap(fail.Step, err, "open the ports with nft yourself and set firewall.manager to none", "the live filter table for %s can't be read", family))
			continue
		}
		rules := missing(t, w.rules(family), node)
		if len(rules) > 0 {
			p.Changes = append(p.Changes, change.AllowPorts{Backend: "iptables-" + f.IPTables.Variant, Family: family, Rules: rules, Node: node})
		}
		for _, r := range t.Denied(w.rules(family)) {
			said(&p, "this rule for %s stays and closes a port that is wanted open: %s", family, r)
		}
		if t.Rejects() && !kept[family] {
			said(&p, "no file is known that loads rules for %s at boot (%s): what is opened now is closed after a reboot", family, paths(family))
		}
	}
	if f.IPTables.Both {
		said(&p, "iptables-nft and iptables-legacy both hold rules, and each sees only its own: the ports are opened in %s", f.IPTables.Variant)
	}
	return p
}

// missing are the rules without which the table would reject what they accept.
func missing(t iptables.Table, rules []string, node string) []string {
	inserts, err := t.Missing(rules, node)
	if err != nil {
		panic(err) // the rules are written above
	}
	var out []string
	for _, i := range inserts {
		out = append(out, i.Rule.Text)
	}
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return !slices.Contains(out, r) })
}

// editFile plans a file's new text, and tells of lines that are bent.
func editFile(p *change.Plan, file rulesFile, text host.Text, rules []string, node string) {
	t, err := iptables.Filter(text.Content)
	if err != nil {
		p.Blocked = append(p.Blocked, fail.Wrap(fail.Step, err, "mend the file: iptables-restore --test < "+file.path, "%s can't be loaded at boot", file.path))
		return
	}
	for _, m := range t.Malformed {
		said(p, "%s: %s", file.path, m)
	}
	for _, r := range t.Denied(rules) {
		said(p, "%s: this rule stays and closes a port that is wanted open: %s", file.path, r)
	}
	content, err := iptables.Edit(text.Content, rules, node)
	if err != nil {
		p.Blocked = append(p.Blocked, err)
		return
	}
	if c, ok := text.Keep(file.path, content, fmt.Sprintf("keep the rules for %s in %s", file.family, file.path)); ok {
		p.Changes = append(p.Changes, c)
	}
}

func paths(family string) string {
	var out []string
	for _, f := range rulesFiles {
		if f.family == family {
			out = append(out, f.path)
		}
	}
	return strings.Join(out, ", ")
}
