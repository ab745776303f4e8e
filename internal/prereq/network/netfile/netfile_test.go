package netfile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatANetworkFileHasThatOursWouldNot(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"DHCP for every card, as Photon OS has it": {"[Match]\nName=e*\n\n[Network]\nDHCP=yes\nIPv6AcceptRA=no\n", nil},
		"what cloud-init renders":                  {"[Match]\nMACAddress=00:50:56:86:12:34\nName=eth0\n\n[Network]\nDHCP=no\nDNS=192.0.2.53\nDomains=a.example\n\n[Address]\nAddress=192.0.2.11/24\n\n[Route]\nGateway=192.0.2.1\nDestination=0.0.0.0/0\n", nil},
		"static routes":                            {"[Match]\nName=eth0\n[Route]\nGateway=192.0.2.9\nDestination=198.51.100.0/24\n[Route]\nGateway=192.0.2.1\n", []string{"[Route] Destination=198.51.100.0/24"}},
		"a route of a table of its own":            {"[Route]\nGateway=192.0.2.1\nTable=99\n", []string{"[Route] Destination="}},
		"MTU, VLANs and rules":                     {"[Link]\nMTUBytes=9000\nRequiredForOnline=yes\n[Network]\nVLAN=vlan12\n[RoutingPolicyRule]\nFrom=192.0.2.0/24\n", []string{"[Link] MTUBytes=9000", "[Network] VLAN=vlan12", "[RoutingPolicyRule] From=192.0.2.0/24"}},
		"comments, empty values and long lines":    {"# x\n; y\n[Network]\nVLAN=\nDomains=a.example \\\n  b.example\n  Bridge = br0\n[Link]\nMTUBytes=9000\\", []string{"[Link] MTUBytes=9000", "[Network] Bridge=br0"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Losses(c.text)) })
	}
}

func TestWhatNetworkdSaysOfALinkIsRead(t *testing.T) {
	got := Assignments("# This is private data. Do not parse.\nADMIN_STATE=configured\nOPER_STATE=routable\nNETWORK_FILE=/etc/systemd/network/99-dhcp-en.network\nDNS=\n")
	require.Equal(t, map[string]string{"ADMIN_STATE": "configured", "OPER_STATE": "routable", "NETWORK_FILE": "/etc/systemd/network/99-dhcp-en.network", "DNS": ""}, got)
}

func TestAConnectionHasOneUUIDForEver(t *testing.T) {
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, UUID("eth0"))
	require.Equal(t, UUID("eth0"), UUID("eth0"))
	require.NotEqual(t, UUID("eth0"), UUID("eth1"))
}

func FuzzANetworkFileIsReadWhateverItHolds(f *testing.F) {
	f.Add("[Match]\nName=e*\n[Network]\nDHCP=yes\n[Route]\nDestination=::/0\nGateway=fe80::1\n")
	f.Add("[Network]\nDNS=\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := Losses(text)
		require.True(t, slices.IsSorted(got))
		require.Equal(t, got, Losses("[Network]\nDHCP=yes\n[]\n"+text), "what is ours adds nothing")
		Assignments(text)
	})
}
