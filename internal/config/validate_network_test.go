package config

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

func TestInterfacesAreChecked(t *testing.T) {
	for _, c := range []struct{ network, want string }{
		{`{configure: true}`, "spec.network.configure: true, and no interface is given"},
		{`{configure: true, interfaces: [{name: eth0}]}`, "spec.network.interfaces[0].addresses: missing, and network.configure is true"},
		{`{interfaces: [{addresses: [192.0.2.10/24]}]}`, "neither name nor mac tells which interface"},
		{`{interfaces: [{name: "eth0\nType=x"}]}`, "is not the name of a network card"},
		{`{interfaces: [{name: "eth*"}]}`, "is not the name of a network card"},
		{`{interfaces: [{name: lo}]}`, `"lo" is not the name`},
		{`{interfaces: [{name: abcdefghijklmnop}]}`, "is not the name of a network card"},
		{`{interfaces: [{mac: "00:50:56"}]}`, `"00:50:56" is not a hardware address`},
		{`{interfaces: [{mac: "0050.5686.1234"}]}`, "is not a hardware address"},
		{`{interfaces: [{mac: "00:50:56:86:12:34"}, {mac: 00-50-56-86-12-34}]}`, "spec.network.interfaces[1].mac: the hardware address 00:50:56:86:12:34 is given at spec.network.interfaces[0].mac already"},
		{`{interfaces: [{name: eth0}, {name: eth0}]}`, "interface eth0 is given at spec.network.interfaces[0].name already"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10]}]}`, `"192.0.2.10" is not an address with prefix length`},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/33]}]}`, "is not an address with prefix length"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/255.255.255.0]}]}`, "write 192.0.2.10/24"},
		{`{interfaces: [{name: eth0, addresses: ["192.0.2.10 255.255.0.0"]}]}`, "write 192.0.2.10/16"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/255.0.255.0]}]}`, "is not an address with prefix length"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.0/24]}]}`, "192.0.2.0/24 is a network, not an address in one"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/0]}]}`, "is a network, not an address"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.255/24]}]}`, "is the broadcast address"},
		{`{interfaces: [{name: eth0, addresses: [127.0.0.2/8]}]}`, "can't be a host's own address"},
		{`{interfaces: [{name: eth0, addresses: ["::ffff:192.0.2.1/120"]}]}`, "address"},
		{`{interfaces: [{name: eth0, addresses: ["fe80::1/64"]}]}`, "can't be a host's own address"},
		{`{interfaces: [{name: eth0, addresses: ["2001:DB8::10/64"]}]}`, "write 2001:db8::10/64"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/24, 192.0.2.10/25]}]}`, "192.0.2.10 is given at spec.network.interfaces[0].addresses[0] already"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/24], gateway: 198.51.100.1}]}`, "spec.network.interfaces[0].gateway: 198.51.100.1 is in no network of the interface's addresses"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/24], gateway: "fe80::1"}]}`, "fe80::1 is in no network"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/24], gateway: 192.0.2.10}]}`, "is an address of the interface itself"},
		{`{interfaces: [{name: eth0, addresses: [192.0.2.10/24], gateway: 192.0.2.1/24}]}`, "is not the address of a gateway"},
		{`{interfaces: [{name: eth0, dns: [ns.example]}]}`, `"ns.example" is not the address of a name server`},
		{`{interfaces: [{name: eth0, dns: ["fe80::1%eth0"]}]}`, "is not the address of a name server"},
		{`{interfaces: [{name: eth0, search: ["a;b"]}]}`, `"a;b" is not a domain`},
		{`{interfaces: [{name: eth0, search: ["~."]}]}`, "is not a domain"},
		{`{interfaces: [{name: eth0, adresses: []}]}`, "adresses"},
	} {
		_, err := load(t, smallest+"  network: "+c.network+"\n")
		require.Error(t, err, c.network)
		require.Contains(t, err.Error()+"; "+fail.HintOf(err), c.want, c.network)
	}
}

func TestInterfacesMayBeAsTheyAre(t *testing.T) {
	for _, network := range []string{
		`{interfaces: [{mac: 00-50-56-86-12-34}]}`,
		`{configure: true, interfaces: [{name: ens192, mac: "00:50:56:86:12:34", addresses: [192.0.2.10/24, "2001:db8::10/64"], gateway: 192.0.2.1, dns: [192.0.2.53, "2001:db8::53"], search: [cluster.example]}]}`,
		`{interfaces: [{name: eth0, addresses: ["2001:db8::10/64"], gateway: "fe80::1"}, {name: eth1.12, addresses: [192.0.2.1/31], gateway: 192.0.2.0}]}`,
		`{interfaces: [{name: eth0, addresses: [192.0.2.10/32]}]}`,
	} {
		_, err := load(t, smallest+"  network: "+network+"\n")
		require.NoError(t, err, network)
	}
}

func TestTwoDefaultGatewaysAreTold(t *testing.T) {
	c, err := load(t, smallest+"  network: {interfaces: [{name: eth0, addresses: [192.0.2.10/24], gateway: 192.0.2.1}, {name: eth1, addresses: [198.51.100.2/24], gateway: 198.51.100.1}]}\n")
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "spec.network.interfaces[1].gateway: a default gateway is given at spec.network.interfaces[0].gateway, too")
}

func FuzzInterfacesThatPassHaveNothingThatAFileWouldTakeOtherwise(f *testing.F) {
	f.Add("eth0", "00:50:56:86:12:34", "192.0.2.10/24", "192.0.2.1", "a.example")
	f.Add("eth0\n", "", "192.0.2.10/255.255.255.0", "", "a;b")
	f.Fuzz(func(t *testing.T, name, mac, address, gateway, domain string) {
		s := Default().Spec
		s.Network.Interfaces = []Interface{{Name: name, MAC: mac, Addresses: []string{address}, Gateway: gateway, Search: []string{domain}}}
		k := &checker{d: &decoder{}}
		k.network(&s)
		if len(k.d.problems) > 0 {
			return
		}
		require.NotRegexp(t, `[\s;=,*?\[\]!]`, name+address+gateway+domain)
		_, err := netip.ParsePrefix(address)
		require.NoError(t, err)
	})
}
