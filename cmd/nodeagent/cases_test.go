package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/report"
	"nodeagent/internal/run"
)

// Field cases that only a whole run can show; docs/cases.md lists all of them.

// stubborn is a host on which somebody turns a swap area on again at once.
type stubborn struct{ *hosttest.World }

func (s stubborn) Apply(ctx context.Context, c change.Change, progress func(string)) error {
	err := s.World.Apply(ctx, c, progress)
	if c.ID() == "swapoff:/dev/zram0" {
		s.Swaps = append(s.Swaps, hosttest.Swap{Area: "/dev/zram0", Kind: "partition", Unit: "dev-zram0.swap"})
	}
	return err
}

func TestS7SwapThatIsStillThereAfterwardsFailsAndIsNamed(t *testing.T) {
	w := hosttest.Rocky9()
	w.Swaps = append(w.Swaps, hosttest.Swap{Area: "/dev/zram0", Kind: "partition", Unit: "dev-zram0.swap"})
	w.UnitStates["zramswap.service"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	before := w.String()
	p := run.Make(context.Background(), w, lawCases(t)["rocky9"].spec, steps)
	require.Equal(t, before, w.String())
	require.Contains(t, text(t, p), "/dev/zram0")
	_, err := run.Up(context.Background(), stubborn{w}, lawCases(t)["rocky9"].spec, steps, run.Options{ID: "s7", Version: "test", Now: time.Now}, func(report.Event) {})
	require.ErrorContains(t, err, "step swap was applied, but the host still needs: ")
	require.ErrorContains(t, err, "/dev/zram0")
	require.False(t, w.NodeObject.Joined)
}

// clusterRules are rules as kube-proxy and flannel leave them.
const clusterRules = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
:FLANNEL-FWD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A INPUT -j KUBE-FIREWALL
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A OUTPUT -j ACCEPT
-A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 53 -j REJECT --reject-with icmp-port-unreachable
COMMIT
`

// photonNode is a Photon host with such rules, after a run.
func photonNode(t *testing.T) (before, after *hosttest.World) {
	world := func() *hosttest.World {
		w := hosttest.Photon5()
		w.Tables.Filter = map[string]string{"ipv4": clusterRules, "ipv6": w.Tables.Filter["ipv6"]}
		return w
	}
	after = world()
	_, err := up(after, lawCases(t)["photon5"].spec)
	require.NoError(t, err, "%s", run.Describe(err))
	return world(), after
}

// withoutOurs drops the lines that name nodeagent.
func withoutOurs(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "--comment nodeagent ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestF5TheRulesOfTheClusterAreEqualBeforeAndAfter(t *testing.T) {
	before, after := photonNode(t)
	for family := range before.Tables.Filter {
		require.NotEqual(t, before.Tables.Filter[family], after.Tables.Filter[family])
		require.Equal(t, before.Tables.Filter[family], withoutOurs(after.Tables.Filter[family]))
	}
	for _, id := range after.Log() {
		require.NotContains(t, id, "unit:iptables.service", "a restart would flush every table")
		require.NotContains(t, id, "unit:firewalld.service")
	}
}

func TestF6OurLiveRuleStandsBeforeTheReject(t *testing.T) {
	_, after := photonNode(t)
	text := after.Tables.Filter["ipv4"]
	require.Contains(t, text, "--dport 10250 ")
	require.Less(t, strings.Index(text, "--dport 10250 "), strings.Index(text, "-A INPUT -j REJECT --reject-with icmp-host-prohibited"))
}

func TestF7NothingOfTheLiveRulesGetsIntoTheFilesForTheNextBoot(t *testing.T) {
	before, after := photonNode(t)
	for _, file := range []string{"/etc/systemd/scripts/ip4save", "/etc/systemd/scripts/ip6save"} {
		was, is := before.Files[file], after.Files[file]
		require.Equal(t, was.Content, withoutOurs(is.Content), "every other byte is kept")
		require.NotContains(t, is.Content, "KUBE-")
		require.NotContains(t, is.Content, "FLANNEL-")
		require.Contains(t, is.Content, "-A INPUT -p tcp -m tcp --dport 10250 -m comment --comment nodeagent -j ACCEPT\n")
		require.True(t, strings.HasSuffix(is.Content, "\nCOMMIT\n"), "ours stand before it")
		require.Equal(t, was.Mode, is.Mode)
	}
}

func TestJ7TheUnitRunsAtEveryBootAndNotOnTheFirstAlone(t *testing.T) {
	b, err := os.ReadFile("../../packaging/nodeagent.service")
	require.NoError(t, err)
	unit := string(b)
	for _, once := range []string{"ConditionFirstBoot", "ConditionNeedsUpdate", "machine-id", "first-boot-complete"} {
		require.NotContains(t, unit, once, "an image has a machine-id already")
	}
	require.Contains(t, unit, "\nWantedBy=multi-user.target\n")
	require.Contains(t, unit, "\nRestart=on-failure\n")
}
