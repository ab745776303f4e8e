package sysctld

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesOfTheFieldAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Setting
	}{
		"Photon's hardening": {"# Disable IP forwarding\nnet.ipv4.ip_forward=0\nnet.ipv4.conf.all.rp_filter=1\n",
			[]Setting{{"net.ipv4.ip_forward", "0"}, {"net.ipv4.conf.all.rp_filter", "1"}}},
		"EL's 50-redhat": {"# Source route verification\nnet.ipv4.conf.default.rp_filter = 1\nnet.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.all.rp_filter\n",
			[]Setting{{"net.ipv4.conf.default.rp_filter", "1"}, {"net.ipv4.conf.*.rp_filter", "1"}}},
		"slashes, lists, comments": {"; x\nnet/ipv4/conf/eth0.100/forwarding=1\n-net.ipv4.ip_local_port_range =\t1024   65000\nnonsense\n=1\n",
			[]Setting{{"net.ipv4.conf.eth0/100.forwarding", "1"}, {"net.ipv4.ip_local_port_range", "1024 65000"}}},
		"empty": {"", nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Parse(c.text)) })
	}
}

func TestPatternsDoNotCrossSeparators(t *testing.T) {
	require.True(t, Matches("net.ipv4.conf.*.rp_filter", "net.ipv4.conf.all.rp_filter"))
	require.True(t, Matches("net.ipv4.ip_forward", "net.ipv4.ip_forward"))
	require.False(t, Matches("net.*.ip_forward", "net.ipv4.conf.ip_forward"))
	require.False(t, Matches("net.ipv4.[", "net.ipv4.ip_forward"))
}

func TestFilesWithAGreaterNameAreReadAfterOurs(t *testing.T) {
	require.Equal(t, []string{"/usr/lib/sysctl.d/zz-z.conf", "/etc/sysctl.d/zzz.conf"}, After("zz-ours.conf", map[string][]string{
		"/etc/sysctl.d":     {"99-sysctl.conf", "k8s.conf", "zz-ours.conf", "zzz.conf", "zzz.conf.rpmsave"},
		"/usr/lib/sysctl.d": {"50-default.conf", "zz-z.conf", "zzz.conf"},
	}))
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add("-a.b = 1\n/x/y=2")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range Parse(text) {
			if s.Key == "" {
				t.Fatalf("%q", text)
			}
			Matches(s.Key, "a.b")
		}
	})
}
