package host

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// scripted changes the network with ip(8), and notes what it is told.
type scripted struct {
	t        *testing.T
	up, down []string
	fails    map[string]error
	told     []string
}

func (s *scripted) do(what string, commands []string) error {
	s.told = append(s.told, what)
	for _, c := range commands {
		ipRun(s.t, c)
	}
	return s.fails[what]
}
func (s *scripted) begin(context.Context) error    { return s.do("begin", nil) }
func (s *scripted) activate(context.Context) error { return s.do("activate", s.up) }
func (s *scripted) confirm(context.Context) error  { return s.do("confirm", nil) }
func (s *scripted) rollback(context.Context) error { return s.do("rollback", s.down) }

func ipRun(t *testing.T, args string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", args, out)
}

// listenIn listens in another network namespace: a socket stays in the one it
// was made in.
func listenIn(t *testing.T, namespace, address string) net.Listener {
	t.Helper()
	ns, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(ns)
	var l net.Listener
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Setns(ns, unix.CLONE_NEWNET)
		if err == nil {
			l, err = net.Listen("tcp", address)
		}
		done <- err
	}()
	require.NoError(t, <-done)
	return l
}

// A change of the network on a real link, with a router in a namespace of its
// own at the other end: it stays only if the network is there afterwards.
func TestAChangeOfTheNetworkStaysOnlyIfTheNetworkIsThere(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Fatal("ip(8) is missing: install iproute2")
	}
	require.NoError(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "")) // for ip netns
	ipRun(t, "netns add router")
	ipRun(t, "link add eth0 type veth peer name lan0 netns router")
	ipRun(t, "-n router link set lo up")
	ipRun(t, "-n router link set lan0 up")
	ipRun(t, "-n router addr add 192.0.2.1/24 dev lan0")
	ipRun(t, "-n router addr add 198.51.100.1/24 dev lan0")
	ipRun(t, "-n router addr add fe80::1/64 dev lan0 nodad")
	ipRun(t, "link set lo up")
	ipRun(t, "link set eth0 up")
	const was = "addr add 192.0.2.50/24 dev eth0"
	ipRun(t, was)
	ipRun(t, "route add default via 192.0.2.1 dev eth0")
	const endpoint = "192.0.2.1:6443"
	server := listenIn(t, "/run/netns/router", endpoint)
	defer server.Close()

	back := []string{"addr flush dev eth0", was, "route replace default via 192.0.2.1 dev eth0"}
	for _, c := range []struct {
		name  string
		trial trial
		up    []string
		fails map[string]error
		want  string // of the error; empty when it stays
	}{
		{"an address and a gateway that answers", trial{addresses: []string{"192.0.2.10/24"}, gateway: "192.0.2.1"},
			[]string{"addr flush dev eth0", "addr add 192.0.2.10/24 dev eth0", "route replace default via 192.0.2.1 dev eth0"}, nil, ""},
		{"another network", trial{addresses: []string{"198.51.100.10/24"}, gateway: "198.51.100.1"},
			[]string{"addr flush dev eth0", "addr add 198.51.100.10/24 dev eth0", "route replace default via 198.51.100.1 dev eth0"}, nil, ""},
		{"IPv6 by the router's link-local address", trial{addresses: []string{"2001:db8::10/64"}, gateway: "fe80::1"},
			[]string{"-6 addr replace 2001:db8::10/64 dev eth0", "-6 route replace default via fe80::1 dev eth0"}, nil, ""},
		{"a gateway that does not answer", trial{addresses: []string{"192.0.2.10/24"}, gateway: "192.0.2.254"},
			[]string{"addr add 192.0.2.10/24 dev eth0", "route replace default via 192.0.2.254 dev eth0"}, nil, "the gateway 192.0.2.254 does not answer on eth0"},
		{"an address that does not come", trial{addresses: []string{"192.0.2.10/24"}, gateway: "192.0.2.1"},
			nil, nil, "eth0 has no address 192.0.2.10/24: "},
		{"no route via the gateway", trial{addresses: []string{"192.0.2.10/24"}, gateway: "192.0.2.7"},
			[]string{"addr add 192.0.2.10/24 dev eth0"}, nil, "there is no default route via 192.0.2.7 on eth0: "},
		{"a default route that is lost", trial{addresses: []string{"192.0.2.10/24"}},
			[]string{"addr add 192.0.2.10/24 dev eth0", "route del default", "-6 addr flush dev eth0 scope global"}, nil, "the host has no default route any more: "},
		{"an API server that is lost", trial{addresses: []string{"198.51.100.10/24"}, gateway: "198.51.100.1", endpoint: endpoint},
			[]string{"addr flush dev eth0", "addr add 198.51.100.10/24 dev eth0", "route replace default via 198.51.100.1 dev eth0", "route add blackhole 192.0.2.1"}, nil, "192.0.2.1:6443, which answered before, does not answer"},
		{"an API server that never answered", trial{addresses: []string{"192.0.2.10/24"}, gateway: "192.0.2.1", endpoint: "192.0.2.1:1"},
			[]string{"addr add 192.0.2.10/24 dev eth0"}, nil, ""},
		{"a manager that does not take it", trial{addresses: []string{"192.0.2.10/24"}}, nil, map[string]error{"activate": errors.New("it does not take it")}, "it does not take it"},
		{"a manager that does not let it stay", trial{addresses: []string{"192.0.2.50/24"}}, nil, map[string]error{"confirm": errors.New("it has ended")}, "it could not be made to stay: it has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, b := range back {
				ipRun(t, b)
			}
			c.trial.link, c.trial.wait = "eth0", 4*time.Second
			if c.want != "" {
				c.trial.wait = 1500 * time.Millisecond
			}
			s := &scripted{t: t, up: c.up, down: append([]string{"-6 route flush default"}, back...), fails: c.fails}
			start := time.Now()
			err := New().tryNetwork(context.Background(), c.trial, s, func(string) {})
			_ = exec.Command("ip", "route", "del", "blackhole", "192.0.2.1").Run()
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, []string{"begin", "activate", "confirm"}, s.told)
				return
			}
			require.ErrorContains(t, err, "eth0 was configured anew without success, and is as before again")
			require.ErrorContains(t, err, c.want)
			require.Contains(t, fail.HintOf(err), "compare network.interfaces")
			require.Equal(t, "rollback", s.told[len(s.told)-1])
			require.Less(t, time.Since(start), 15*time.Second)
			n, err := New().Network()
			require.NoError(t, err)
			require.Contains(t, n.Addresses, Address{Interface: "eth0", IP: "192.0.2.50", Prefix: 24})
		})
	}
}

func TestAWayBackThatIsNotReadyLeavesTheNetworkAlone(t *testing.T) {
	ownNetwork(t)
	s := &scripted{t: t, fails: map[string]error{"begin": errors.New("no checkpoint")}}
	require.ErrorContains(t, New().tryNetwork(context.Background(), trial{link: "eth0"}, s, func(string) {}), "no checkpoint")
	require.Equal(t, []string{"begin"}, s.told)

	s = &scripted{t: t, fails: map[string]error{"activate": errors.New("refused"), "rollback": errors.New("gone")}}
	err := New().tryNetwork(context.Background(), trial{link: "eth0"}, s, func(string) {})
	require.ErrorContains(t, err, "what was before could not be brought back at once")
	require.ErrorContains(t, err, "gone")
	require.Contains(t, fail.HintOf(err), "it comes back by itself within 1m30s")
}

func TestALinkTellsWhatItIsAndItsAddressesWhetherTheyLast(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far")
	ip("link set eth0 address 52:54:00:12:34:56")
	ip("link add br0 type bridge")
	ip("link set eth0 master br0")
	ip("link set eth0 up")
	ip("link set far up")
	ip("link set br0 up")
	ip("addr add 192.0.2.10/24 dev br0")
	ip("addr add 198.51.100.10/24 dev br0 valid_lft 600 preferred_lft 600")
	n, err := New().Network()
	require.NoError(t, err)
	var eth0 Link
	for _, l := range n.Links {
		if l.Name == "eth0" {
			eth0 = l
		}
	}
	eth0.State = "" // it may not have come up yet
	require.Equal(t, Link{Name: "eth0", MAC: "52:54:00:12:34:56", Kind: "veth", Master: "br0"}, eth0)
	require.Equal(t, []Address{{Interface: "br0", IP: "192.0.2.10", Prefix: 24}, {Interface: "br0", IP: "198.51.100.10", Prefix: 24, Dynamic: true}}, n.Addresses)
}

func TestALinkOfNobodysSaysWhatBothManagersSay(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far")
	o, err := New().NetworkOwner(context.Background(), "eth0")
	require.NoError(t, err)
	require.Empty(t, o.Manager)
	require.Contains(t, o.Said, "NetworkManager ")
	require.Contains(t, o.Said, "; systemd-networkd doesn't run")
}
