// Package firewall opens the ports of a worker, now and after the next boot, in
// the firewall that is active. The firewall stays on, and nothing of others is
// changed.
package firewall

import (
	"context"
	"fmt"
	"slices"

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
	Network   host.Network   `json:"network"`
	Toward    string         `json:"toward,omitempty"` // local address towards the API server, where it decides
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
	return f, nil
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

// Plan opens what isn't open, by what is active: a running firewalld first; else
// the files of one that is installed.
func Plan(spec config.Spec, f Facts) change.Plan {
	w, err := want(spec)
	if err != nil { // the configuration was checked; saved facts may come with another
		return change.Plan{Blocked: []error{fail.Wrap(fail.Usage, err, "write it as 10250/tcp or 30000-32767/udp", "spec.firewall.allow")}}
	}
	fw := f.Firewalld
	switch {
	case spec.Firewall.Manager == "none":
		return change.Plan{}
	case spec.Firewall.Manager == "iptables" && fw.Running:
		return change.Plan{Blocked: []error{fail.New(fail.Step, "set firewall.manager to auto, or stop firewalld yourself", "firewall.manager is iptables, but firewalld runs and would go on rejecting what iptables accepts")}}
	case spec.Firewall.Manager == "iptables":
		return change.Plan{}
	case fw.Installed:
		return planFirewalld(spec, w, f)
	case spec.Firewall.Manager == "firewalld" && !slices.Contains(spec.Packages.Install, "firewalld"):
		return change.Plan{Blocked: []error{fail.New(fail.Step, "install firewalld, or set firewall.manager to auto", "firewall.manager is firewalld, and firewalld isn't on this host")}}
	}
	return change.Plan{}
}

// said collects warnings once each.
func said(p *change.Plan, format string, a ...any) {
	if s := fmt.Sprintf(format, a...); !slices.Contains(p.Warnings, s) {
		p.Warnings = append(p.Warnings, s)
	}
}
