package host

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
)

// ipvsLink carries the addresses of kube-proxy's IPVS services.
const ipvsLink = "kube-ipvs0"

// clusterOfKernel adds the links of a cluster and, from /proc/net/ip_vs, the
// services on the addresses of kube-proxy's.
func clusterOfKernel(table string, n *ClusterNetwork) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	addresses := map[netip.Addr]bool{}
	for _, l := range links {
		name := l.Attrs().Name
		if !slices.Contains(clusterLinks, name) {
			continue
		}
		n.Links = append(n.Links, name)
		if name != ipvsLink {
			continue
		}
		list, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("listing the addresses of %s: %w", name, err)
		}
		for _, a := range list {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				addresses[ip.Unmap()] = true
			}
		}
	}
	slices.Sort(n.Links)
	for _, s := range parseIPVS(table) {
		if addresses[s.at.Addr()] {
			n.Services = append(n.Services, s.String())
		}
	}
	return nil
}

// ipvsService is a virtual service of IPVS.
type ipvsService struct {
	protocol string // TCP, UDP, SCTP
	at       netip.AddrPort
}

func (s ipvsService) String() string { return s.protocol + " " + s.at.String() }

// ipvsProtocols are the numbers of the protocols that IPVS knows.
var ipvsProtocols = map[string]uint16{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

// parseIPVS reads /proc/net/ip_vs: "TCP  0A600001:01BB rr", and "[2001:0db8:…]:0050"
// for IPv6. Services by firewall mark and what goes to where are left out.
func parseIPVS(text string) []ipvsService {
	var out []ipvsService
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || ipvsProtocols[f[0]] == 0 {
			continue
		}
		i := strings.LastIndex(f[1], ":")
		if i < 0 {
			continue
		}
		port, err := strconv.ParseUint(f[1][i+1:], 16, 16)
		if err != nil {
			continue
		}
		var ip netip.Addr
		if host := f[1][:i]; strings.HasPrefix(host, "[") {
			ip, err = netip.ParseAddr(strings.Trim(host, "[]"))
		} else {
			b, hexErr := hex.DecodeString(host)
			var ok bool
			if ip, ok = netip.AddrFromSlice(b); !ok || !ip.Is4() {
				hexErr = errors.Join(hexErr, errors.New("not an IPv4 address"))
			}
			err = hexErr
		}
		if err != nil || ip.Zone() != "" {
			continue
		}
		out = append(out, ipvsService{f[0], netip.AddrPortFrom(ip, uint16(port))})
	}
	return out
}

// removeFromKernel deletes services of IPVS and links by name.
func removeFromKernel(c change.CleanNetwork) error {
	for _, s := range c.Services {
		if err := deleteIPVS(s); err != nil {
			return fmt.Errorf("removing the IPVS service %s: %w", s, err)
		}
	}
	for _, name := range c.Links {
		link, err := netlink.LinkByName(name)
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			continue // the other end of a pair took it along
		}
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("removing the link %s: %w", name, err)
		}
	}
	return nil
}

// Of linux/ip_vs.h.
const (
	ipvsCmdDelService  = 3
	ipvsAttrService    = 1
	ipvsAttrAF         = 1
	ipvsAttrProtocol   = 2
	ipvsAttrAddr       = 3
	ipvsAttrPort       = 4
	ipvsGenlVersion    = 1
	ipvsAddressLength  = 16
	ipvsServiceMissing = unix.ESRCH
)

// deleteIPVS deletes one virtual service, as ipvsadm -D would.
func deleteIPVS(service string) error {
	protocol, at, _ := strings.Cut(service, " ")
	where, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	family, err := netlink.GenlFamilyGet("IPVS")
	if err != nil {
		return err
	}
	af := uint16(unix.AF_INET)
	if where.Addr().Is6() {
		af = unix.AF_INET6
	}
	address := make([]byte, ipvsAddressLength)
	copy(address, where.Addr().AsSlice())
	port := binary.BigEndian.AppendUint16(nil, where.Port())
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: ipvsCmdDelService, Version: ipvsGenlVersion})
	attr := nl.NewRtAttr(ipvsAttrService|unix.NLA_F_NESTED, nil)
	attr.AddRtAttr(ipvsAttrAF, nl.Uint16Attr(af))
	attr.AddRtAttr(ipvsAttrProtocol, nl.Uint16Attr(ipvsProtocols[protocol]))
	attr.AddRtAttr(ipvsAttrAddr, address)
	attr.AddRtAttr(ipvsAttrPort, port)
	req.AddData(attr)
	if _, err := req.Execute(unix.NETLINK_GENERIC, 0); err != nil && !errors.Is(err, ipvsServiceMissing) {
		return err
	}
	return nil
}
