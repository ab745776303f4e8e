// Package firewall opens the ports of a worker, now and after the next boot, in
// the firewall that is active. The firewall stays on, and nothing of others is
// changed.
package firewall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/port"
	"nodeagent/internal/host"
	"nodeagent/internal/join/route"
)

// Facts is what the firewall lets in and where the node's address is.
type Facts struct {
	Live      bool           `json:"live"` // false: a tree of files; what runs isn't known
	Firewalld host.Firewalld `json:"firewalld"`
	// The rest of the firewalls are looked at only when firewalld doesn't run.
	IPTables host.IPTables        `json:"iptables"`
	Units    map[string]host.Unit `json:"units,omitempty"` // those that load rules of iptables
	Files    map[string]host.Text `json:"files,omitempty"` // what they load, by path
	// Flushes is the file whose load by an enabled nftables.service flushes
	// every rule there is.
	Flushes  string       `json:"flushes,omitempty"`
	NFTables bool         `json:"nftables,omitempty"` // nftables.service starts at boot
	Network  host.Network `json:"network"`
	Toward   string       `json:"toward,omitempty"` // local address towards the API server, where it decides
}

// Observe asks the firewall and the kernel.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Live: v.Live()}
	if spec.Firewall.Manager == "none" {
		return f, nil
	}
	var err error
	if f.Firewalld, err = v.Firewalld(ctx); err != nil {
		return f, err
	}
	if f.Network, err = v.Network(); err != nil {
		return f, err
	}
	f.Toward = route.Toward(ctx, v, spec, f.Network)
	if err := observeNFTables(v, &f); err != nil {
		return f, err
	}
	if f.Firewalld.Running {
		return f, nil
	}
	return f, observeIPTables(ctx, v, &f)
}

func observeIPTables(ctx context.Context, v host.View, f *Facts) error {
	for _, file := range rulesFiles {
		text, err := host.ReadText(v, file.path)
		if err != nil {
			return err
		}
		if text.Exists {
			if f.Files == nil {
				f.Files = map[string]host.Text{}
			}
			f.Files[file.path] = text
		}
	}
	var err error
	if f.IPTables, err = v.IPTables(ctx); err != nil {
		return err
	}
	if v.Live() && len(f.Files) > 0 {
		f.Units, err = v.Units(ctx, iptablesUnits)
	}
	return err
}

// observeNFTables looks for a boot-time nftables.service and what it loads:
// RHEL's and SUSE's, and Debian's place.
func observeNFTables(v host.View, f *Facts) error {
	for _, target := range []string{"multi-user", "sysinit"} {
		link, err := v.Stat("/etc/systemd/system/" + target + ".target.wants/nftables.service")
		if err != nil {
			return err
		}
		f.NFTables = f.NFTables || link.Exists
	}
	if !f.NFTables {
		return nil
	}
	for _, path := range []string{"/etc/sysconfig/nftables.conf", "/etc/nftables.conf"} {
		text, err := host.ReadText(v, path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text.Content) {
			if strings.HasPrefix(strings.TrimSpace(line), "flush ruleset") && f.Flushes == "" {
				f.Flushes = path
			}
		}
	}
	return nil
}

// wants is what a configuration asks to be let in.
type wants struct {
	ports   []port.Range
	cni     preset
	named   bool // a network plugin is named
	sources []string
}

func want(spec config.Spec) (wants, error) {
	w := wants{cni: presets[spec.Firewall.CNI], sources: spec.Firewall.TrustedSources}
	w.named = len(w.cni.ports) > 0
	for _, s := range slices.Concat([]string{kubelet}, w.cni.ports, spec.Firewall.Allow) {
		r, err := port.Parse(s)
		if err != nil {
			return w, err
		}
		w.ports = append(w.ports, r)
	}
	w.ports = port.Merge(w.ports)
	return w, nil
}

// Plan opens what isn't open, by what is active: a running firewalld; else
// iptables; else the files of a firewalld that is installed. A host without any
// has nothing to open.
func Plan(spec config.Spec, f Facts) change.Plan {
	w, err := want(spec)
	if err != nil { // the configuration was checked; saved facts may come with another
		return change.Plan{Blocked: []error{fail.Wrap(fail.Usage, err, "write it as 10250/tcp or 30000-32767/udp", "spec.firewall.allow")}}
	}
	if spec.Firewall.Manager == "none" {
		return change.Plan{}
	}
	p := choose(spec, w, f)
	switch {
	case f.Flushes != "":
		said(&p, "%s has flush ruleset, and nftables.service loads it: each start of it removes the rules of kube-proxy and of the network plugin", f.Flushes)
	case f.NFTables && !f.Firewalld.Running:
		said(&p, "nftables.service loads rules that nodeagent doesn't edit: let in there what is to be open: %s", strings.Join(port.Strings(w.ports), " "))
	}
	return p
}

func choose(spec config.Spec, w wants, f Facts) change.Plan {
	manager, fw := spec.Firewall.Manager, f.Firewalld
	firewalldRuns := fw.Running || !f.Live && fw.Installed && fw.Enabled
	refuse := func(hint, sentence string) change.Plan {
		return change.Plan{Blocked: []error{fail.New(fail.Step, hint, "%s", sentence)}}
	}
	coming := func(name string) bool { return slices.Contains(spec.Packages.Install, name) }
	switch {
	case manager == "iptables" && fw.Running:
		return refuse("set firewall.manager to auto, or stop firewalld yourself", "firewall.manager is iptables, but firewalld runs and would go on rejecting what iptables accepts")
	case manager == "iptables" && f.Live && !f.IPTables.Installed && !coming("iptables"):
		return refuse("install iptables, or set firewall.manager to auto", "firewall.manager is iptables, and iptables isn't on this host")
	case manager == "iptables":
		return planIPTables(spec, w, f)
	case manager == "firewalld" && !fw.Installed && !coming("firewalld"):
		return refuse("install firewalld, or set firewall.manager to auto", "firewall.manager is firewalld, and firewalld isn't on this host")
	case fw.Installed && (firewalldRuns || manager == "firewalld"):
		return planFirewalld(spec, w, f)
	case manager == "auto" && iptablesActive(f):
		return planIPTables(spec, w, f)
	case fw.Installed:
		return planFirewalld(spec, w, f)
	}
	return change.Plan{Notes: []string{"no firewall is active here: nothing has to be opened"}}
}

// said collects warnings once each.
func said(p *change.Plan, format string, a ...any) {
	if s := fmt.Sprintf(format, a...); !slices.Contains(p.Warnings, s) {
		p.Warnings = append(p.Warnings, s)
	}
}
