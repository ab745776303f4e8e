package reset

import (
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/firewall/port"
)

// undoPorts closes what is still open of what the deed opened.
func (p *planner) undoPorts(d Deed) verdict {
	c, ok := last[change.AllowPorts](d)
	if !ok {
		return verdict{}
	}
	c.Ports, c.Protocols, c.Sources, c.Interfaces, c.Rules = nil, nil, nil, nil, nil
	for _, r := range d.Records {
		a, ok := r.Change.(change.AllowPorts)
		if !ok {
			continue
		}
		c.Ports, c.Protocols = append(c.Ports, a.Ports...), append(c.Protocols, a.Protocols...)
		c.Sources, c.Interfaces = append(c.Sources, a.Sources...), append(c.Interfaces, a.Interfaces...)
		c.Rules, c.Forward = append(c.Rules, a.Rules...), c.Forward || a.Forward
	}
	if c.Family != "" {
		return p.undoRules(c)
	}
	z, ok := p.f.Firewalld.Zones[c.Zone]
	if !ok || !c.Permanent && !p.f.Firewalld.Running {
		return verdict{}
	}
	c.Backend = "firewalld"
	if !p.f.Firewalld.Running {
		c.Backend = "firewalld-offline"
	}
	s := z.Runtime
	if c.Permanent {
		s = z.Permanent
	}
	c.Ports = stillOpen(c.Ports, s.Ports)
	c.Protocols, c.Sources, c.Interfaces = both(c.Protocols, s.Protocols), both(c.Sources, s.Sources), both(c.Interfaces, s.Interfaces)
	c.Forward = c.Forward && s.Forward
	if len(c.Ports)+len(c.Protocols)+len(c.Sources)+len(c.Interfaces) == 0 && !c.Forward {
		return verdict{}
	}
	var v verdict
	v.add(1, change.ClosePorts(c))
	return v
}

// stillOpen are those of ours that are open whole.
func stillOpen(ours, open []string) []string {
	have, _ := port.ParseAll(open)
	var out []string
	for _, s := range unlike(ours) {
		if r, err := port.Parse(s); err == nil && len(port.Missing([]port.Range{r}, have)) == 0 {
			out = append(out, s)
		}
	}
	return out
}

func both(a, b []string) []string {
	return slices.DeleteFunc(unlike(a), func(s string) bool { return !slices.Contains(b, s) })
}
