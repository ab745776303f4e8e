package host

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Usable returns the default routes over which this host can talk, best first
// within each family, IPv4 before IPv6: those whose interface has a global
// unicast address of the family, or which name a source address that the host
// has elsewhere (an unnumbered link with the address on loopback). family is
// any, ipv4 or ipv6.
func (n Network) Usable(family string) []Route {
	var out []Route
	for _, r := range n.Defaults {
		if family != "any" && family != r.Family {
			continue
		}
		if n.AddressOf(r) != "" {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Route) int {
		return cmp.Or(strings.Compare(a.Family, b.Family), cmp.Compare(a.Metric, b.Metric))
	})
	return out
}

// AddressOf is the local address that traffic over a route has: its preferred
// source, or the first address of its family on its interface; empty when there
// is none.
func (n Network) AddressOf(r Route) string {
	for _, a := range n.Addresses {
		if r.Source != "" && a.IP == r.Source || r.Source == "" && a.Interface == r.Interface && a.Family() == r.Family {
			return a.IP
		}
	}
	return ""
}

// Family is ipv4 or ipv6.
func (a Address) Family() string {
	if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Is6() && !ip.Is4In6() {
		return "ipv6"
	}
	return "ipv4"
}

// Describe says in a line what there is, for somebody who waits for a route:
// "eth0 up, no address; eth1 no carrier".
func (n Network) Describe() string {
	var parts []string
	for _, l := range n.Links {
		addresses := []string{}
		for _, a := range n.Addresses {
			if a.Interface == l.Name {
				addresses = append(addresses, fmt.Sprintf("%s/%d", a.IP, a.Prefix))
			}
		}
		switch {
		case len(addresses) > 0:
			parts = append(parts, l.Name+" "+l.State+", "+strings.Join(addresses, " "))
		case l.Card && l.State == "up":
			parts = append(parts, l.Name+" up, no address")
		case l.Card:
			parts = append(parts, l.Name+" "+l.State)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no network card")
	}
	for _, r := range n.Defaults {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}

// String writes a route as people know it from ip route.
func (r Route) String() string {
	s := r.Family + " default"
	if r.Gateway != "" {
		s += " via " + r.Gateway
	}
	return fmt.Sprintf("%s dev %s metric %d", s, r.Interface, r.Metric)
}
