package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// The times of a change of the network. What was before comes back by itself
// after rollbackAfter, which leaves room for activation, check and a rollback.
const (
	networkAppears = 30 * time.Second
	rollbackAfter  = 90 * time.Second
	endpointDial   = 3 * time.Second
	discardPort    = 9 // RFC 863; nothing has to listen for the kernel to look for the neighbour
)

// trial is what must be there once an interface is configured anew.
type trial struct {
	link      string
	addresses []string // with prefix length
	gateway   string
	endpoint  string        // host:port, or empty
	wait      time.Duration // networkAppears
}

// reach is what the host reached before the change: the same must be reached
// afterwards.
type reach struct{ endpoint, route bool }

// switcher has a manager change an interface's configuration, with a way back
// that works even when this process is killed.
type switcher interface {
	// begin first takes back what an earlier run left unconfirmed, then has the
	// manager remember what is active.
	begin(ctx context.Context) error
	// activate brings the new configuration up; it need not wait for it.
	activate(ctx context.Context) error
	// confirm makes it stay.
	confirm(ctx context.Context) error
	// rollback makes what was active before active again.
	rollback(ctx context.Context) error
}

// tryNetwork changes the network and leaves it so only if the network is there
// afterwards.
func (l *Linux) tryNetwork(ctx context.Context, t trial, s switcher, progress func(string)) error {
	defer l.external(time.Now())
	before, err := l.reached(ctx, t)
	if err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err = s.activate(ctx); err == nil {
		progress("waiting for " + t.link + " to reach the network; otherwise what was before comes back")
		err = l.awaitNetwork(ctx, t, before)
	}
	if err == nil {
		if err = s.confirm(ctx); err == nil {
			return nil
		}
		err = fmt.Errorf("it could not be made to stay: %w", err)
	}
	const hint = "compare network.interfaces with the network that the host is plugged into (addresses, gateway, VLAN of the port); nothing was changed for good"
	if back := s.rollback(ctx); back != nil {
		return fail.Wrap(fail.KindOf(err), errors.Join(err, back), "it comes back by itself within "+rollbackAfter.String()+"; "+hint, "%s was configured anew without success, and what was before could not be brought back at once", t.link)
	}
	return fail.Wrap(fail.KindOf(err), err, hint, "%s was configured anew without success, and is as before again", t.link)
}

// reached tells what of the network works before anything is changed.
func (l *Linux) reached(ctx context.Context, t trial) (reach, error) {
	n, err := l.Network()
	return reach{endpoint: answers(ctx, t.endpoint), route: len(n.Usable("any")) > 0}, err
}

// answers tells whether a TCP connection to host:port can be made.
func answers(ctx context.Context, hostport string) bool {
	if hostport == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, endpointDial)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", hostport)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// trialGroups are the kernel's announcements that can end the wait.
var trialGroups = append(slices.Clone(routeGroups), unix.RTNLGRP_NEIGH)

// awaitNetwork waits until nothing is missing. The kernel announces addresses,
// routes and neighbours; each second the neighbour is asked for once more,
// since the kernel stops asking after three tries, and the endpoint is dialled.
func (l *Linux) awaitNetwork(ctx context.Context, t trial, before reach) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, trialGroups...)
	if err != nil {
		return fmt.Errorf("subscribing to the kernel's announcements: %w", err)
	}
	defer socket.Close()
	if err := socket.SetReceiveTimeout(&unix.Timeval{Sec: 1}); err != nil {
		return fmt.Errorf("subscribing to the kernel's announcements: %w", err)
	}
	end := time.Now().Add(t.wait)
	if err := forgetNeighbour(t); err != nil {
		return err
	}
	var asked time.Time
	for {
		ask := time.Since(asked) >= time.Second
		if ask {
			asked = time.Now()
		}
		missing, err := l.missing(ctx, t, before, ask)
		if err != nil || missing == "" {
			return err
		}
		if time.Now().After(end) {
			return fail.New(fail.Timeout, "", "after %s %s", t.wait, missing)
		}
		_, _, err = socket.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR), err == nil:
		default:
			return fmt.Errorf("waiting for the kernel's announcements: %w", err)
		}
	}
}

// missing says what is not there yet; empty when all is. With ask, packets are
// sent.
func (l *Linux) missing(ctx context.Context, t trial, before reach, ask bool) (string, error) {
	n, err := l.Network()
	if err != nil {
		return "", err
	}
	for _, a := range t.addresses {
		if !slices.ContainsFunc(n.Addresses, func(h Address) bool {
			return h.Interface == t.link && fmt.Sprintf("%s/%d", h.IP, h.Prefix) == a
		}) {
			return fmt.Sprintf("%s has no address %s: %s", t.link, a, n.Describe()), nil
		}
	}
	switch {
	case t.gateway != "" && !slices.ContainsFunc(n.Defaults, func(r Route) bool { return r.Interface == t.link && r.Gateway == t.gateway }):
		return fmt.Sprintf("there is no default route via %s on %s: %s", t.gateway, t.link, n.Describe()), nil
	case before.route && len(n.Usable("any")) == 0:
		return "the host has no default route any more: " + n.Describe(), nil
	case before.endpoint:
		if ask && answers(ctx, t.endpoint) {
			return "", nil
		}
		return fmt.Sprintf("%s, which answered before, does not answer", t.endpoint), nil
	case t.gateway == "":
		return "", nil
	}
	return neighbour(t, ask)
}

// forgetNeighbour drops what the kernel remembers of the gateway's hardware
// address, so that what it then learns is of now.
func forgetNeighbour(t trial) error {
	known, err := neighbours(t)
	for _, n := range known {
		if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) == 0 {
			_ = netlink.NeighDel(&n) // gone already, or in use: then it is asked for again anyhow
		}
	}
	return err
}

// neighbours are the entries of the gateway on the trial's link.
func neighbours(t trial) ([]netlink.Neigh, error) {
	gateway, err := netip.ParseAddr(t.gateway)
	if err != nil {
		return nil, nil // there is no gateway
	}
	link, err := netlink.LinkByName(t.link)
	if err != nil {
		return nil, fmt.Errorf("there is no link %s: %w", t.link, err)
	}
	family := netlink.FAMILY_V4
	if gateway.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(link.Attrs().Index, family)
	if err != nil {
		return nil, fmt.Errorf("reading the neighbours of %s from the kernel: %w", t.link, err)
	}
	return slices.DeleteFunc(all, func(n netlink.Neigh) bool { return n.IP.String() != gateway.String() }), nil
}

// neighbour says that the gateway has not answered; empty when it has.
func neighbour(t trial, ask bool) (string, error) {
	known, err := neighbours(t)
	if err != nil {
		return "", err
	}
	for _, n := range known {
		if n.State&(netlink.NUD_REACHABLE|netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
			return "", nil
		}
	}
	if ask {
		prod(t)
	}
	return fmt.Sprintf("the gateway %s does not answer on %s", t.gateway, t.link), nil
}

// prod sends the gateway a datagram of one byte over the link, which makes the
// kernel ask who has the address (ARP, neighbour discovery).
func prod(t trial) {
	to := net.JoinHostPort(t.gateway, fmt.Sprint(discardPort))
	if strings.HasPrefix(t.gateway, "fe80:") {
		to = net.JoinHostPort(t.gateway+"%"+t.link, fmt.Sprint(discardPort))
	}
	conn, err := net.Dial("udp", to)
	if err != nil {
		return // no route yet: missing tells
	}
	_, _ = conn.Write([]byte{0}) // an error of an earlier datagram may show here
	conn.Close()
}

// trialOf is what must be there after a change.
func trialOf(c change.SetInterface) trial {
	return trial{link: c.Interface, addresses: c.Addresses, gateway: c.Gateway, endpoint: c.Endpoint, wait: networkAppears}
}
