package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	// linkName is what the kernel takes as a link's name (dev_valid_name in
	// net/core/dev.c) without what would mean something in a pattern of
	// systemd.network(5) or a list of a keyfile.
	linkName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}$`)
	searchDomain = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)
)

// HardwareAddress returns an Ethernet address in lower case with colons, from
// colons or dashes in any case; false when it is none.
func HardwareAddress(s string) (string, bool) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || strings.Contains(s, ".") {
		return "", false
	}
	return mac.String(), true
}

// network checks the interfaces. Everything that goes into a file of a network
// manager is held to a form here.
func (k *checker) network(s *Spec) {
	seen := map[string]string{}
	gateways := map[bool]string{}
	for i, c := range s.Network.Interfaces {
		at := fmt.Sprintf("spec.network.interfaces[%d]", i)
		k.interfaceKey(at, c, seen)
		nets := k.interfaceAddresses(at, c, seen)
		k.gateway(at+".gateway", c.Gateway, nets, gateways)
		for j, ip := range c.DNS {
			to := fmt.Sprintf("%s.dns[%d]", at, j)
			if a, err := netip.ParseAddr(ip); err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
				k.bad(to, "the address alone, such as 192.0.2.53", "%q is not the address of a name server", ip)
			} else if a.String() != ip {
				k.bad(to, "write "+a.String(), "%s is not how the address is written", ip)
			}
		}
		for j, d := range c.Search {
			if !searchDomain.MatchString(d) || strings.Contains(d, "..") {
				k.bad(fmt.Sprintf("%s.search[%d]", at, j), "such as cluster.example", "%q is not a domain", d)
			}
		}
		if s.Network.Configure && len(c.Addresses) == 0 {
			k.bad(at+".addresses", "give the interface its addresses, or leave it away: DHCP needs no configuration of nodeagent's", "missing, and network.configure is true")
		}
	}
	if s.Network.Configure && len(s.Network.Interfaces) == 0 {
		k.bad("spec.network.configure", "describe them in spec.network.interfaces", "true, and no interface is given")
	}
}

// interfaceKey checks by what an interface is found, and that nothing names it
// twice.
func (k *checker) interfaceKey(at string, c Interface, seen map[string]string) {
	once := func(at, what, value string) {
		if other := seen[value]; other != "" {
			k.bad(at, "describe each interface once", "%s %s is given at %s already", what, value, other)
		}
		seen[value] = at
	}
	if c.Name == "" && c.MAC == "" {
		k.bad(at, "give it mac (ip -br link shows it), or name", "neither name nor mac tells which interface this is")
	}
	if c.Name != "" && (!linkName.MatchString(c.Name) || c.Name == "lo" || c.Name == "all" || c.Name == "default") {
		k.bad(at+".name", "such as eth0 or ens192", "%q is not the name of a network card", c.Name)
	} else if c.Name != "" {
		once(at+".name", "interface", c.Name)
	}
	if c.MAC != "" {
		if mac, ok := HardwareAddress(c.MAC); !ok {
			k.bad(at+".mac", "such as 00:50:56:86:12:34", "%q is not a hardware address", c.MAC)
		} else {
			once(at+".mac", "the hardware address", mac)
		}
	}
}

// interfaceAddresses checks the addresses and returns their networks.
func (k *checker) interfaceAddresses(at string, c Interface, seen map[string]string) []netip.Prefix {
	var nets []netip.Prefix
	for j, text := range c.Addresses {
		to := fmt.Sprintf("%s.addresses[%d]", at, j)
		p, err := netip.ParsePrefix(text)
		ip := p.Addr()
		switch {
		case err != nil && maskOf(text) != "":
			k.bad(to, "write "+maskOf(text), "%q has a mask, not a prefix length", text)
		case err != nil:
			k.bad(to, "an address with prefix length, such as 192.0.2.10/24", "%q is not an address with prefix length", text)
		case p.String() != text:
			k.bad(to, "write "+p.String(), "%s is not how the address is written", text)
		case ip.Is4In6() || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
			k.bad(to, "an address by which others reach this host", "%s can't be a host's own address in a network", text)
		case p.Bits() == 0 || p.Bits() < ip.BitLen() && p.Masked().Addr() == ip:
			k.bad(to, "the address of this host in it", "%s is a network, not an address in one", text)
		case ip.Is4() && p.Bits() < 31 && ip == broadcast(p):
			k.bad(to, "the address of this host in it", "%s is the broadcast address of its network", text)
		case seen[ip.String()] != "":
			k.bad(to, "give each address once", "%s is given at %s already", ip, seen[ip.String()])
		default:
			seen[ip.String()] = to
			nets = append(nets, p)
		}
	}
	return nets
}

// gateway checks that the default gateway is reached over one of the
// interface's own networks. An IPv6 router may be named by its link-local
// address.
func (k *checker) gateway(at, text string, nets []netip.Prefix, others map[bool]string) {
	if text == "" {
		return
	}
	ip, err := netip.ParseAddr(text)
	inside := func(p netip.Prefix) bool { return p.Contains(ip) }
	sameFamily := func(p netip.Prefix) bool { return p.Addr().Is4() == ip.Is4() }
	switch {
	case err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast():
		k.bad(at, "an address without prefix length, such as 192.0.2.1", "%q is not the address of a gateway", text)
	case ip.String() != text:
		k.bad(at, "write "+ip.String(), "%s is not how the address is written", text)
	case slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Addr() == ip }):
		k.bad(at, "name the router's address", "%s is an address of the interface itself", text)
	case ip.Is6() && ip.IsLinkLocalUnicast() && slices.ContainsFunc(nets, sameFamily):
	case !slices.ContainsFunc(nets, inside):
		k.bad(at, "check prefix length and gateway: a gateway is in one of the networks of its interface", "%s is in no network of the interface's addresses", text)
	}
	if err != nil {
		return
	}
	if other := others[ip.Is4()]; other != "" {
		k.warnings = append(k.warnings, fmt.Sprintf("%s: a default gateway is given at %s, too: which one is used is up to the routes' metrics; keep the one over which the host reaches everything else", at, other))
	}
	others[ip.Is4()] = at
}

// maskOf writes ADDRESS/255.255.255.0 or ADDRESS 255.255.255.0 with a prefix
// length; empty when it isn't that.
func maskOf(text string) string {
	host, mask, ok := strings.Cut(strings.ReplaceAll(text, " ", "/"), "/")
	ip, err1 := netip.ParseAddr(host)
	m, err2 := netip.ParseAddr(mask)
	if !ok || err1 != nil || err2 != nil || !ip.Is4() || !m.Is4() {
		return ""
	}
	bytes := m.As4()
	ones, bits := net.IPMask(bytes[:]).Size()
	if bits == 0 || ones == 0 { // holes in it, or none at all
		return ""
	}
	return netip.PrefixFrom(ip, ones).String()
}

// broadcast is the last address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}
