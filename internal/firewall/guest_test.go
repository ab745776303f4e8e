package firewall

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// guestEnv names the firewall of the throw-away guest in which the tests of
// this file run. They change its rules, links and services.
const guestEnv = "NODEAGENT_FIREWALL_GUEST"

func needGuest(t *testing.T, firewall string) {
	t.Helper()
	if os.Getenv(guestEnv) != firewall {
		t.Skipf("changes the firewall of the machine it runs on: copy the test program into a throw-away guest with %s and run it there with %s=%s", firewall, guestEnv, firewall)
	}
}

// sh runs a script in the guest and returns its output.
func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
	return string(out)
}

// converge does what a run does with this step and returns what was changed.
func converge(t *testing.T, s config.Spec) change.Plan {
	t.Helper()
	ctx := t.Context()
	l := host.New()
	f, err := Observe(ctx, l, s)
	require.NoError(t, err)
	p := Plan(s, f)
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		start := time.Now()
		require.NoError(t, l.Apply(ctx, c, nil))
		t.Logf("%s (%d ms)", c.Summary(), time.Since(start).Milliseconds())
	}
	for _, w := range p.Warnings {
		t.Log("warning: " + w)
	}
	start := time.Now()
	programs := l.Stats().Programs
	f, err = Observe(ctx, l, s)
	require.NoError(t, err)
	t.Logf("observed again in %d ms with %d programs", time.Since(start).Milliseconds(), l.Stats().Programs-programs)
	again := Plan(s, f)
	require.Empty(t, text(change.Plan{Changes: again.Changes, Blocked: again.Blocked}), "a second run changes nothing")
	return p
}

// asInstalled takes away what earlier tests left, and makes one variant of
// iptables the usual one.
func asInstalled(t *testing.T, variant string) {
	t.Helper()
	sh(t, `systemctl stop firewalld
systemctl disable --now iptables.service || true
rm -rf /etc/firewalld/zones/*.xml /etc/systemd/scripts /etc/systemd/system/iptables.service
systemctl daemon-reload
for t in iptables ip6tables; do
	update-alternatives --set $t /usr/sbin/$t-`+variant+`
	for v in nft legacy; do
		for table in filter nat; do $t-$v -t $table -F; $t-$v -t $table -X; done
		for chain in INPUT FORWARD OUTPUT; do $t-$v -P $chain ACCEPT; done
	done
done
nft flush ruleset`)
}

// lanAndPod makes the guest a node: eth0 leads to a host of the LAN, cni0 to a
// pod.
func lanAndPod(t *testing.T) {
	t.Helper()
	const undo = "ip link del eth0; ip link del cni0; ip netns del lan; ip netns del pod"
	_ = exec.Command("/bin/sh", "-c", undo).Run() // of an earlier run
	t.Cleanup(func() { _ = exec.Command("/bin/sh", "-c", undo).Run() })
	// They would take the addresses away again.
	sh(t, "systemctl stop NetworkManager.service systemd-networkd.socket systemd-networkd.service || true")
	sh(t, `ip netns add lan; ip netns add pod
ip link add eth0 type veth peer name eth0 netns lan
ip addr add 192.0.2.10/24 dev eth0; ip link set eth0 up
ip -n lan addr add 192.0.2.1/24 dev eth0; ip -n lan link set eth0 up
ip route add default via 192.0.2.1
ip -n lan route add 10.244.0.0/24 via 192.0.2.10
ip link add cni0 type bridge; ip addr add 10.244.0.1/24 dev cni0; ip link set cni0 up
ip link add pod0 type veth peer name eth0 netns pod
ip link set pod0 master cni0 up
ip -n pod addr add 10.244.0.5/24 dev eth0; ip -n pod link set eth0 up; ip -n pod route add default via 10.244.0.1
sysctl -qw net.ipv4.ip_forward=1`)
}

func ping(from, to string) bool {
	return exec.Command("ip", "netns", "exec", from, "ping", "-c1", "-W1", to).Run() == nil
}

// arrives tells whether a connection from the LAN gets to a port of the
// guest. Nobody listens there, so it is refused by the kernel itself, while a
// firewall drops it or rejects it otherwise.
func arrives(port string) bool {
	return exec.Command("ip", "netns", "exec", "lan", "python3", "-c", `
import socket, sys
s = socket.socket(); s.settimeout(1)
try: s.connect(("192.0.2.10", `+port+`))
except ConnectionRefusedError: sys.exit(0)
except OSError: sys.exit(1)`).Run() == nil
}

// foreign are rules as a network plugin and kube-proxy leave them.
const foreign = `
nft -f - <<'E'
table ip cni-lab {
	chain forward {
		type filter hook forward priority filter + 10; policy accept;
		ip saddr 10.244.0.0/16 counter accept comment "cni pods"
	}
}
table ip6 cni-lab {
	set pods { type ipv6_addr; elements = { 2001:db8::1 }; }
}
E
for tables in iptables ip6tables; do
	$tables -t nat -N KUBE-SERVICES
	$tables -t nat -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports" -m addrtype --dst-type LOCAL -j RETURN
	$tables -t nat -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
	$tables -N KUBE-FORWARD
	$tables -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
	$tables -A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
	$tables -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
done`

// foreignRules prints every table but those that the test's firewall owns.
const foreignRules = `for t in $(nft list tables | grep -v ' firewalld$' | sed 's/^table //; s/ /:/'); do nft --stateless list table ${t%:*} ${t#*:}; done`

func TestFirewalldForReal(t *testing.T) {
	needGuest(t, "firewalld")
	ctx := context.Background()
	asInstalled(t, "nft")
	sh(t, "systemctl start firewalld; firewall-cmd --state") // that answers when its start is over, which flushes
	lanAndPod(t)
	sh(t, foreign)
	before := sh(t, foreignRules)
	require.Contains(t, before, "KUBE-FORWARD")
	require.Contains(t, before, "cni-lab")

	t.Run("without a change pods can't be reached from the LAN", func(t *testing.T) {
		require.True(t, ping("lan", "192.0.2.10"), "the host itself answers")
		require.False(t, ping("lan", "10.244.0.5"))
	})

	t.Run("F4: the zone at run time gets the ports, and binding follows", func(t *testing.T) {
		sh(t, "firewall-cmd --zone=external --change-interface=eth0")
		p := converge(t, spec(nil))
		require.Len(t, p.Changes, 2)
		require.Contains(t, p.Changes[0].Summary(), "zone external permanently")
		require.Equal(t, "10250/tcp\n", sh(t, "firewall-cmd --zone=external --list-ports"))
		require.Equal(t, "10250/tcp\n", sh(t, "firewall-cmd --permanent --zone=external --list-ports"))
		sh(t, `firewall-cmd --zone=external --remove-interface=eth0
firewall-cmd --zone=external --remove-port=10250/tcp
firewall-cmd --permanent --zone=external --remove-port=10250/tcp`)
	})

	flannel := spec(func(s *config.Spec) {
		s.Firewall.CNI, s.Firewall.Allow = "flannel", []string{"30000-32767/tcp", "30000-32767/udp"}
	})
	t.Run("ports, a plugin's interfaces and forwarding, now and permanently", func(t *testing.T) {
		sh(t, "firewall-cmd --add-port=30500-33000/tcp") // overlaps: firewalld joins them
		converge(t, flannel)
		require.Equal(t, "10250/tcp 30000-32767/udp 30000-33000/tcp 8472/udp\n", fields(sh(t, "firewall-cmd --zone=public --list-ports")))
		require.Equal(t, "10250/tcp 30000-32767/tcp 30000-32767/udp 8472/udp\n", fields(sh(t, "firewall-cmd --permanent --zone=public --list-ports")))
		for _, which := range []string{"", "--permanent "} {
			require.Equal(t, "cni0 eth0 flannel+\n", fields(sh(t, "firewall-cmd "+which+"--zone=public --list-interfaces")))
			require.Equal(t, "yes\n", sh(t, "firewall-cmd "+which+"--zone=public --query-forward"))
			require.Contains(t, sh(t, "firewall-cmd "+which+"--zone=public --list-services"), "ssh", "what was there stays")
		}
		require.True(t, ping("lan", "10.244.0.5"), "from the LAN to a pod")
		require.True(t, ping("pod", "192.0.2.1"), "from a pod to the LAN")
	})

	t.Run("F3: a subset of an open range is open", func(t *testing.T) {
		s := flannel
		s.Firewall.Allow = append([]string{"30002-30003/tcp"}, flannel.Firewall.Allow...)
		require.Empty(t, converge(t, s).Changes)
	})

	t.Run("only what was opened answers", func(t *testing.T) {
		for port, want := range map[string]bool{"10250": true, "30080": true, "20080": false} {
			require.Equal(t, want, arrives(port), port)
		}
	})

	t.Run("trusted sources and a plugin with a protocol", func(t *testing.T) {
		s := spec(func(s *config.Spec) {
			s.Firewall.CNI, s.Firewall.TrustedSources = "calico", []string{"10.244.0.0/16", "2001:db8:42::/56"}
		})
		converge(t, s)
		for _, which := range []string{"", "--permanent "} {
			require.Equal(t, "10.244.0.0/16 2001:db8:42::/56\n", fields(sh(t, "firewall-cmd "+which+"--zone=trusted --list-sources")))
			require.Equal(t, "4\n", sh(t, "firewall-cmd "+which+"--zone=public --list-protocols"))
		}
		require.Contains(t, sh(t, "nft list table inet firewalld"), "cali*")
	})

	t.Run("what is there already is success", func(t *testing.T) {
		for _, permanent := range []bool{false, true} {
			for _, c := range []change.AllowPorts{
				{Backend: "firewalld", Zone: "public", Permanent: permanent, Ports: []string{"10250/tcp", "30001/tcp"}, Protocols: []string{"4"}, Interfaces: []string{"cni0"}, Forward: true},
				{Backend: "firewalld", Zone: "trusted", Permanent: permanent, Sources: []string{"10.244.0.0/16"}},
			} {
				require.NoError(t, host.New().Apply(ctx, c, nil))
			}
		}
	})

	t.Run("a zone that drops gets ICMP for cilium", func(t *testing.T) {
		sh(t, "firewall-cmd --zone=drop --change-interface=eth0")
		require.False(t, ping("lan", "192.0.2.10"))
		converge(t, spec(func(s *config.Spec) { s.Firewall.CNI = "cilium" }))
		require.True(t, ping("lan", "192.0.2.10"))
		sh(t, "firewall-cmd --zone=public --change-interface=eth0")
	})

	t.Run("what firewalld refuses is told", func(t *testing.T) {
		err := host.New().Apply(ctx, change.AllowPorts{Backend: "firewalld", Zone: "nowhere", Ports: []string{"1/tcp"}}, nil)
		require.ErrorContains(t, err, "firewalld refuses 1/tcp in zone nowhere: INVALID_ZONE")
		err = host.New().Apply(ctx, change.AllowPorts{Backend: "firewalld", Zone: "work", Sources: []string{"10.244.0.0/16"}}, nil)
		require.ErrorContains(t, err, "ZONE_CONFLICT")
	})

	t.Run("F5: the rules of others are equal before and after", func(t *testing.T) {
		require.Equal(t, before, sh(t, foreignRules))
	})

	t.Run("a restart of firewalld by somebody loses nothing", func(t *testing.T) {
		sh(t, "systemctl restart firewalld; firewall-cmd --state")
		require.Empty(t, converge(t, flannel).Changes)
		require.True(t, ping("lan", "10.244.0.5"))
	})

	t.Run("a firewalld that is being started is waited for", func(t *testing.T) {
		sh(t, "systemctl stop firewalld; systemctl start --no-block firewalld")
		d, err := host.New().Firewalld(ctx)
		require.NoError(t, err)
		require.True(t, d.Running)
	})

	t.Run("F1: stopped, it is configured for its next start and stays stopped", func(t *testing.T) {
		sh(t, "systemctl stop firewalld")
		s := flannel
		s.Firewall.Allow, s.Firewall.TrustedSources = append([]string{"4000-4010/sctp"}, flannel.Firewall.Allow...), []string{"10.99.0.0/16"}
		p := converge(t, s)
		require.Len(t, p.Changes, 2)
		require.Len(t, p.Warnings, 1)
		require.Equal(t, "inactive\n", sh(t, "systemctl is-active firewalld || true"))
		require.NoError(t, host.New().Apply(ctx, p.Changes[0], nil), "once more is success")
		sh(t, "systemctl start firewalld; firewall-cmd --state")
		require.Empty(t, converge(t, s).Changes, "what the files got is what it starts with")
		require.Contains(t, sh(t, "firewall-cmd --zone=public --list-ports"), "4000-4010/sctp")
	})
}

// fields sorts the words of a line.
func fields(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ") + "\n"
}

// photonUnit is Photon OS's iptables.service in short: it replaces every rule
// with those of the two files.
const photonUnit = `[Unit]
Description=packet filter
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "iptables-restore < /etc/systemd/scripts/ip4save; ip6tables-restore < /etc/systemd/scripts/ip6save"
[Install]
WantedBy=multi-user.target
`

// rejecting is the filter table of iptables-services, whose last rule rejects.
const rejecting = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j REJECT --reject-with icmp-host-prohibited
COMMIT
`

// The stand-in for Photon OS has its files and its unit; the programs and the
// kernel are real.
func TestIptablesForReal(t *testing.T) {
	needGuest(t, "iptables")
	flannel := spec(func(s *config.Spec) {
		s.Firewall.CNI, s.Firewall.Allow, s.Firewall.TrustedSources = "flannel", []string{"30000-32767/tcp", "30000-32767/udp"}, []string{"10.244.0.0/16"}
	})
	// others prints all rules of a variant but ours, without counters.
	others := func(variant string) string {
		return sh(t, "{ iptables-"+variant+"-save; ip6tables-"+variant+"-save; } | sed 's/\\[[0-9:]*\\]//; /^#/d' | grep -v 'comment nodeagent '; "+
			"for f in ip ip6; do nft --stateless list table $f cni-lab; done")
	}
	for _, variant := range []string{"nft", "legacy"} {
		for name, content := range map[string]string{"a policy that drops": stock, "a rule that rejects": rejecting} {
			t.Run(variant+" with "+name, func(t *testing.T) {
				asInstalled(t, variant)
				lanAndPod(t)
				require.NoError(t, os.MkdirAll("/etc/systemd/scripts", 0o755))
				require.NoError(t, os.WriteFile(ip4save, []byte(content), 0o640))
				require.NoError(t, os.WriteFile(ip6save, []byte(strings.ReplaceAll(content, "icmp-host-prohibited", "icmp6-adm-prohibited")), 0o644))
				require.NoError(t, os.WriteFile("/etc/systemd/system/iptables.service", []byte(photonUnit), 0o644))
				sh(t, "systemctl daemon-reload; systemctl enable iptables.service; systemctl restart iptables.service")
				sh(t, foreign)
				before := others(variant)
				require.Contains(t, before, "KUBE-FORWARD")
				started := sh(t, "systemctl show -p ActiveEnterTimestamp iptables.service")
				require.False(t, arrives("10250"))
				require.False(t, ping("pod", "192.0.2.1"))

				p := converge(t, flannel)
				require.Len(t, p.Changes, 4)
				require.Empty(t, p.Warnings)
				for port, want := range map[string]bool{"10250": true, "30080": true, "20080": false} {
					require.Equal(t, want, arrives(port), port)
				}
				require.True(t, ping("pod", "192.0.2.1"), "from a pod to the LAN")
				require.True(t, ping("lan", "10.244.0.5"), "from the LAN to a pod")
				require.Equal(t, before, others(variant), "F5: the rules of others are equal")
				require.Equal(t, started, sh(t, "systemctl show -p ActiveEnterTimestamp iptables.service"), "nothing was restarted")

				kept := sh(t, "cat "+ip4save)
				require.Equal(t, content, sh(t, "grep -v 'comment nodeagent ' "+ip4save), "F7: every other byte stays")
				require.NotContains(t, kept, "KUBE")
				require.Equal(t, "640\n", sh(t, "stat -c %a "+ip4save))
				sh(t, "iptables-restore --test < "+ip4save+"; ip6tables-restore --test < "+ip6save)

				// What a boot does.
				sh(t, "systemctl restart iptables.service")
				require.Empty(t, converge(t, flannel).Changes, "the files open the same")
				require.True(t, arrives("30080"))
				require.False(t, arrives("20080"))
				require.True(t, ping("pod", "192.0.2.1"))
			})
		}
	}
}
