package change

import (
	"fmt"
	"strings"
)

// AllowPorts lets traffic in: in one firewalld zone, either live or in the
// permanent configuration, or by live rules of iptables of one family.
type AllowPorts struct {
	Backend    string   `json:"backend"` // firewalld, firewalld-offline, iptables-nft, iptables-legacy
	Zone       string   `json:"zone,omitempty"`
	Permanent  bool     `json:"permanent"` // false: the running rules
	Ports      []string `json:"ports,omitempty"`
	Protocols  []string `json:"protocols,omitempty"`
	Sources    []string `json:"sources,omitempty"`    // traffic from them is judged by the zone
	Interfaces []string `json:"interfaces,omitempty"` // the same for interfaces; "lxc+" is a prefix
	Forward    bool     `json:"forward,omitempty"`    // between the zone's own interfaces and sources
	Why        string   `json:"why,omitempty"`        // why this zone

	Family string   `json:"family,omitempty"` // iptables: ipv4, ipv6
	Rules  []string `json:"rules,omitempty"`  // iptables: to be added to the filter table, each where it has an effect
	Node   string   `json:"node,omitempty"`   // iptables: the node's interface
}

func (c AllowPorts) ID() string {
	switch {
	case c.Family != "":
		return "firewall:" + c.Backend + ":" + c.Family
	case c.Permanent:
		return "firewall:" + c.Zone + ":permanent"
	}
	return "firewall:" + c.Zone + ":runtime"
}
func (c AllowPorts) Summary() string {
	if c.Family != "" {
		return fmt.Sprintf("insert %d rule(s) into the live filter table for %s (%s)", len(c.Rules), c.Family, c.Backend)
	}
	when := "now"
	if c.Permanent {
		when = "permanently"
	}
	var what []string
	for _, group := range []struct {
		name string
		list []string
	}{{"", c.Ports}, {"protocol ", c.Protocols}, {"from ", c.Sources}, {"interface ", c.Interfaces}} {
		if len(group.list) > 0 {
			what = append(what, group.name+strings.Join(group.list, " "))
		}
	}
	if c.Forward {
		what = append(what, "forwarding inside the zone")
	}
	return fmt.Sprintf("allow in zone %s %s: %s", c.Zone, when, strings.Join(what, ", "))
}
func (c AllowPorts) Diff() string {
	if len(c.Rules) > 0 {
		return strings.Join(c.Rules, "\n") + "\n"
	}
	return c.Why
}
func (c AllowPorts) Class() Class { return Additive }
