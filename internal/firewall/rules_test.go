package firewall

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

const (
	ip4save   = "/etc/systemd/scripts/ip4save"
	ip6save   = "/etc/systemd/scripts/ip6save"
	sysconfig = "/etc/sysconfig/iptables"
)

// stock is what Photon OS's iptables.service loads.
const stock = `# init
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
# Allow local-only connections
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A OUTPUT -j ACCEPT
COMMIT
`

// liveStock is the same as iptables-save prints it, with what kube-proxy adds.
const liveStock = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
`

func file(content string) host.Text {
	return host.Text{Exists: true, Mode: "0644", Owner: "root:root", Content: content}
}

// photon5 is a live Photon OS host.
func photon5(f *Facts) {
	f.Firewalld = host.Firewalld{}
	f.IPTables = host.IPTables{Installed: true, Variant: "nft", Filter: map[string]string{"ipv4": liveStock, "ipv6": stock}}
	f.Units = map[string]host.Unit{"iptables.service": {LoadState: "loaded", ActiveState: "active"}}
	f.Files = map[string]host.Text{ip4save: file(stock), ip6save: file(stock)}
}

var tableRows = map[string]struct {
	spec  func(*config.Spec)
	facts func(*Facts)
	want  string
}{
	"Photon: files for the next boot, then the live rules of both families": {
		facts: photon5,
		want: "keep the rules for ipv4 in " + ip4save + "\n" +
			"keep the rules for ipv6 in " + ip6save + "\n" +
			"insert 1 rule(s) into the live filter table for ipv4 (iptables-nft)\n" +
			"insert 1 rule(s) into the live filter table for ipv6 (iptables-nft)\n"},
	"Photon: what is open already isn't opened again": {
		facts: func(f *Facts) {
			photon5(f)
			open := func(s string) string {
				return strings.Replace(s, "--dport 22 -j", "--dport 10000:11000 -j", 1)
			}
			f.Files[ip4save], f.IPTables.Filter["ipv6"] = file(open(stock)), open(stock)
		},
		want: "keep the rules for ipv6 in " + ip6save + "\n" +
			"insert 1 rule(s) into the live filter table for ipv4 (iptables-nft)\n"},
	"a legacy rule set is edited with the legacy programs": {
		facts: func(f *Facts) {
			photon5(f)
			f.IPTables.Variant, f.Files = "legacy", map[string]host.Text{ip4save: file(stock), ip6save: file(stock)}
			delete(f.IPTables.Filter, "ipv6") // a kernel without IPv6
		},
		want: "keep the rules for ipv4 in " + ip4save + "\n" +
			"keep the rules for ipv6 in " + ip6save + "\n" +
			"insert 1 rule(s) into the live filter table for ipv4 (iptables-legacy)\n"},
	"both rule sets hold rules": {
		facts: func(f *Facts) {
			photon5(f)
			f.IPTables = host.IPTables{Installed: true, Variant: "nft", Both: true}
			f.Files = nil
		},
		want: "warning: iptables-nft and iptables-legacy both hold rules, and each sees only its own: the ports are opened in nft\n"},
	"F7: a malformed line is told, and the file is edited all the same": {
		facts: func(f *Facts) {
			photon5(f)
			f.IPTables.Filter = nil
			f.Files = map[string]host.Text{ip4save: file(strings.Replace(stock, "[0:0]", "[00]", 1))}
		},
		want: "keep the rules for ipv4 in " + ip4save + "\n" +
			"warning: " + ip4save + ": line 3: \":INPUT DROP [00]\" has counters that aren't [packets:bytes]\n"},
	"F7: a file that can't be loaded is refused": {
		facts: func(f *Facts) {
			photon5(f)
			f.IPTables.Filter = nil
			f.Files = map[string]host.Text{ip4save: file(strings.TrimSuffix(stock, "COMMIT\n"))}
		},
		want: "blocked: " + ip4save + " can't be loaded at boot: table filter, begun in line 2, has no COMMIT\n"},
	"rules that no file keeps are told": {
		facts: func(f *Facts) {
			photon5(f)
			f.Files, f.Units = nil, nil
			delete(f.IPTables.Filter, "ipv6")
		},
		want: "insert 1 rule(s) into the live filter table for ipv4 (iptables-nft)\n" +
			"warning: no file is known that loads rules for ipv4 at boot (/etc/systemd/scripts/ip4save, /etc/sysconfig/iptables): what is opened now is closed after a reboot\n"},
	"a table that only nft can show is refused": {
		facts: func(f *Facts) {
			photon5(f)
			f.Files = nil
			f.IPTables.Filter = map[string]string{"ipv4": "# Table `filter' is incompatible, use 'nft' tool.\n"}
		},
		want: "blocked: the live filter table for ipv4 can't be read: line 1: the filter table has chains that only nft can show: # Table `filter' is incompatible, use 'nft' tool.\n"},
	"rules that are only the cluster's own are no firewall": {
		facts: func(f *Facts) {
			photon5(f)
			f.Files, f.Units = nil, nil
			f.IPTables.Filter = map[string]string{"ipv4": "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j KUBE-FIREWALL\nCOMMIT\n", "ipv6": ""}
		}},
	"a service that doesn't run is no firewall": {
		facts: func(f *Facts) {
			photon5(f)
			f.IPTables.Filter = map[string]string{"ipv4": "", "ipv6": ""}
			f.Units["iptables.service"] = host.Unit{LoadState: "loaded", ActiveState: "inactive"}
		}},
	"F1: a stopped firewalld beside active iptables: what is active counts": {
		facts: func(f *Facts) {
			stopped := f.Firewalld
			photon5(f)
			stopped.Running, stopped.State = false, ""
			f.Firewalld = stopped
			f.Files = map[string]host.Text{sysconfig: file(stock)}
			delete(f.IPTables.Filter, "ipv6")
		},
		want: "keep the rules for ipv4 in " + sysconfig + "\n" +
			"insert 1 rule(s) into the live filter table for ipv4 (iptables-nft)\n"},
	"both present: firewalld": {
		facts: func(f *Facts) {
			running := f.Firewalld
			photon5(f)
			f.Firewalld = running
		},
		want: "allow in zone public permanently: 10250/tcp\n" +
			"allow in zone public now: 10250/tcp\n"},
	"a rule against a wanted port stays and is told": {
		facts: func(f *Facts) {
			photon5(f)
			f.Files = map[string]host.Text{ip4save: file(stock)}
			f.IPTables.Filter = map[string]string{"ipv4": strings.Replace(liveStock, "-A OUTPUT", "-A INPUT -p tcp -m tcp --dport 10250 -j DROP\n-A OUTPUT", 1)}
		},
		want: "keep the rules for ipv4 in " + ip4save + "\n" +
			"insert 1 rule(s) into the live filter table for ipv4 (iptables-nft)\n" +
			"warning: this rule for ipv4 stays and closes a port that is wanted open: -A INPUT -p tcp -m tcp --dport 10250 -j DROP\n"},
	"a tree of files of Photon": {
		facts: func(f *Facts) {
			photon5(f)
			f.Live, f.Units, f.IPTables.Filter, f.Network = false, nil, nil, host.Network{}
		},
		want: "keep the rules for ipv4 in " + ip4save + "\n" +
			"keep the rules for ipv6 in " + ip6save + "\n"},
	"manager iptables without iptables": {
		spec:  func(s *config.Spec) { s.Firewall.Manager = "iptables" },
		facts: func(f *Facts) { f.Firewalld = host.Firewalld{} },
		want:  "blocked: firewall.manager is iptables, and iptables isn't on this host\n"},
	"nftables.service flushes": {
		facts: func(f *Facts) {
			f.Firewalld = host.Firewalld{}
			f.NFTables, f.Flushes = true, "/etc/nftables.conf"
		},
		want: "warning: /etc/nftables.conf has flush ruleset, and nftables.service loads it: each start of it removes the rules of kube-proxy and of the network plugin\n"},
	"nftables.service with rules of its own": {
		facts: func(f *Facts) { f.Firewalld, f.NFTables = host.Firewalld{}, true },
		want:  "warning: nftables.service loads rules that nodeagent doesn't edit: let in there what is to be open: 10250/tcp\n"},
}

func TestWhatIptablesGets(t *testing.T) {
	for name, r := range tableRows {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, r.want, text(Plan(spec(r.spec), facts(r.facts))))
		})
	}
}

func TestTheRulesOfEveryPlugin(t *testing.T) {
	for cni, want := range map[string][2]string{
		"calico": {`-A INPUT -p tcp -m tcp --dport 179
-A INPUT -p tcp -m tcp --dport 5473
-A INPUT -p tcp -m tcp --dport 10250
-A INPUT -p udp -m udp --dport 4789
-A INPUT -p udp -m udp --dport 51820:51821
-A INPUT -p 4
-A INPUT -s 10.244.0.0/16
-A FORWARD -i cali+
-A FORWARD -o cali+
-A FORWARD -i tunl+
-A FORWARD -o tunl+
-A FORWARD -i vxlan.calico
-A FORWARD -o vxlan.calico
-A FORWARD -i vxlan-v6.calico
-A FORWARD -o vxlan-v6.calico
-A FORWARD -i wireguard.cali
-A FORWARD -o wireguard.cali
-A FORWARD -i wg-v6.cali
-A FORWARD -o wg-v6.cali
-A FORWARD -s 10.244.0.0/16
-A FORWARD -d 10.244.0.0/16
`, ""},
		"cilium": {"", `-A INPUT -p tcp -m tcp --dport 4240
-A INPUT -p tcp -m tcp --dport 4244
-A INPUT -p tcp -m tcp --dport 4245
-A INPUT -p tcp -m tcp --dport 4250
-A INPUT -p tcp -m tcp --dport 9962:9964
-A INPUT -p tcp -m tcp --dport 10250
-A INPUT -p udp -m udp --dport 6081
-A INPUT -p udp -m udp --dport 8472
-A INPUT -p udp -m udp --dport 51871
-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 128
-A INPUT -s 2001:db8:42::/56
-A FORWARD -i cilium+
-A FORWARD -o cilium+
-A FORWARD -i lxc+
-A FORWARD -o lxc+
-A FORWARD -s 2001:db8:42::/56
-A FORWARD -d 2001:db8:42::/56
`},
	} {
		w, err := want4(cni)
		require.NoError(t, err)
		for i, family := range []string{"ipv4", "ipv6"} {
			if want[i] != "" {
				require.Equal(t, want[i], strings.ReplaceAll(strings.Join(w.rules(family), "\n")+"\n", ours, ""), cni)
			}
		}
	}
}

func want4(cni string) (wants, error) {
	return want(spec(func(s *config.Spec) {
		s.Firewall.CNI, s.Firewall.TrustedSources = cni, []string{"10.244.0.0/16", "2001:db8:42::/56"}
	}))
}

// F6 and F7 through a whole run, cut off after any change.
func TestIptablesConvergesFromEveryPointWhereItMayBeCutOff(t *testing.T) {
	ctx := context.Background()
	s := spec(func(s *config.Spec) {
		s.Firewall.CNI, s.Firewall.Allow, s.Firewall.TrustedSources = "flannel", []string{"30000-32767/tcp"}, []string{"10.244.0.0/16"}
	})
	world := func() *hosttest.World {
		w := hosttest.Rocky9()
		w.Firewall = host.Firewalld{}
		w.Tables = host.IPTables{Installed: true, Variant: "nft", Filter: map[string]string{"ipv4": liveStock, "ipv6": stock}}
		w.Files[ip4save], w.Files[ip6save] = hosttest.File{Content: stock, Mode: "0600"}, hosttest.File{Content: stock}
		w.UnitStates["iptables.service"] = host.Unit{LoadState: "loaded", ActiveState: "active"}
		return w
	}
	run := func(w *hosttest.World, stop int) int {
		f, err := Observe(ctx, w, s)
		require.NoError(t, err)
		p := Plan(s, f)
		require.Empty(t, p.Blocked)
		for i, c := range p.Changes {
			if i == stop {
				break
			}
			require.NoError(t, w.Apply(ctx, c, nil))
		}
		return len(p.Changes)
	}
	reference := world()
	require.Equal(t, 4, run(reference, -1))
	require.Zero(t, run(reference, -1))
	require.Equal(t, "0600", reference.Files[ip4save].Mode)
	for stop := range 4 {
		w := world()
		run(w, stop)
		run(w, -1)
		require.Equal(t, reference.String(), w.String(), "cut off after %d", stop)
	}

	kept := reference.Files[ip4save].Content
	require.NotContains(t, kept, "KUBE-", "nothing live is kept")
	require.True(t, strings.HasSuffix(kept, "-A FORWARD -d 10.244.0.0/16"+ours+"\nCOMMIT\n"))
	require.Contains(t, kept, "-A INPUT -p tcp -m tcp --dport 30000:32767"+ours+"\n", "F2")
}

func TestALiveChangeShowsItsRules(t *testing.T) {
	p := Plan(spec(nil), facts(photon5))
	c := p.Changes[2].(change.AllowPorts)
	require.Equal(t, "firewall:iptables-nft:ipv4", c.ID())
	require.Equal(t, "-A INPUT -p tcp -m tcp --dport 10250 -m comment --comment nodeagent -j ACCEPT\n", c.Diff())
}

func TestAnEnabledNftablesServiceAndItsFileAreLookedAt(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/systemd/system/multi-user.target.wants/nftables.service"] = hosttest.File{Link: "/usr/lib/systemd/system/nftables.service"}
	w.Files["/etc/sysconfig/nftables.conf"] = hosttest.File{Content: "# flush ruleset\ninclude \"/etc/nftables/main.nft\"\n"}
	f, err := Observe(context.Background(), w, spec(nil))
	require.NoError(t, err)
	require.True(t, f.NFTables)
	require.Empty(t, f.Flushes, "it is a comment")
	w.Files["/etc/nftables.conf"] = hosttest.File{Content: "#!/usr/sbin/nft -f\n\nflush ruleset\n"}
	f, err = Observe(context.Background(), w, spec(nil))
	require.NoError(t, err)
	require.Equal(t, "/etc/nftables.conf", f.Flushes)
}
