package route

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Choice is the interface and address by which the cluster reaches this node,
// and why it is this one.
type Choice struct {
	Interface string // empty when nothing can be said yet
	Address   string // may be empty: the interface has none yet
	Why       string // "it has node-ip 192.0.2.10", for messages
	// Doubt is set when something else had the same right to be chosen or what
	// was asked for isn't there; one sentence.
	Doubt string
}

// NodeInterface chooses the interface of the node's address: the one that has
// node-ip; else that of the best default route; among equal ones the one that
// reaches the API server; without a default route the only one with an address;
// without any address the only network card. toward is the local address from
// which the API server is reached, or empty (see Toward).
func NodeInterface(spec config.Spec, n host.Network, toward string) Choice {
	var doubt string
	family := spec.Network.DefaultRoute.Family
	if ip, ok := nodeIP(spec); ok {
		if ip.IsUnspecified() { // kubelet takes 0.0.0.0 or :: as a wish for a family
			family = familyOf(ip)
		} else {
			for _, a := range n.Addresses {
				if a.IP == ip.String() {
					return Choice{Interface: a.Interface, Address: a.IP, Why: "it has node-ip " + a.IP}
				}
			}
			doubt = fmt.Sprintf("node-ip %s is on no interface (%s); kubelet doesn't start without it", ip, n.Describe())
		}
	}
	c := chooseWithout(family, n, toward)
	if doubt != "" {
		c.Doubt = doubt
	}
	return c
}

// chooseWithout chooses when no node-ip decides.
func chooseWithout(family string, n host.Network, toward string) Choice {
	if best := equals(family, n); len(best) > 0 {
		c := Choice{Interface: best[0].Interface, Address: n.AddressOf(best[0]), Why: "it has the default route"}
		if len(best) == 1 {
			return c
		}
		names := make([]string, len(best))
		for i, r := range best {
			names[i] = r.Interface
		}
		c.Why = "the kernel names it first"
		for _, r := range best {
			if toward != "" && n.AddressOf(r) == toward {
				c = Choice{Interface: r.Interface, Address: toward, Why: "the API server is reached over it"}
			}
		}
		c.Doubt = fmt.Sprintf("default routes of equal metric %d on %s: %s is taken since %s; node-ip in kubelet.extraArgs would settle it",
			best[0].Metric, strings.Join(names, ", "), c.Interface, c.Why)
		return c
	}
	for _, a := range n.Addresses {
		if toward != "" && a.IP == toward {
			return Choice{Interface: a.Interface, Address: a.IP, Why: "the API server is reached over it"}
		}
	}
	names := withAddress(family, n)
	if len(names) == 1 {
		for _, a := range n.Addresses {
			if a.Interface == names[0] && fits(a, family) {
				return Choice{Interface: a.Interface, Address: a.IP, Why: "no other has an address"}
			}
		}
	}
	if len(names) > 1 {
		return Choice{Doubt: fmt.Sprintf("no default route, and addresses on %s: node-ip in kubelet.extraArgs would settle it", strings.Join(names, ", "))}
	}
	var cards []string
	for _, l := range n.Links {
		if l.Card {
			cards = append(cards, l.Name)
		}
	}
	if len(cards) == 1 {
		return Choice{Interface: cards[0], Why: "it is the only network card"}
	}
	return Choice{}
}

// equals is the best usable default route and those as good as it on other
// interfaces.
func equals(family string, n host.Network) []host.Route {
	if family == "none" || family == "" {
		family = "any"
	}
	var best []host.Route
	for _, r := range n.Usable(family) {
		if len(best) > 0 && (r.Family != best[0].Family || r.Metric != best[0].Metric) {
			break
		}
		if !slices.ContainsFunc(best, func(b host.Route) bool { return b.Interface == r.Interface }) {
			best = append(best, r)
		}
	}
	return best
}

// withAddress lists the interfaces with an address that aren't made by a
// network plugin: the cards, or all when no card has one.
func withAddress(family string, n host.Network) []string {
	card := map[string]bool{}
	for _, l := range n.Links {
		card[l.Name] = l.Card
	}
	var cards, all []string
	for _, a := range n.Addresses {
		if !fits(a, family) || slices.Contains(all, a.Interface) {
			continue
		}
		all = append(all, a.Interface)
		if card[a.Interface] {
			cards = append(cards, a.Interface)
		}
	}
	if len(cards) > 0 {
		return cards
	}
	return all
}

func fits(a host.Address, family string) bool {
	return family != "ipv4" && family != "ipv6" || a.Family() == family
}

func familyOf(ip netip.Addr) string {
	if ip.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// nodeIP is kubelet's --node-ip; of two for dual stack the first counts.
func nodeIP(spec config.Spec) (netip.Addr, bool) {
	for _, a := range spec.Kubelet.ExtraArgs {
		if a.Name == "node-ip" {
			first, _, _ := strings.Cut(a.Value, ",")
			ip, err := netip.ParseAddr(strings.TrimSpace(first))
			return ip, err == nil
		}
	}
	return netip.Addr{}, false
}

// Toward is the local address from which the API server is reached, asked only
// where NodeInterface needs it. Not knowing is no error: the endpoint may come
// with the token, or there is no network yet.
func Toward(ctx context.Context, v host.View, spec config.Spec, n host.Network) string {
	if ip, ok := nodeIP(spec); ok && !ip.IsUnspecified() {
		return ""
	}
	family := spec.Network.DefaultRoute.Family
	best := equals(family, n)
	if spec.Join.Endpoint == "" || len(best) == 1 || len(best) == 0 && len(withAddress(family, n)) < 2 {
		return ""
	}
	source, err := v.SourceAddress(ctx, spec.Join.Endpoint)
	if err != nil {
		return ""
	}
	return source
}
