package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// Network asks the kernel for links, addresses and the default routes of the
// main table.
func (l *Linux) Network() (Network, error) {
	if !l.Live() {
		return Network{}, nil
	}
	for try := 1; ; try++ {
		n, err := network()
		// The tables changed while they were read: what came is incomplete.
		if errors.Is(err, netlink.ErrDumpInterrupted) && try < 10 {
			continue
		}
		if err != nil {
			err = fmt.Errorf("reading the network from the kernel: %w", err)
		}
		return n, err
	}
}

func network() (Network, error) {
	var n Network
	links, err := netlink.LinkList()
	if err != nil {
		return n, err
	}
	names := map[int]string{}
	for _, link := range links {
		a := link.Attrs()
		names[a.Index] = a.Name
		if a.Flags&net.FlagLoopback != 0 {
			continue
		}
		n.Links = append(n.Links, describeLink(link, links))
		if link.Type() == "device" && len(a.HardwareAddr) == 6 {
			n.MACs = append(n.MACs, a.HardwareAddr.String())
		}
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return n, err
	}
	for _, a := range addresses {
		prefix, _ := a.Mask.Size()
		if a.IP.IsGlobalUnicast() && a.Scope == unix.RT_SCOPE_UNIVERSE && checked(a.Flags) {
			n.Addresses = append(n.Addresses, Address{Interface: names[a.LinkIndex], IP: a.IP.String(), Prefix: prefix, Dynamic: a.Flags&unix.IFA_F_PERMANENT == 0})
		}
	}
	for _, f := range []struct {
		name string
		id   int
	}{{"ipv4", netlink.FAMILY_V4}, {"ipv6", netlink.FAMILY_V6}} {
		routes, err := netlink.RouteListFiltered(f.id, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if err != nil {
			return n, err
		}
		for _, r := range routes {
			n.Defaults = append(n.Defaults, defaults(r, f.name, names)...)
		}
	}
	return n, nil
}

// defaults turns a kernel default route into the usable ones in it. A route
// over several links (IPv6 makes one of equal routes) is one for each.
func defaults(r netlink.Route, family string, names map[int]string) []Route {
	if r.Type != unix.RTN_UNICAST { // unreachable, blackhole, prohibit, throw
		return nil
	}
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via, Flags: r.Flags}}
	}
	var out []Route
	for _, hop := range hops {
		if hop.Flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0 || names[hop.LinkIndex] == "" {
			continue
		}
		d := Route{Family: family, Interface: names[hop.LinkIndex], Metric: r.Priority}
		if hop.Gw != nil {
			d.Gateway = hop.Gw.String()
		} else if via, ok := hop.Via.(*netlink.Via); ok && via != nil {
			d.Gateway = via.Addr.String() // an IPv4 route over an IPv6 neighbour (RFC 5549)
		}
		if r.Src != nil {
			d.Source = r.Src.String()
		}
		out = append(out, d)
	}
	return out
}

// checked tells whether an address may be used: duplicate address detection is
// over and found no other owner (if_addr.h, RFC 4429 for optimistic ones).
func checked(flags int) bool {
	if flags&unix.IFA_F_DADFAILED != 0 {
		return false
	}
	return flags&unix.IFA_F_TENTATIVE == 0 || flags&unix.IFA_F_OPTIMISTIC != 0
}

func linkState(a *netlink.LinkAttrs) string {
	switch {
	case a.Flags&net.FlagUp == 0:
		return "down"
	case a.Flags&net.FlagRunning == 0:
		return "no carrier"
	}
	return "up"
}

// describeLink is a link with the name of its master.
func describeLink(link netlink.Link, all []netlink.Link) Link {
	a := link.Attrs()
	out := Link{Name: a.Name, State: linkState(a), Card: isCard(link), Kind: link.Type()}
	if len(a.HardwareAddr) == 6 {
		out.MAC = a.HardwareAddr.String()
	}
	if len(a.PermHWAddr) == 6 && a.PermHWAddr.String() != out.MAC {
		out.Permanent = a.PermHWAddr.String()
	}
	for _, m := range all {
		if a.MasterIndex != 0 && m.Attrs().Index == a.MasterIndex {
			out.Master = m.Attrs().Name
		}
	}
	return out
}

// isCard tells what may carry a host's own address before it has one.
func isCard(link netlink.Link) bool {
	switch link.Type() {
	case "device", "bond", "team", "wwan", "ipoib":
		return link.Attrs().MasterIndex == 0
	}
	return false
}

// SourceAddress is the local address from which host:port is reached:
// connecting a datagram socket only makes the kernel look the route up.
func (l *Linux) SourceAddress(ctx context.Context, hostport string) (string, error) {
	if !l.Live() {
		return "", ErrUnobservable
	}
	return once(l, "source of "+hostport, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, "udp", hostport)
		if err != nil {
			return "", fmt.Errorf("looking up the route to %s: %w", hostport, err)
		}
		defer conn.Close()
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		return host, err
	})
}

// routeGroups are the kernel's announcements that can bring a usable default
// route (rtnetlink(7)).
var routeGroups = []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE}

// applyWaitRoute waits for the kernel to announce a usable default route. It
// subscribes before it looks, so that nothing falls in between, and looks again
// only when something was announced.
func (l *Linux) applyWaitRoute(ctx context.Context, c change.WaitRoute, progress func(string)) error {
	defer l.external(time.Now())
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, routeGroups...)
	if err != nil {
		return fmt.Errorf("subscribing to the kernel's route announcements: %w", err)
	}
	defer socket.Close()
	limit, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	stop := context.AfterFunc(limit, socket.Close)
	defer stop()
	for told := false; ; {
		n, err := l.Network()
		if err != nil {
			return err
		}
		if len(n.Usable(c.Family)) > 0 {
			return nil
		}
		if !told {
			progress("no default route yet: " + n.Describe())
			told = true
		}
		_, _, err = socket.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limit.Err() != nil:
			return routeTimeout(c, n)
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR): // announcements were lost: look
		case err != nil:
			return fmt.Errorf("waiting for the kernel's route announcements: %w", err)
		}
	}
}

func routeTimeout(c change.WaitRoute, n Network) error {
	family := ""
	if c.Family != "any" {
		family = c.Family + " "
	}
	return fail.New(fail.Timeout,
		"look at the cable, DHCP or the router advertisements; for a network without a default route set network.defaultRoute.family to none",
		"no %sdefault route with an address on its interface came within %s: %s", family, c.Timeout, n.Describe())
}
