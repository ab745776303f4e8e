package clock

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

const suse = "driftfile /var/lib/chrony/drift\ninclude /etc/chrony.d/*.conf\n"

func spec(servers ...string) config.Spec {
	s := config.Default().Spec
	s.Time = config.Time{Servers: servers, SyncTimeout: config.Duration{Duration: 5 * time.Minute, Set: true}}
	return s
}

func plan(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	t.Helper()
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return Plan(s, f)
}

func apply(t *testing.T, w *hosttest.World, p change.Plan) {
	t.Helper()
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil), c.Summary())
	}
}

func summaries(p change.Plan) (out []string) {
	for _, c := range p.Changes {
		out = append(out, c.Summary())
	}
	return out
}

func TestEachClientFollowsTheServers(t *testing.T) {
	const route, wait = "wait up to 10m0s for a default route (any)", "wait up to 5m0s for the clock to be synchronised from a.example, 192.0.2.1"
	for name, c := range map[string]struct {
		world *hosttest.World
		want  []string
		files map[string]string
	}{
		"rocky: a block in place of the pool": {hosttest.Rocky9().Chronyd("a\npool p iburst\nmakestep 1.0 3\n"),
			[]string{route, "have chronyd follow a.example, 192.0.2.1", "restart chronyd.service: its servers change", wait},
			map[string]string{chronyConf: "a\n" + blockBegin + "\nserver a.example iburst\nserver 192.0.2.1 iburst\n" + blockEnd + "\n" + disabled + "pool p iburst\nmakestep 1.0 3\n"}},
		"suse: a file of our own": {withDirectory(suse),
			[]string{route, "write /etc/chrony.d/nodeagent.conf: follow a.example, 192.0.2.1", "restart chronyd.service: its servers change", wait},
			map[string]string{"/etc/chrony.d/nodeagent.conf": "# spec.time of nodeagent\nserver a.example iburst\nserver 192.0.2.1 iburst\nmakestep 1.0 3\n", chronyConf: suse}},
		"a file of our own, and servers in the main file": {withDirectory(suse + "server old\n"),
			[]string{route, "write /etc/chrony.d/nodeagent.conf: follow a.example, 192.0.2.1", "make comments of the servers in /etc/chrony.conf", "restart chronyd.service: its servers change", wait},
			map[string]string{chronyConf: suse + disabled + "server old\n"}},
		"photon: a drop-in": {hosttest.Photon5().TimesyncdRuns(),
			[]string{route, "write " + dropIn + ": follow a.example, 192.0.2.1", "restart systemd-timesyncd.service: its servers change", wait},
			map[string]string{dropIn: "# spec.time of nodeagent\n[Time]\nNTP=\nNTP=a.example 192.0.2.1\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("a.example", "192.0.2.1")
			p := plan(t, c.world, s)
			require.Equal(t, c.want, summaries(p))
			apply(t, c.world, p)
			for file, content := range c.files {
				require.Equal(t, content, c.world.Files[file].Content)
			}
			require.Empty(t, plan(t, c.world, s).Changes)

			other := plan(t, c.world, spec("b.example"))
			apply(t, c.world, other)
			require.Len(t, other.Changes, 3, "file, restart, wait")
			require.Empty(t, plan(t, c.world, spec("b.example")).Changes)
		})
	}
}

func withDirectory(conf string) *hosttest.World {
	w := hosttest.Rocky9().Chronyd(conf)
	w.Files["/etc/chrony.d/README"] = hosttest.File{Content: "server x\n"}
	return w
}

func TestServersInFilesOfOthersAreTold(t *testing.T) {
	w := withDirectory(suse)
	w.Files["/etc/chrony.d/pool.conf"] = hosttest.File{Content: "pool p iburst\nmakestep 0.5 -1\n"}
	p := plan(t, w, spec("a.example"))
	require.Equal(t, []string{"/etc/chrony.d/pool.conf names servers as well (pool p iburst): chronyd follows them beside those of spec.time.servers"}, p.Warnings)
	apply(t, w, p)
	require.NotContains(t, w.Files["/etc/chrony.d/nodeagent.conf"].Content, "makestep")
}

func TestAClientThatDoesNotRunIsStartedForGood(t *testing.T) {
	w := hosttest.Photon5().TimesyncdRuns()
	u := w.UnitStates[host.Timesyncd]
	u.ActiveState, u.UnitFileState, u.StartedAt = "inactive", "disabled", 0
	w.UnitStates[host.Timesyncd] = u
	p := plan(t, w, spec("a.example"))
	require.Contains(t, p.Changes, change.Change(change.SetUnit{Unit: host.Timesyncd, Enable: true, Start: true}))
	apply(t, w, p)
	require.Empty(t, plan(t, w, spec("a.example")).Changes)
}

func TestARunThatDiedBeforeTheRestartIsFinished(t *testing.T) {
	w := hosttest.Rocky9().Chronyd(hosttest.RockyChrony)
	s := spec("a.example")
	apply(t, w, change.Plan{Changes: plan(t, w, s).Changes[:2]})
	w.Synced = true // from the servers that it had
	require.Equal(t, []string{"restart chronyd.service: it runs with older servers", "wait up to 5m0s for the clock to be synchronised from a.example"}, summaries(plan(t, w, s)))

	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	f.Changed[chronyConf] = f.Now + 1 // the clock was ahead and has been set back since
	require.Empty(t, Plan(s, f).Changes)
}

func TestWhatIsAwaited(t *testing.T) {
	w := hosttest.Rocky9().Chronyd(hosttest.RockyChrony)
	s := spec()
	require.Equal(t, []string{"wait up to 10m0s for a default route (any)", "wait up to 5m0s for the clock to be synchronised"}, summaries(plan(t, w, s)), "by the servers that the host has")
	s.Network.DefaultRoute.Family = "none"
	require.Equal(t, []string{"wait up to 5m0s for the clock to be synchronised"}, summaries(plan(t, w, s)))
	w.Synced = true
	require.Empty(t, plan(t, w, s).Changes)

	s = spec("a.example")
	s.Time.SyncTimeout.Duration = 0
	for _, c := range plan(t, w, s).Changes {
		require.NotEqual(t, change.Wait, c.Class())
	}

	f, err := Observe(context.Background(), w, config.Default().Spec)
	require.NoError(t, err)
	require.Zero(t, f)
	require.Empty(t, Plan(config.Default().Spec, f).Changes)
}

func TestAHostWhoseClientCannotBeToldIsRefused(t *testing.T) {
	active := host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	for want, w := range map[string]*hosttest.World{
		"this host has neither chrony nor systemd-timesyncd":                hosttest.Rocky9(),
		"chronyd and systemd-timesyncd both set the clock of this host":     hosttest.Rocky9().Chronyd("").TimesyncdRuns(),
		"for chrony and systemd-timesyncd, and ntpd.service sets the clock": with(hosttest.Rocky9(), "ntpd.service", active),
		"somebody has masked chronyd.service":                               with(hosttest.Rocky9(), chronyd, host.Unit{LoadState: "masked", ActiveState: "inactive"}),
		"chronyd is on this host and /etc/chrony.conf is not":               with(hosttest.Rocky9(), chronyd, active),
	} {
		p := plan(t, w, spec("a.example"))
		require.Empty(t, p.Changes)
		require.Len(t, p.Blocked, 1, want)
		require.ErrorContains(t, p.Blocked[0], want)
	}
	require.Empty(t, plan(t, with(hosttest.Rocky9(), "ntpd.service", active), spec()).Blocked, "ntpd's own servers are awaited")
}

func with(w *hosttest.World, unit string, u host.Unit) *hosttest.World {
	w.UnitStates[unit] = u
	return w
}

func TestTheClientOfAnImageStartsWithIt(t *testing.T) {
	f := Facts{Units: map[string]host.Unit{chronyd: {LoadState: "loaded", ActiveState: "inactive", UnitFileState: "enabled"}},
		Chrony: host.Text{Exists: true, Mode: "0644", Owner: "root:root", Content: hosttest.RockyChrony}}
	require.Equal(t, []string{"wait up to 10m0s for a default route (any)", "have chronyd follow a.example", "wait up to 5m0s for the clock to be synchronised from a.example"}, summaries(Plan(spec("a.example"), f)))
}
