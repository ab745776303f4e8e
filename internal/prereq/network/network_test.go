package network

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/prereq/network/netfile"
)

const mac = "52:54:00:12:34:56"

// asked is what the tests ask for; leased answers it by DHCP.
func asked(configure bool) config.Spec {
	s := config.Default().Spec
	s.Network.Configure = configure
	s.Join.Endpoint = "cp.example:6443"
	s.Network.Interfaces = []config.Interface{{MAC: "52-54-00-12-34-56", Addresses: []string{"192.0.2.10/24"}, Gateway: "192.0.2.1", DNS: []string{"192.0.2.53"}, Search: []string{"cluster.example"}}}
	return s
}

func world(manager, address string) *hosttest.World {
	w := hosttest.Rocky9().Leased(manager, mac, address)
	w.Net.Defaults, w.LateRoute = []host.Route{*w.LateRoute}, nil
	w.Files["/etc/resolv.conf"] = hosttest.File{Content: "search cluster.example\nnameserver 192.0.2.53\n"}
	return w
}

func planned(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	t.Helper()
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	b, err := json.Marshal(f)
	require.NoError(t, err)
	var saved Facts
	require.NoError(t, json.Unmarshal(b, &saved))
	p := Plan(s, f)
	require.Equal(t, p, Plan(s, saved), "a plan of saved facts")
	return p
}

func TestAHostThatIsAsAskedHasNothingToTell(t *testing.T) {
	for _, configure := range []bool{false, true} {
		p := planned(t, world(netfile.NetworkManager, "192.0.2.10/24"), asked(configure))
		require.Equal(t, change.Plan{}, p, "a reservation of the DHCP server's is as good as a static address")
	}
	require.Equal(t, change.Plan{}, planned(t, hosttest.Rocky9(), config.Default().Spec), "nothing is asked")
}

func TestEachDifferenceIsToldWithItsEvidenceAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*hosttest.World, *config.Interface)
		want   []string
	}{
		"no such card":    {func(_ *hosttest.World, i *config.Interface) { i.MAC = "00:50:56:00:00:01" }, []string{"no interface has the hardware address 00:50:56:00:00:01 (there are eth0 52:54:00:12:34:56); compare with: ip -br link"}},
		"no such name":    {func(_ *hosttest.World, i *config.Interface) { i.MAC, i.Name = "", "ens192" }, []string{"there is no interface ens192 (there are eth0 52:54:00:12:34:56); compare with: ip -br link"}},
		"no card at all":  {func(w *hosttest.World, _ *config.Interface) { w.Net.Links = nil }, []string{"no interface has the hardware address " + mac + " (there is no network card); compare with: ip -br link"}},
		"another name":    {func(_ *hosttest.World, i *config.Interface) { i.Name = "ens192" }, []string{"eth0 has the hardware address of what the configuration calls ens192; nodeagent renames no interface: write the name that it has, or leave name away"}},
		"another address": {func(_ *hosttest.World, i *config.Interface) { i.Addresses = []string{"192.0.2.11/24"} }, []string{"eth0 has no address 192.0.2.11/24 (it has 192.0.2.10/24); give it this address, or write those that it has"}},
		"another prefix":  {func(_ *hosttest.World, i *config.Interface) { i.Addresses = []string{"192.0.2.10/25"} }, []string{"eth0 has no address 192.0.2.10/25 (its prefix length is 24); give it this address, or write those that it has"}},
		"no address":      {func(w *hosttest.World, _ *config.Interface) { w.Net.Addresses = nil }, []string{"eth0 has no address 192.0.2.10/24 (it has none); give it this address, or write those that it has"}},
		"on another card": {func(w *hosttest.World, _ *config.Interface) { w.Net.Addresses[0].Interface = "eth1" }, []string{"eth0 has no address 192.0.2.10/24 (eth1 has it); give it this address, or write those that it has"}},
		"IPv6":            {func(_ *hosttest.World, i *config.Interface) { i.Addresses = append(i.Addresses, "2001:db8::10/64") }, []string{"eth0 has no address 2001:db8::10/64 (it has 192.0.2.10/24); give it this address, or write those that it has"}},
		"another gateway": {func(w *hosttest.World, _ *config.Interface) { w.Net.Defaults[0].Gateway = "192.0.2.254" }, []string{"no default route leads via 192.0.2.1 on eth0 (ipv4 default via 192.0.2.254 dev eth0 metric 100); make it the default route, or write the gateway that the host has"}},
		"no gateway":      {func(w *hosttest.World, _ *config.Interface) { w.Net.Defaults = nil }, []string{"no default route leads via 192.0.2.1 on eth0 (there is none); make it the default route, or write the gateway that the host has"}},
		"a better route": {func(w *hosttest.World, _ *config.Interface) {
			w.Net.Defaults = append(w.Net.Defaults, host.Route{Family: "ipv4", Interface: "eth1", Gateway: "198.51.100.1", Metric: 10})
		}, []string{"another default route than via 192.0.2.1 on eth0 comes first (ipv4 default via 198.51.100.1 dev eth1 metric 10); give the other route a higher metric, or take it away"}},
		"other name server": {func(_ *hosttest.World, i *config.Interface) { i.DNS = []string{"192.0.2.54", "192.0.2.55"} }, []string{"name servers 192.0.2.54, 192.0.2.55 are not among the host's (192.0.2.53); look at /etc/resolv.conf and who writes it"}},
		"no search domain": {func(w *hosttest.World, _ *config.Interface) {
			w.Files["/etc/resolv.conf"] = hosttest.File{Content: "nameserver 192.0.2.53\n"}
		}, []string{"search domain cluster.example is not among the host's (none); look at /etc/resolv.conf and who writes it"}},
		"no cable": {func(w *hosttest.World, _ *config.Interface) { w.Net.Links[0].State = "no carrier" }, []string{"eth0 is up, but has no carrier; look at cable, port and hypervisor (ip -br link)"}},
		"down":     {func(w *hosttest.World, _ *config.Interface) { w.Net.Links[0].State = "down" }, []string{"eth0 is down; look at cable, port and hypervisor (ip -br link)"}},
		"part of a bond": {func(w *hosttest.World, i *config.Interface) {
			w.Net.Links[0].Master = "bond0"
			*i = config.Interface{Name: "eth0"}
		}, []string{"eth0 is part of bond0; describe bond0 instead"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := world(netfile.NetworkManager, "192.0.2.10/24"), asked(false)
			c.change(w, &s.Network.Interfaces[0])
			require.Equal(t, change.Plan{Warnings: c.want}, planned(t, w, s))
		})
	}
}

func TestTheServersBehindAStubCount(t *testing.T) {
	w := world(netfile.Networkd, "192.0.2.10/24")
	w.Files["/etc/resolv.conf"] = hosttest.File{Content: "nameserver 127.0.0.53\nsearch .\n"}
	w.Files["/run/systemd/resolve/resolv.conf"] = hosttest.File{Content: "nameserver 192.0.2.53\nsearch cluster.example\n"}
	require.Empty(t, planned(t, w, asked(false)).Warnings)
}

func TestACardIsFoundByItsAddressWhateverLiesOnIt(t *testing.T) {
	links := []host.Link{
		{Name: "bond0", MAC: mac, Kind: "bond"},
		{Name: "eth0", MAC: mac, Kind: "device", Master: "bond0"},
		{Name: "eth1", MAC: mac, Permanent: "52:54:00:12:34:57", Kind: "device", Master: "bond0"},
		{Name: "eth2", MAC: "52:54:00:00:00:02", Kind: "device"},
		{Name: "eth2.12", MAC: "52:54:00:00:00:02", Kind: "vlan"},
		{Name: "br0", MAC: "52:54:00:00:00:03", Kind: "bridge"},
	}
	f := Facts{Network: host.Network{Links: links}}
	for asked, want := range map[string]string{"52:54:00:12:34:57": "eth1", "52-54-00-00-00-02": "eth2", "52:54:00:00:00:03": "br0"} {
		l, why := f.link(config.Interface{MAC: asked})
		require.Empty(t, why)
		require.Equal(t, want, l.Name)
	}
	_, why := f.link(config.Interface{MAC: mac})
	require.Equal(t, "several interfaces have the hardware address 52:54:00:12:34:56: eth0, eth1", why)
}

func TestAnInterfaceThatDiffersIsConfiguredOnceByItsManager(t *testing.T) {
	for manager, path := range map[string]string{
		netfile.NetworkManager: "/etc/NetworkManager/system-connections/nodeagent-eth0.nmconnection",
		netfile.Networkd:       "/etc/systemd/network/10-nodeagent-eth0.network",
	} {
		t.Run(manager, func(t *testing.T) {
			w, s := world(manager, "192.0.2.50/24"), asked(true)
			p := planned(t, w, s)
			require.Empty(t, p.Blocked)
			require.Equal(t, []string{"eth0 loses 192.0.2.50/24, which it has by DHCP or router advertisements: connections to it end"}, p.Warnings)
			require.Len(t, p.Changes, 1)
			c := p.Changes[0].(change.SetInterface)
			require.Equal(t, "configure eth0 with "+manager+": 192.0.2.10/24 via 192.0.2.1 (eth0 has no address 192.0.2.10/24 (it has 192.0.2.50/24))", c.Summary())
			require.Equal(t, path, c.Path)
			require.Equal(t, "cp.example:6443", c.Endpoint)
			require.Contains(t, c.Diff(), "+++ "+path)
			require.NoError(t, w.Apply(context.Background(), c, nil))
			require.Equal(t, change.Plan{}, planned(t, w, s))
		})
	}
}

func TestAFileThatIsNotActiveOrNotConfirmedIsActivatedAgain(t *testing.T) {
	w, s := world(netfile.NetworkManager, "192.0.2.50/24"), asked(true)
	before := w.Owners["eth0"]
	require.NoError(t, w.Apply(context.Background(), planned(t, w, s).Changes[0], nil))
	ours := w.Owners["eth0"]

	w.Owners["eth0"] = before
	require.Len(t, planned(t, w, s).Changes, 1, "written, and another profile is active")

	ours.Pending = true
	w.Owners["eth0"] = ours
	p := planned(t, w, s)
	require.Len(t, p.Changes, 1)
	require.Contains(t, p.Changes[0].Summary(), "a run was killed before it knew that the network is there")

	ours.Pending = false
	w.Owners["eth0"] = ours
	w.Files["/etc/resolv.conf"] = hosttest.File{Content: "nameserver 203.0.113.5\n"}
	p = planned(t, w, s)
	require.Empty(t, p.Changes, "what the host's resolver makes of the servers is not the interface's to settle")
	require.Len(t, p.Warnings, 2)
}

func TestWhatCannotBeConfiguredSafelyIsRefused(t *testing.T) {
	owner := func(w *hosttest.World, set func(*host.NetworkOwner)) {
		o := w.Owners["eth0"]
		set(&o)
		w.Owners["eth0"] = o
	}
	for name, c := range map[string]struct {
		change func(*hosttest.World, *config.Spec)
		kind   fail.Kind
		want   string
	}{
		"no such card":   {func(_ *hosttest.World, s *config.Spec) { s.Network.Interfaces[0].MAC = "00:50:56:00:00:01" }, fail.Step, "no interface has the hardware address 00:50:56:00:00:01"},
		"a bond":         {func(w *hosttest.World, _ *config.Spec) { w.Net.Links[0].Kind = "bond" }, fail.Safety, "eth0 is a bond, and nodeagent configures plain Ethernet cards only"},
		"part of a bond": {func(w *hosttest.World, _ *config.Spec) { w.Net.Links[0].Master = "bond0" }, fail.Safety, "eth0 is part of bond0, which has the addresses"},
		"no carrier":     {func(w *hosttest.World, _ *config.Spec) { w.Net.Links[0].State = "no carrier" }, fail.Step, "eth0 has no carrier, so whether its new configuration works can't be seen"},
		"nobody's":       {func(w *hosttest.World, _ *config.Spec) { w.Owners = nil }, fail.Safety, "no network manager that nodeagent knows configures eth0: NetworkManager doesn't run; systemd-networkd doesn't run"},
		"static routes": {func(w *hosttest.World, _ *config.Spec) {
			owner(w, func(o *host.NetworkOwner) { o.Losses = []string{"2 static route(s) in ipv4"} })
		}, fail.Safety, "eth0 is configured by eth0, which has more than nodeagent would write: 2 static route(s) in ipv4"},
		"a static one": {func(w *hosttest.World, _ *config.Spec) { w.Net.Addresses[0].Dynamic = false }, fail.Safety, "eth0 has the static address 192.0.2.50/24, which the configuration doesn't have"},
		"static, IPv6": {func(w *hosttest.World, _ *config.Spec) {
			w.Net.Addresses = append(w.Net.Addresses, host.Address{Interface: "eth0", IP: "2001:db8::5", Prefix: 64})
		}, fail.Safety, "eth0 has the static address 2001:db8::5/64"},
		"somebody else's": {func(w *hosttest.World, _ *config.Spec) {
			path, _ := netfile.Path(netfile.NetworkManager, "eth0")
			w.Files[path] = hosttest.File{Content: "[connection]\n", Mode: "0600"}
		}, fail.Safety, "/etc/NetworkManager/system-connections/nodeagent-eth0.nmconnection is somebody else's"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := world(netfile.NetworkManager, "192.0.2.50/24"), asked(true)
			c.change(w, &s)
			p := planned(t, w, s)
			require.Empty(t, p.Changes)
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], c.want)
			require.Equal(t, c.kind, fail.KindOf(p.Blocked[0]))
			require.NotEmpty(t, fail.HintOf(p.Blocked[0]))
		})
	}
}

func TestAnAddressThatIsKeptOrBecomesStaticIsNoLoss(t *testing.T) {
	w, s := world(netfile.NetworkManager, "192.0.2.50/24"), asked(true)
	w.Net.Addresses[0].Dynamic = false
	s.Network.Interfaces[0].Addresses = []string{"192.0.2.10/24", "192.0.2.50/24"}
	require.Empty(t, planned(t, w, s).Blocked)

	w.Net.Addresses = append(w.Net.Addresses, host.Address{Interface: "eth0", IP: "2001:db8::5", Prefix: 64, Dynamic: true})
	p := planned(t, w, s)
	require.Empty(t, p.Blocked)
	require.Empty(t, p.Warnings, "router advertisements go on")
}

// The files, byte for byte.
func TestTheFilesOfBothManagers(t *testing.T) {
	card := host.Link{Name: "eth0", MAC: mac, Kind: "device"}
	dual := config.Interface{MAC: "52-54-00-12-34-56", Addresses: []string{"192.0.2.10/24", "198.51.100.10/25", "2001:db8::10/64"}, Gateway: "192.0.2.1",
		DNS: []string{"192.0.2.53", "2001:db8::53", "192.0.2.54"}, Search: []string{"a.example", "b.example"}}
	six := config.Interface{Name: "eth0", Addresses: []string{"2001:db8::10/64"}, Gateway: "fe80::1", DNS: []string{"192.0.2.53"}, Search: []string{"a.example"}}
	four := config.Interface{Name: "eth0", Addresses: []string{"192.0.2.10/24"}}
	head := "# Written by nodeagent: spec.network.interfaces.\n"
	connection := head + "[connection]\nid=nodeagent-eth0\nuuid=" + netfile.UUID("eth0") + "\ntype=ethernet\n"
	for name, c := range map[string]struct{ got, want string }{
		"keyfile, both families": {keyfile(dual, card, "internal"), connection + "autoconnect=true\nautoconnect-priority=100\nzone=internal\n\n[ethernet]\nmac-address=52:54:00:12:34:56\n\n" +
			"[ipv4]\nmethod=manual\naddress1=192.0.2.10/24,192.0.2.1\naddress2=198.51.100.10/25\ndns=192.0.2.53;192.0.2.54;\ndns-search=a.example;b.example;\n\n" +
			"[ipv6]\nmethod=manual\naddress1=2001:db8::10/64\ndns=2001:db8::53;\n"},
		"keyfile, IPv6 alone": {keyfile(six, card, ""), connection + "interface-name=eth0\nautoconnect=true\nautoconnect-priority=100\n\n[ethernet]\n\n" +
			"[ipv4]\nmethod=auto\ndns=192.0.2.53;\n\n[ipv6]\nmethod=manual\naddress1=2001:db8::10/64,fe80::1\ndns-search=a.example;\n"},
		"networkd, both families": {networkFile(dual, card), head + "[Match]\nName=eth0\nMACAddress=52:54:00:12:34:56\n\n[Network]\nDHCP=no\nIPv6AcceptRA=no\n" +
			"Address=192.0.2.10/24\nAddress=198.51.100.10/25\nAddress=2001:db8::10/64\nGateway=192.0.2.1\nDNS=192.0.2.53\nDNS=2001:db8::53\nDNS=192.0.2.54\nDomains=a.example b.example\n"},
		"networkd, IPv6 alone": {networkFile(six, card), head + "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\nAddress=2001:db8::10/64\nGateway=fe80::1\nDNS=192.0.2.53\nDomains=a.example\n"},
		"networkd, IPv4 alone": {networkFile(four, card), head + "[Match]\nName=eth0\n\n[Network]\nDHCP=no\nIPv6AcceptRA=yes\nAddress=192.0.2.10/24\n"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.got) })
	}
	other := host.Link{Name: "eth0", MAC: "52:54:00:aa:aa:aa", Permanent: mac}
	require.Contains(t, networkFile(dual, other), "\nPermanentMACAddress=52:54:00:12:34:56\n")
	cloned := host.Link{Name: "eth0", MAC: mac, Permanent: "52:54:00:aa:aa:aa"}
	require.Contains(t, keyfile(dual, cloned, ""), "\ninterface-name=eth0\n", "NetworkManager compares with the permanent address")
	require.Empty(t, netfile.Losses(networkFile(dual, card)), "nothing of ours is a loss")
}

func TestATreeOfFilesIsNotCompared(t *testing.T) {
	f := Facts{}
	require.Equal(t, []string{"the interfaces are compared on the host itself"}, Plan(asked(true), f).Warnings)
}

func FuzzAResolverFileIsReadWhateverItHolds(f *testing.F) {
	f.Add("search a b\nnameserver 192.0.2.53\n")
	f.Add("nameserver\n domain x\noptions ndots:5\n")
	f.Fuzz(func(t *testing.T, text string) {
		servers, search := resolver(text)
		for _, s := range append(servers, search...) {
			require.NotEmpty(t, s)
			require.True(t, strings.Contains(text, s))
		}
	})
}
