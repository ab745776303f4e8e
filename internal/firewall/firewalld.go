package firewall

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/port"
	"nodeagent/internal/host"
	"nodeagent/internal/join/route"
)

// planFirewalld plans the node's zone and the trusted zone, each permanently
// first and then in the running rules: a run that ends in between is found
// unfinished by the next.
func planFirewalld(spec config.Spec, w wants, f Facts) change.Plan {
	var p change.Plan
	fw := f.Firewalld
	backend, running := "firewalld", fw.Running
	switch {
	case fw.Running && fw.State != "" && fw.State != "RUNNING":
		p.Blocked = append(p.Blocked, fail.New(fail.Step, "see: journalctl -u firewalld; firewall-cmd --check-config", "firewalld runs but its state is %s", fw.State))
		return p
	case !fw.Running && !f.Live && fw.Enabled:
		// A tree of files: it will run with what the files say.
		running, fw = true, asBooted(fw)
	case !fw.Running:
		backend = "firewalld-offline"
		if f.Live {
			said(&p, "firewalld is installed but doesn't run: the ports are opened in its permanent configuration, and it stays stopped")
		}
	}

	node := route.NodeInterface(spec, f.Network, f.Toward)
	zone, bound := fw.ZoneOf(node.Interface)
	why := "the default zone"
	if bound {
		why = "the zone of " + node.Interface
	}
	if node.Interface != "" {
		why += ", since " + node.Interface + " is the node's interface: " + node.Why
	}
	if used := zonesOfCards(fw, f.Network); node.Interface == "" && len(used) > 1 {
		said(&p, "which interface has the node's address isn't known yet, and the network cards are in zones %s: the ports are opened in %s", strings.Join(used, ", "), zone)
	}
	if later := fw.Permanent[node.Interface]; running && later != "" && later != zone {
		said(&p, "%s is in zone %s now, but in zone %s by the permanent configuration: the ports are opened in %s only", node.Interface, zone, later, zone)
	}

	for _, permanent := range []bool{true, false} {
		if !permanent && !running {
			continue
		}
		c := change.AllowPorts{Backend: backend, Zone: zone, Permanent: permanent, Why: why}
		s := settings(fw.Zones[zone], permanent)
		c.Ports = missingPorts(w.ports, s)
		c.Protocols = missingProtocols(w.cni, s)
		if w.named {
			c.Interfaces = missingInterfaces(&p, w.cni.interfaces, zone, fw, permanent)
			if node.Interface != "" && !bound && binding(fw, permanent)[node.Interface] == "" {
				// Forwarding is accepted only between interfaces that are bound.
				c.Interfaces = append(c.Interfaces, node.Interface)
			}
			c.Forward = !s.Forward
		}
		warnICMP(&p, w.cni, zone, s)
		if !nothing(c) {
			p.Changes = append(p.Changes, c)
		}
		t := change.AllowPorts{Backend: backend, Zone: host.TrustedZone, Permanent: permanent, Why: "what comes from trustedSources is accepted whole"}
		t.Sources = missingSources(&p, w.sources, fw, permanent)
		if !nothing(t) {
			p.Changes = append(p.Changes, t)
		}
	}
	warnSources(&p, w, zone, fw)
	return p
}

// asBooted is a firewalld that starts with its permanent configuration.
func asBooted(fw host.Firewalld) host.Firewalld {
	zones := map[string]host.Zone{}
	for name, z := range fw.Zones {
		zones[name] = host.Zone{Runtime: z.Permanent, Permanent: z.Permanent}
	}
	fw.Zones = zones
	return fw
}

// zonesOfCards are the zones of the machine's own network cards.
func zonesOfCards(fw host.Firewalld, n host.Network) []string {
	used := map[string]bool{}
	for _, l := range n.Links {
		if zone, _ := fw.ZoneOf(l.Name); l.Card {
			used[zone] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

func nothing(c change.AllowPorts) bool {
	return len(c.Ports)+len(c.Protocols)+len(c.Sources)+len(c.Interfaces) == 0 && !c.Forward
}

func settings(z host.Zone, permanent bool) host.ZoneSettings {
	if permanent {
		return z.Permanent
	}
	return z.Runtime
}

func binding(fw host.Firewalld, permanent bool) map[string]string {
	if permanent {
		return fw.Permanent
	}
	return fw.Interfaces
}

// accepts tells whether a zone accepts whatever isn't named in it.
func accepts(s host.ZoneSettings) bool { return s.Target == "ACCEPT" }

func missingPorts(want []port.Range, s host.ZoneSettings) []string {
	if accepts(s) {
		return nil
	}
	open, _ := port.ParseAll(s.Ports)
	return port.Strings(port.Missing(want, open))
}

// missingProtocols adds ICMP only to zones that don't accept it by themselves:
// those with target default do (firewalld.zone(5)).
func missingProtocols(p preset, s host.ZoneSettings) []string {
	if accepts(s) {
		return nil
	}
	want := p.protocols
	if p.icmp && s.Target != "" && s.Target != "default" {
		want = slices.Concat(want, []string{icmp4, icmp6})
	}
	open := map[string]bool{}
	for _, name := range s.Protocols {
		open[cmp.Or(protocolNames[name], name)] = true
	}
	var out []string
	for _, n := range want {
		if !open[n] {
			out = append(out, n)
		}
	}
	return out
}

// missingInterfaces are the plugin's interfaces that no zone has. One that
// somebody bound to another zone stays there.
func missingInterfaces(p *change.Plan, want []string, zone string, fw host.Firewalld, permanent bool) []string {
	var out []string
	for _, i := range want {
		switch has := binding(fw, permanent)[i]; has {
		case "":
			out = append(out, i)
		case zone:
		default:
			if !accepts(settings(fw.Zones[has], permanent)) {
				said(p, "interface %s is in zone %s, so what it forwards to and from zone %s may be rejected", i, has, zone)
			}
		}
	}
	return out
}

// missingSources are those of want that no zone accepting everything covers.
func missingSources(p *change.Plan, want []string, fw host.Firewalld, permanent bool) []string {
	var out []string
	for _, source := range want {
		trusted, other := false, ""
		for _, name := range slices.Sorted(maps.Keys(fw.Zones)) {
			s := settings(fw.Zones[name], permanent)
			if accepts(s) || name == host.TrustedZone {
				trusted = trusted || slices.ContainsFunc(s.Sources, func(has string) bool { return contains(has, source) })
			} else if slices.ContainsFunc(s.Sources, func(has string) bool { return contains(has, source) && contains(source, has) }) {
				other = name
			}
		}
		switch {
		case trusted:
		case other != "":
			if err := fail.New(fail.Step, "take it out there (firewall-cmd --zone="+other+" --remove-source="+source+", and with --permanent), or out of trustedSources",
				"source %s belongs to zone %s of firewalld already, and a source has one zone", source, other); !slices.ContainsFunc(p.Blocked, func(e error) bool { return e.Error() == err.Error() }) {
				p.Blocked = append(p.Blocked, err)
			}
		default:
			out = append(out, source)
		}
	}
	return out
}

// contains tells whether every address of b is in a; sources that are no
// addresses (MACs, ipset:NAME) contain only themselves.
func contains(a, b string) bool {
	x, errX := prefix(a)
	y, errY := prefix(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x.Bits() <= y.Bits() && x.Contains(y.Addr())
}

func prefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		return netip.PrefixFrom(ip, ip.BitLen()), err
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// warnICMP tells when echo requests, which the plugin's health checks send,
// are blocked on purpose: taking a block away isn't ours. With inversion on,
// the list of blocks is the list of what is let in.
func warnICMP(p *change.Plan, cni preset, zone string, s host.ZoneSettings) {
	if !cni.icmp || accepts(s) {
		return
	}
	listed := slices.Contains(s.ICMPBlocks, "echo-request")
	switch {
	case s.ICMPBlockInversion && !listed:
		said(p, "zone %s has icmp-block-inversion on and echo-request isn't in its list, so the network plugin's health checks fail; allow them with: firewall-cmd --zone=%s --add-icmp-block=echo-request", zone, zone)
	case !s.ICMPBlockInversion && listed:
		said(p, "zone %s blocks echo-request, so the network plugin's health checks fail; allow them with: firewall-cmd --zone=%s --remove-icmp-block=echo-request", zone, zone)
	}
}

// warnSources tells of addresses whose traffic another zone judges: sources go
// before interfaces (firewalld.zones(5)).
func warnSources(p *change.Plan, w wants, zone string, fw host.Firewalld) {
	for _, name := range slices.Sorted(maps.Keys(fw.Zones)) {
		s := fw.Zones[name].Runtime
		if name == zone || accepts(s) || len(s.Sources) == 0 {
			continue
		}
		if missing := missingPorts(w.ports, s); len(missing) > 0 {
			said(p, "what comes from %s is judged by zone %s, where these stay closed: %s", strings.Join(s.Sources, " "), name, strings.Join(missing, " "))
		}
	}
}
