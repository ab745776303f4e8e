package network

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/network/netfile"
)

// Plan tells how the interfaces differ from what is asked, and with
// network.configure has their manager configure those that do.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if len(spec.Network.Interfaces) == 0 {
		return p
	}
	if !f.Live {
		p.Warnings = append(p.Warnings, "the interfaces are compared on the host itself")
		return p
	}
	for _, c := range spec.Network.Interfaces {
		link, none := f.link(c)
		switch {
		case none != "" && spec.Network.Configure:
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "compare with: ip -br link", "%s", none))
		case none != "":
			p.Warnings = append(p.Warnings, none+"; compare with: ip -br link")
		case spec.Network.Configure:
			configure(&p, spec, c, link, f)
		default:
			for _, d := range differences(c, link, f) {
				p.Warnings = append(p.Warnings, d.String())
			}
		}
	}
	return p
}

// configure plans one interface. One that is as asked by whatever means, such
// as a reservation of the DHCP server's, is left alone.
func configure(p *change.Plan, spec config.Spec, c config.Interface, link host.Link, f Facts) {
	o, ours := f.Owners[link.Name], f.Ours[link.Name]
	all := differences(c, link, f)
	differs := func(what sort) bool {
		return slices.ContainsFunc(all, func(d difference) bool { return d.sort == what })
	}
	path, mode := netfile.Path(o.Manager, link.Name)
	content := render(c, link, o)
	written := ours.Exists && ours.Content == content && ours.Mode == mode && ours.Owner == "root:root"
	active := ours.Exists && (o.UUID == netfile.UUID(link.Name) || o.File == path)
	asAsked := !differs(address) && (active || !differs(resolves))
	if asAsked && !o.Pending && (!ours.Exists || written && active) {
		for _, d := range all {
			p.Warnings = append(p.Warnings, d.String())
		}
		return
	}
	if why := refused(c, link, f, o, ours, path, active); why != nil {
		p.Blocked = append(p.Blocked, why)
		return
	}
	s := change.SetInterface{Interface: link.Name, Manager: o.Manager, Path: path, Mode: mode, Content: content, Addresses: c.Addresses, Gateway: c.Gateway, Endpoint: spec.Join.Endpoint}
	if ours.Exists {
		s.Before = &change.Saved{Mode: ours.Mode, Owner: ours.Owner, Content: ours.Content}
	}
	if o.Pending {
		s.Why = append(s.Why, "a run was killed before it knew that the network is there")
	}
	for _, d := range all {
		if d.sort == outside {
			p.Warnings = append(p.Warnings, d.String())
		} else {
			s.Why = append(s.Why, d.what)
		}
	}
	p.Changes = append(p.Changes, s)
	if going := others(c, link.Name, f, true); len(going) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s loses %s, which it has by DHCP or router advertisements: connections to it end", link.Name, strings.Join(going, ", ")))
	}
}

// refused says why an interface that differs can't be configured safely.
func refused(c config.Interface, link host.Link, f Facts, o host.NetworkOwner, ours host.Text, path string, active bool) error {
	const leave = "configure it by its own means, or set network.configure to false to have it compared only"
	switch {
	case link.Kind != "device" && link.Kind != "veth":
		return fail.New(fail.Safety, leave, "%s is a %s, and nodeagent configures plain Ethernet cards only", link.Name, link.Kind)
	case link.State == "no carrier":
		return fail.New(fail.Step, "look at cable, port and hypervisor (ip -br link), and run again", "%s has no carrier, so whether its new configuration works can't be seen", link.Name)
	case link.Master != "":
		return fail.New(fail.Safety, "describe "+link.Master+"'s addresses by its own means", "%s is part of %s, which has the addresses", link.Name, link.Master)
	case o.Manager == "":
		return fail.New(fail.Safety, leave, "no network manager that nodeagent knows configures %s: %s", link.Name, o.Said)
	case ours.Exists && !strings.HasPrefix(ours.Content, netfile.Head):
		return fail.New(fail.Safety, "move it away, or configure the interface in it", "%s is somebody else's", path)
	case !active && !o.Pending && len(o.Losses) > 0:
		return fail.New(fail.Safety, leave, "%s is configured by %s, which has more than nodeagent would write: %s", link.Name, o.Profile, strings.Join(o.Losses, ", "))
	}
	if going := others(c, link.Name, f, false); len(going) > 0 {
		return fail.New(fail.Safety, "add it to the interface's addresses to keep it, or remove it from the host first: somebody may be logged in over it", "%s has the static address %s, which the configuration doesn't have", link.Name, strings.Join(going, ", "))
	}
	return nil
}

// others are the addresses of an interface that the configuration doesn't have
// and that go when it is configured: dynamic ones stay in a family that isn't
// configured.
func others(c config.Interface, link string, f Facts, dynamic bool) []string {
	var out []string
	for _, a := range f.Network.Addresses {
		s := fmt.Sprintf("%s/%d", a.IP, a.Prefix)
		if a.Interface != link || a.Dynamic != dynamic || dynamic && len(of(c, a.Family() == "ipv4").addresses) == 0 {
			continue
		}
		if !slices.ContainsFunc(c.Addresses, func(want string) bool { return strings.HasPrefix(want, a.IP+"/") }) {
			out = append(out, s)
		}
	}
	return out
}
