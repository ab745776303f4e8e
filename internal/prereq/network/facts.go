// Package network compares the interfaces that are asked for with the host's
// and, when told to, has the host's own network manager configure what
// differs. It observes and plans; it writes nothing.
package network

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/network/netfile"
)

// resolvers are the files that name the host's DNS servers: /etc/resolv.conf,
// and, where that leads to a local stub, those of systemd-resolved and of
// NetworkManager with the servers behind it.
var resolvers = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf", "/run/NetworkManager/resolv.conf"}

// Facts is what was observed; nothing when no interface is asked for.
type Facts struct {
	Live    bool         `json:"live,omitempty"`
	Network host.Network `json:"network,omitzero"`
	Servers []string     `json:"servers,omitempty"` // of DNS
	Search  []string     `json:"search,omitempty"`
	// Owners and Ours are of the interfaces that are to be configured: who has
	// each, and nodeagent's own file for it.
	Owners map[string]host.NetworkOwner `json:"owners,omitempty"`
	Ours   map[string]host.Text         `json:"ours,omitempty"`
}

// Observe reads links, addresses, routes and resolvers, and asks for the owners
// of interfaces that are to be configured.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Live: v.Live()}
	if len(spec.Network.Interfaces) == 0 || !f.Live {
		return f, nil
	}
	var err error
	if f.Network, err = v.Network(); err != nil {
		return f, err
	}
	if err := f.resolve(v); err != nil {
		return f, err
	}
	if !spec.Network.Configure {
		return f, nil
	}
	f.Owners, f.Ours = map[string]host.NetworkOwner{}, map[string]host.Text{}
	for _, c := range spec.Network.Interfaces {
		link, why := f.link(c)
		if why != "" {
			continue
		}
		o, err := v.NetworkOwner(ctx, link.Name)
		if err != nil {
			return f, err
		}
		f.Owners[link.Name] = o
		if o.Manager != "" {
			path, _ := netfile.Path(o.Manager, link.Name)
			if f.Ours[link.Name], err = host.ReadText(v, path); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// resolve finds the name servers: those of /etc/resolv.conf, and when that
// names only a stub on this host, those behind it.
func (f *Facts) resolve(v host.View) error {
	for _, file := range resolvers {
		t, err := host.ReadText(v, file)
		if err != nil {
			return err
		}
		servers, search := resolver(t.Content)
		f.Servers, f.Search = union(f.Servers, servers), union(f.Search, search)
		local := func(s string) bool { ip, err := netip.ParseAddr(s); return err == nil && ip.IsLoopback() }
		if slices.ContainsFunc(f.Servers, func(s string) bool { return !local(s) }) {
			break
		}
	}
	return nil
}

// resolver reads name servers and search domains (resolv.conf(5)); of several
// search lines the last counts.
func resolver(content string) (servers, search []string) {
	for line := range strings.Lines(content) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "nameserver":
			servers = append(servers, f[1])
		case f[0] == "search", f[0] == "domain":
			search = f[1:]
		}
	}
	return servers, search
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// link finds the interface that is meant, or says why there is none. What
// carries a card's address on top of it (a bond, a VLAN) isn't the card.
func (f Facts) link(c config.Interface) (host.Link, string) {
	if c.MAC == "" {
		for _, l := range f.Network.Links {
			if l.Name == c.Name {
				return l, ""
			}
		}
		return host.Link{}, "there is no interface " + c.Name + " (" + f.cards() + ")"
	}
	mac, _ := config.HardwareAddress(c.MAC)
	var found []host.Link
	for _, l := range f.Network.Links {
		if l.MAC == mac || l.Permanent == mac {
			found = append(found, l)
		}
	}
	for _, prefer := range []func(host.Link) bool{
		func(l host.Link) bool { return l.Permanent == mac }, // a bond gives its cards another address
		func(l host.Link) bool { return l.Kind == "device" && l.MAC == mac },
		func(l host.Link) bool { return l.MAC == mac },
	} {
		fits := slices.DeleteFunc(slices.Clone(found), func(l host.Link) bool { return !prefer(l) })
		if len(fits) == 1 {
			return fits[0], ""
		}
		if len(fits) > 1 {
			return host.Link{}, "several interfaces have the hardware address " + mac + ": " + fits[0].Name + ", " + fits[1].Name
		}
	}
	return host.Link{}, "no interface has the hardware address " + mac + " (" + f.cards() + ")"
}

// cards lists the network cards with their hardware addresses, as evidence.
func (f Facts) cards() string {
	var out []string
	for _, l := range f.Network.Links {
		if l.MAC != "" && (l.Kind == "device" || l.Card) {
			out = append(out, l.Name+" "+l.MAC)
		}
	}
	if len(out) == 0 {
		return "there is no network card"
	}
	return "there are " + strings.Join(out, ", ")
}
