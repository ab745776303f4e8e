package network

import (
	"fmt"
	"net/netip"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/network/netfile"
)

// render writes an interface's configuration in its manager's words.
func render(c config.Interface, l host.Link, o host.NetworkOwner) string {
	if o.Manager == netfile.NetworkManager {
		return keyfile(c, l, o.Zone)
	}
	return networkFile(c, l)
}

// family is what is asked of one address family.
type family struct {
	addresses, dns []string
	gateway        string
}

func of(c config.Interface, v4 bool) family {
	var f family
	for _, a := range c.Addresses {
		if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Is4() == v4 {
			f.addresses = append(f.addresses, a)
		}
	}
	for _, s := range c.DNS {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Is4() == v4 {
			f.dns = append(f.dns, s)
		}
	}
	if ip, err := netip.ParseAddr(c.Gateway); err == nil && ip.Is4() == v4 {
		f.gateway = c.Gateway
	}
	return f
}

// keyfile is a connection of nm-settings-keyfile(5). The priority has it chosen
// at boot before a profile for any card. zone is kept: without it firewalld
// would put the interface into its default zone. mac-address is compared with
// the card's permanent address.
func keyfile(c config.Interface, l host.Link, zone string) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line(netfile.Head + "spec.network.interfaces.")
	line("[connection]\nid=nodeagent-%s\nuuid=%s\ntype=ethernet", l.Name, netfile.UUID(l.Name))
	mac, byMAC := config.HardwareAddress(c.MAC)
	if byMAC = byMAC && (l.Permanent == "" || l.Permanent == mac); !byMAC {
		line("interface-name=%s", l.Name)
	}
	line("autoconnect=true\nautoconnect-priority=100")
	if zone != "" {
		line("zone=%s", zone)
	}
	if line("\n[ethernet]"); byMAC {
		line("mac-address=%s", strings.ToUpper(mac))
	}
	search := c.Search
	for _, v4 := range []bool{true, false} {
		f := of(c, v4)
		line("\n[%s]", map[bool]string{true: "ipv4", false: "ipv6"}[v4])
		if len(f.addresses) == 0 {
			line("method=auto")
		} else {
			line("method=manual")
		}
		for i, a := range f.addresses {
			if i == 0 && f.gateway != "" {
				a += "," + f.gateway
			}
			line("address%d=%s", i+1, a)
		}
		if len(f.dns) > 0 {
			line("dns=%s;", strings.Join(f.dns, ";"))
		}
		if len(f.addresses) > 0 && len(search) > 0 {
			line("dns-search=%s;", strings.Join(search, ";"))
			search = nil
		}
	}
	return b.String()
}

// networkFile is a file of systemd.network(5). The name is always in it: what
// lies on a card, such as a VLAN, has the card's hardware address, too.
func networkFile(c config.Interface, l host.Link) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line(netfile.Head + "spec.network.interfaces.")
	line("[Match]\nName=%s", l.Name)
	if mac, ok := config.HardwareAddress(c.MAC); ok {
		line("%s=%s", map[bool]string{true: "MACAddress", false: "PermanentMACAddress"}[l.MAC == mac], mac)
	}
	line("\n[Network]")
	v4, v6 := of(c, true), of(c, false)
	switch {
	case len(v4.addresses) == 0:
		line("DHCP=ipv4\nIPv6AcceptRA=no")
	case len(v6.addresses) > 0:
		line("DHCP=no\nIPv6AcceptRA=no")
	default:
		line("DHCP=no\nIPv6AcceptRA=yes")
	}
	for _, a := range c.Addresses {
		line("Address=%s", a)
	}
	if c.Gateway != "" {
		line("Gateway=%s", c.Gateway)
	}
	for _, s := range c.DNS {
		line("DNS=%s", s)
	}
	if len(c.Search) > 0 {
		line("Domains=%s", strings.Join(c.Search, " "))
	}
	return b.String()
}
