package network

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// difference is one thing in which an interface isn't as asked.
type difference struct {
	what string // with the evidence
	hint string
	sort sort
}

// sort tells what to do about a difference.
type sort int

const (
	address  sort = iota // addresses and gateway: the interface's configuration settles them
	resolves             // name servers: it asks for them; what the host makes of that is the resolver's
	outside              // a name, a cable, other routes: nothing that it settles
)

func (d difference) String() string { return d.what + "; " + d.hint }

// differences compares one interface with the host.
func differences(c config.Interface, l host.Link, f Facts) []difference {
	var out []difference
	add := func(s sort, hint, format string, a ...any) {
		out = append(out, difference{fmt.Sprintf(format, a...), hint, s})
	}
	if c.Name != "" && c.Name != l.Name {
		add(outside, "nodeagent renames no interface: write the name that it has, or leave name away", "%s has the hardware address of what the configuration calls %s", l.Name, c.Name)
	}
	if c.Name == l.Name && c.MAC == "" && l.Master != "" {
		add(outside, "describe "+l.Master+" instead", "%s is part of %s", l.Name, l.Master)
	}
	if l.State != "up" {
		add(outside, "look at cable, port and hypervisor (ip -br link)", "%s is %s", l.Name, linkWords(l.State))
	}
	var has []string
	for _, a := range f.Network.Addresses {
		if a.Interface == l.Name {
			has = append(has, fmt.Sprintf("%s/%d", a.IP, a.Prefix))
		}
	}
	for _, want := range c.Addresses {
		if slices.Contains(has, want) {
			continue
		}
		add(address, "give it this address, or write those that it has", "%s has no address %s%s", l.Name, want, elsewhere(f, l.Name, want, has))
	}
	if c.Gateway != "" {
		routes := defaults(f, c.Gateway)
		if !slices.ContainsFunc(routes, func(r host.Route) bool { return r.Interface == l.Name && r.Gateway == c.Gateway }) {
			add(address, "make it the default route, or write the gateway that the host has", "no default route leads via %s on %s (%s)", c.Gateway, l.Name, describe(routes))
		} else if best := routes[0]; best.Gateway != c.Gateway || best.Interface != l.Name {
			add(outside, "give the other route a higher metric, or take it away", "another default route than via %s on %s comes first (%s)", c.Gateway, l.Name, best)
		}
	}
	if missing := without(c.DNS, f.Servers); len(missing) > 0 {
		add(resolves, "look at /etc/resolv.conf and who writes it", "name server%s %s %s not among the host's (%s)", plural(missing, "s"), strings.Join(missing, ", "), isAre(missing), orNone(f.Servers))
	}
	if missing := without(c.Search, f.Search); len(missing) > 0 {
		add(resolves, "look at /etc/resolv.conf and who writes it", "search domain%s %s %s not among the host's (%s)", plural(missing, "s"), strings.Join(missing, ", "), isAre(missing), orNone(f.Search))
	}
	return out
}

func linkWords(state string) string {
	if state == "no carrier" {
		return "up, but has no carrier"
	}
	return state
}

// elsewhere is the evidence beside a missing address: who has it, or what is
// there.
func elsewhere(f Facts, link, want string, has []string) string {
	ip, _, _ := strings.Cut(want, "/")
	for _, a := range f.Network.Addresses {
		if a.IP == ip && a.Interface == link {
			return fmt.Sprintf(" (its prefix length is %d)", a.Prefix)
		}
		if a.IP == ip {
			return " (" + a.Interface + " has it)"
		}
	}
	if len(has) == 0 {
		return " (it has none)"
	}
	return " (it has " + strings.Join(has, ", ") + ")"
}

// defaults are the default routes of a gateway's family, best first.
func defaults(f Facts, gateway string) []host.Route {
	family := host.Address{IP: gateway}.Family()
	out := slices.DeleteFunc(slices.Clone(f.Network.Defaults), func(r host.Route) bool { return r.Family != family })
	slices.SortStableFunc(out, func(a, b host.Route) int { return a.Metric - b.Metric })
	return out
}

func describe(routes []host.Route) string {
	if len(routes) == 0 {
		return "there is none"
	}
	var out []string
	for _, r := range routes {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

func without(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(have, s) })
}

func plural(list []string, s string) string {
	if len(list) == 1 {
		return ""
	}
	return s
}

func isAre(list []string) string {
	if len(list) == 1 {
		return "is"
	}
	return "are"
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
