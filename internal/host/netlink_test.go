package host

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// ownNetwork puts the test into a network namespace of its own, with loopback
// down and nothing else. ip runs ip(8) in it.
func ownNetwork(t *testing.T) (ip func(args string)) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("a network namespace needs root: %v", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip(8) is missing: install iproute2")
	}
	return func(args string) {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", args, out)
	}
}

// inBackground runs ip commands in the caller's namespace from another
// thread, once start is closed.
func inBackground(t *testing.T, start <-chan struct{}, commands ...string) <-chan error {
	t.Helper()
	ns, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer unix.Close(ns)
		<-start
		err := unix.Setns(ns, unix.CLONE_NEWNET)
		for _, c := range commands {
			if err == nil {
				err = exec.Command("ip", strings.Fields(c)...).Run()
			}
		}
		done <- err
	}()
	return done
}

func TestALateRouteEndsTheWaitWithoutPolling(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far-eth0")
	ip("link set far-eth0 up")
	ip("link set eth0 up")
	begun := make(chan struct{})
	var told []string
	// The address comes first and must not end the wait, then a default route
	// of another family, then the right one.
	late := inBackground(t, begun,
		"addr add 192.0.2.10/24 dev eth0",
		"route add unreachable 198.51.100.0/24",
		"route add unreachable default metric 4000",
		"-6 route add default via fe80::1 dev eth0",
		"route add default via 192.0.2.1 dev eth0 metric 100")
	l := New()
	err := l.applyWaitRoute(context.Background(), change.WaitRoute{Family: "ipv4", Timeout: 30 * time.Second}, func(s string) {
		told = append(told, s)
		close(begun)
	})
	require.NoError(t, err)
	require.NoError(t, <-late)
	require.Len(t, told, 1)
	require.Contains(t, told[0], "no default route yet: ")
	n, err := l.Network()
	require.NoError(t, err)
	require.Equal(t, []Address{{Interface: "eth0", IP: "192.0.2.10", Prefix: 24}}, n.Addresses)
	require.Equal(t, []Route{{Family: "ipv4", Interface: "eth0", Gateway: "192.0.2.1", Metric: 100}}, n.Usable("ipv4"))
	require.NoError(t, l.applyWaitRoute(context.Background(), change.WaitRoute{Family: "any", Timeout: time.Second}, nil), "the second wait ends at once")
}

func TestARouteBeforeItsAddressIsAwaitedToo(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far-eth0")
	ip("link set far-eth0 up")
	ip("link set eth0 up")
	ip("-6 route add default via fe80::1 dev eth0")
	begun := make(chan struct{})
	late := inBackground(t, begun, "-6 addr add 2001:db8::10/64 dev eth0 nodad")
	err := New().applyWaitRoute(context.Background(), change.WaitRoute{Family: "any", Timeout: 30 * time.Second}, func(string) { close(begun) })
	require.NoError(t, err)
	require.NoError(t, <-late)
}

func TestAnAddressUnderDuplicateDetectionDoesNotCountUntilItIsOver(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far")
	ip("link set far up")
	ip("link set eth0 up")
	ip("-6 addr add 2001:db8::10/64 dev eth0")
	ip("-6 route add default via fe80::1 dev eth0")
	l := New()
	n, err := l.Network()
	require.NoError(t, err)
	require.Empty(t, n.Addresses, "it is tentative")
	told := 0
	require.NoError(t, l.applyWaitRoute(context.Background(), change.WaitRoute{Family: "ipv6", Timeout: 30 * time.Second}, func(string) { told++ }))
	require.Equal(t, 1, told, "it had to wait")
	n, err = l.Network()
	require.NoError(t, err)
	require.Equal(t, []Address{{Interface: "eth0", IP: "2001:db8::10", Prefix: 64}}, n.Addresses)
}

func TestATimeoutTellsWhatWasThere(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far-eth0")
	ip("link set far-eth0 up")
	ip("addr add 10.1.2.3/8 dev eth0")
	ip("link set eth0 up")
	start := time.Now()
	err := New().applyWaitRoute(context.Background(), change.WaitRoute{Family: "ipv4", Timeout: 50 * time.Millisecond}, func(string) {})
	require.ErrorContains(t, err, "no ipv4 default route with an address on its interface came within 50ms: eth0 up, 10.1.2.3/8")
	require.Equal(t, fail.Timeout, fail.KindOf(err))
	require.Contains(t, fail.HintOf(err), "network.defaultRoute.family to none")
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestTheWaitEndsWhenTheRunIsInterrupted(t *testing.T) {
	ownNetwork(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := New().applyWaitRoute(ctx, change.WaitRoute{Family: "any", Timeout: time.Minute}, func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

// R2's unreachable route, R1's route without a gateway, routes over several
// links and one whose link has no carrier.
func TestR2UnreachableRoutesAreNoDefaultRoutes(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far-eth0")
	ip("link set far-eth0 up")
	ip("link add eth1 type veth peer name far-eth1")
	ip("link set far-eth1 up")
	ip("link set eth0 up")
	ip("link set eth1 up")
	ip("addr add 192.0.2.10/24 dev eth0")
	ip("-6 addr add 2001:db8::10/64 dev eth0 nodad")
	for _, r := range []string{"unreachable", "blackhole", "prohibit"} {
		ip("route add " + r + " default metric " + map[string]string{"unreachable": "10", "blackhole": "11", "prohibit": "12"}[r])
	}
	ip("-6 route add unreachable default dev lo metric 4294967295")
	n, err := New().Network()
	require.NoError(t, err)
	require.Empty(t, n.Defaults)

	ip("route add default dev eth1 scope link metric 20")
	ip("-4 route add default via inet6 fe80::5 dev eth0 src 192.0.2.10 metric 30")
	ip("-6 route add default metric 1024 nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1")
	ip("-6 route add default via fe80::9 dev eth0 table 99")
	n, err = New().Network()
	require.NoError(t, err)
	require.Equal(t, []Route{
		{Family: "ipv4", Interface: "eth1", Metric: 20},
		{Family: "ipv4", Interface: "eth0", Gateway: "fe80::5", Source: "192.0.2.10", Metric: 30},
		{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1", Metric: 1024},
		{Family: "ipv6", Interface: "eth1", Gateway: "fe80::2", Metric: 1024},
	}, n.Defaults)
	usable := n.Usable("any")
	require.Len(t, usable, 2, "eth1 has no address")
	require.Equal(t, 30, usable[0].Metric)
}

func TestALinkWithoutACarrierHasNoUsableRoute(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far") // far stays down: no carrier
	ip("link set eth0 up")
	ip("addr add 192.0.2.10/24 dev eth0")
	ip("route add default via 192.0.2.1 dev eth0")
	n, err := New().Network()
	require.NoError(t, err)
	require.Empty(t, n.Defaults)
	require.Contains(t, n.Describe(), "eth0 no carrier, 192.0.2.10/24")
}

func TestTheSourceAddressIsThatOfTheRoute(t *testing.T) {
	ip := ownNetwork(t)
	ip("link add eth0 type veth peer name far-eth0")
	ip("link set far-eth0 up")
	ip("link set eth0 up")
	ip("addr add 192.0.2.10/24 dev eth0")
	ip("route add default via 192.0.2.1 dev eth0")
	got, err := New().SourceAddress(context.Background(), "203.0.113.9:6443")
	require.NoError(t, err)
	require.Equal(t, "192.0.2.10", got)
}

func TestWhatIsACard(t *testing.T) {
	for _, c := range []struct {
		link netlink.Link
		want bool
	}{
		{&netlink.Device{}, true},
		{&netlink.Device{LinkAttrs: netlink.LinkAttrs{MasterIndex: 4}}, false},
		{&netlink.Bond{}, true},
		{&netlink.Bridge{}, false},
		{&netlink.Vxlan{}, false},
		{&netlink.Veth{}, false},
	} {
		require.Equal(t, c.want, isCard(c.link), c.link.Type())
	}
	require.Equal(t, "up", linkState(&netlink.LinkAttrs{Flags: net.FlagUp | net.FlagRunning}))
}

func TestATreeOfFilesHasNoNetwork(t *testing.T) {
	l := At(t.TempDir())
	n, err := l.Network()
	require.NoError(t, err)
	require.Equal(t, Network{}, n)
	_, err = l.SourceAddress(context.Background(), "192.0.2.1:6443")
	require.ErrorIs(t, err, ErrUnobservable)
}
