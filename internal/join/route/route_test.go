package route

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func spec(family, nodeIP string) config.Spec {
	s := config.Spec{}
	s.Network.DefaultRoute = config.DefaultRoute{Family: family, Timeout: config.Duration{Duration: 10 * time.Minute}}
	s.Join.Endpoint = "cp.example:6443"
	if nodeIP != "" {
		s.Kubelet.ExtraArgs = []config.Arg{{Name: "node-ip", Value: nodeIP}}
	}
	return s
}

func addr(i, ip string, prefix int) host.Address {
	return host.Address{Interface: i, IP: ip, Prefix: prefix}
}

func v4(i, gw string, metric int) host.Route {
	return host.Route{Family: "ipv4", Interface: i, Gateway: gw, Metric: metric}
}

func cards(names ...string) []host.Link {
	var out []host.Link
	for _, n := range names {
		out = append(out, host.Link{Name: n, State: "up", Card: true})
	}
	return out
}

// The rows R1 to R4 are the field cases of the same name. That unreachable
// routes are none is the observation's part: see
// TestR2UnreachableRoutesAreNoDefaultRoutes in internal/host.
var cases = map[string]struct {
	spec      config.Spec
	network   host.Network
	toward    string
	waits     bool
	is, at    string // interface and address chosen
	why, says string // parts of the reason and of the warning
}{
	"R1: a point-to-point default route without a gateway is one": {
		spec:    spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("ppp0", "198.51.100.7", 32)}, Defaults: []host.Route{v4("ppp0", "", 0)}},
		is:      "ppp0", at: "198.51.100.7", why: "default route"},
	"R1: of two metrics the lower one wins, whatever their order": {
		spec: spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("wlan0", "192.0.2.44", 24), addr("wwan0", "198.51.100.7", 30)},
			Defaults: []host.Route{v4("wlan0", "192.0.2.1", 3004), v4("wwan0", "", 1000)}},
		is: "wwan0", at: "198.51.100.7"},
	"R2: IPv6 alone satisfies any": {
		spec: spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("eth0", "2001:db8::10", 64)},
			Defaults: []host.Route{{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1", Metric: 1024}}},
		is: "eth0", at: "2001:db8::10"},
	"R2: IPv6 alone doesn't satisfy ipv4": {
		spec: spec("ipv4", ""), waits: true,
		network: host.Network{Links: cards("eth0"), Addresses: []host.Address{addr("eth0", "2001:db8::10", 64)},
			Defaults: []host.Route{{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1", Metric: 1024}}},
		is: "eth0", why: "only network card"},
	"R3: equal metrics, node-ip decides": {
		spec: spec("any", "198.51.100.7"),
		network: host.Network{Addresses: []host.Address{addr("eth0", "192.0.2.10", 24), addr("eth1", "198.51.100.7", 24)},
			Defaults: []host.Route{v4("eth0", "192.0.2.1", 100), v4("eth1", "198.51.100.1", 100)}},
		is: "eth1", at: "198.51.100.7", why: "node-ip 198.51.100.7"},
	"R3: equal metrics without node-ip, the way to the API server decides": {
		spec: spec("any", ""), toward: "198.51.100.7",
		network: host.Network{Addresses: []host.Address{addr("eth0", "192.0.2.10", 24), addr("eth1", "198.51.100.7", 24)},
			Defaults: []host.Route{v4("eth0", "192.0.2.1", 100), v4("eth1", "198.51.100.1", 100)}},
		is: "eth1", at: "198.51.100.7", why: "API server",
		says: "default routes of equal metric 100 on eth0, eth1: eth1 is taken since the API server is reached over it"},
	"R3: equal metrics and nothing to decide by, the first, and it is said": {
		spec: spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("eth0", "192.0.2.10", 24), addr("eth1", "198.51.100.7", 24)},
			Defaults: []host.Route{v4("eth0", "192.0.2.1", 100), v4("eth1", "198.51.100.1", 100)}},
		is: "eth0", at: "192.0.2.10", says: "eth0 is taken since the kernel names it first"},
	"R4: an air-gapped host with family none doesn't wait": {
		spec:    spec("none", ""),
		network: host.Network{Addresses: []host.Address{addr("eth0", "10.1.2.3", 8)}},
		is:      "eth0", at: "10.1.2.3", why: "no other has an address"},
	"R4: the same host waits when a route is wanted": {
		spec: spec("any", ""), waits: true,
		network: host.Network{Addresses: []host.Address{addr("eth0", "10.1.2.3", 8)}},
		is:      "eth0", at: "10.1.2.3"},
	"R4: several addresses and no route, the way to the API server decides": {
		spec: spec("none", ""), toward: "10.1.2.3",
		network: host.Network{Addresses: []host.Address{addr("eth1", "192.0.2.9", 24), addr("eth0", "10.1.2.3", 8)}},
		is:      "eth0", at: "10.1.2.3", why: "API server"},
	"several addresses, no route and nothing to decide by": {
		spec:    spec("none", ""),
		network: host.Network{Addresses: []host.Address{addr("eth1", "192.0.2.9", 24), addr("eth0", "10.1.2.3", 8)}},
		says:    "no default route, and addresses on eth1, eth0"},
	"a route whose interface has no address isn't usable": {
		spec: spec("any", ""), waits: true,
		network: host.Network{Links: cards("eth0"), Defaults: []host.Route{v4("eth0", "192.0.2.1", 100)}},
		is:      "eth0", why: "only network card"},
	"an IPv6 address doesn't make an IPv4 route usable": {
		spec: spec("any", ""), waits: true,
		network: host.Network{Addresses: []host.Address{addr("eth0", "2001:db8::10", 64)}, Defaults: []host.Route{v4("eth0", "192.0.2.1", 100)}},
		is:      "eth0", at: "2001:db8::10"},
	"an unnumbered uplink with the address on loopback": {
		spec: spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("lo", "203.0.113.5", 32)},
			Defaults: []host.Route{{Family: "ipv4", Interface: "eth0", Gateway: "fe80::1", Source: "203.0.113.5", Metric: 20}}},
		is: "eth0", at: "203.0.113.5"},
	"two families, IPv4 goes first as kubelet does it": {
		spec: spec("any", ""),
		network: host.Network{Addresses: []host.Address{addr("eth0", "2001:db8::10", 64), addr("eth1", "192.0.2.10", 24)},
			Defaults: []host.Route{{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1", Metric: 1}, v4("eth1", "192.0.2.1", 100)}},
		is: "eth1", at: "192.0.2.10"},
	"node-ip :: asks for IPv6": {
		spec: spec("any", "::"),
		network: host.Network{Addresses: []host.Address{addr("eth0", "2001:db8::10", 64), addr("eth1", "192.0.2.10", 24)},
			Defaults: []host.Route{{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1", Metric: 1}, v4("eth1", "192.0.2.1", 100)}},
		is: "eth0", at: "2001:db8::10"},
	"of two node-ips the first counts": {
		spec: spec("any", "2001:db8::10,192.0.2.10"),
		network: host.Network{Addresses: []host.Address{addr("eth1", "192.0.2.10", 24), addr("eth0", "2001:db8::10", 64)},
			Defaults: []host.Route{v4("eth1", "192.0.2.1", 100)}},
		is: "eth0", at: "2001:db8::10"},
	"a node-ip that no interface has is told": {
		spec: spec("any", "192.0.2.99"),
		network: host.Network{Links: cards("eth0"), Addresses: []host.Address{addr("eth0", "192.0.2.10", 24)},
			Defaults: []host.Route{v4("eth0", "192.0.2.1", 100)}},
		is: "eth0", at: "192.0.2.10",
		says: "node-ip 192.0.2.99 is on no interface (eth0 up, 192.0.2.10/24; ipv4 default via 192.0.2.1 dev eth0 metric 100)"},
	"nothing yet and two cards": {spec: spec("any", ""), waits: true, network: host.Network{Links: cards("eth0", "eth1")}},
	"a network plugin's bridge isn't the node's interface": {
		spec: spec("none", ""),
		network: host.Network{Links: append(cards("eth0"), host.Link{Name: "cni0", State: "up"}),
			Addresses: []host.Address{addr("cni0", "10.244.0.1", 24), addr("eth0", "10.1.2.3", 8)}},
		is: "eth0", at: "10.1.2.3"},
}

func TestARouteIsAwaitedOnlyWhenNoneIsUsable(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := Plan(c.spec, Facts{Network: c.network, Toward: c.toward})
			require.Empty(t, p.Blocked)
			if !c.waits {
				require.Empty(t, p.Changes)
				return
			}
			require.Equal(t, []change.Change{change.WaitRoute{Family: c.spec.Network.DefaultRoute.Family, Timeout: 10 * time.Minute}}, p.Changes)
		})
	}
}

func TestTheNodesInterfaceIsChosenAndSaid(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := NodeInterface(c.spec, c.network, c.toward)
			require.Equal(t, c.is, got.Interface)
			require.Equal(t, c.at, got.Address)
			require.Contains(t, got.Why, c.why)
			if c.says == "" {
				require.Empty(t, got.Doubt)
			} else {
				require.Contains(t, got.Doubt, c.says)
			}
		})
	}
}

func TestTheWayToTheAPIServerIsAskedOnlyWhereItDecides(t *testing.T) {
	equal := host.Network{Addresses: []host.Address{addr("eth0", "192.0.2.10", 24), addr("eth1", "198.51.100.7", 24)},
		Defaults: []host.Route{v4("eth0", "192.0.2.1", 100), v4("eth1", "198.51.100.1", 100)}}
	w := hosttest.Rocky9()
	w.Net = equal
	ctx := context.Background()
	require.Equal(t, "192.0.2.10", Toward(ctx, w, spec("any", ""), equal))
	require.Empty(t, Toward(ctx, w, spec("any", "198.51.100.7"), equal), "node-ip decides")
	single := equal
	single.Defaults = equal.Defaults[:1]
	require.Empty(t, Toward(ctx, w, spec("any", ""), single), "there is nothing to decide")
	unknown := spec("any", "")
	unknown.Join.Endpoint = ""
	require.Empty(t, Toward(ctx, w, unknown, equal), "the endpoint comes with the token")
}

func TestAfterTheWaitNothingIsLeftToDo(t *testing.T) {
	w := hosttest.Rocky9()
	s := spec("any", "")
	ctx := context.Background()
	f, err := Observe(ctx, w, s)
	require.NoError(t, err)
	p := Plan(s, f)
	require.Len(t, p.Changes, 1)
	require.Equal(t, "wait up to 10m0s for a default route (any)", p.Changes[0].Summary())
	require.NoError(t, w.Apply(ctx, p.Changes[0], nil))
	f, err = Observe(ctx, w, s)
	require.NoError(t, err)
	require.True(t, Plan(s, f).Empty())
}
