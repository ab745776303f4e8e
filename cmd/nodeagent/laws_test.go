package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/report"
	"nodeagent/internal/run"
)

// The laws that every step keeps, over whole configurations on hosts in
// memory. A new step or host is held by them without a line here.

// lawCases are the hosts and what is asked of them.
func lawCases(t *testing.T) map[string]struct {
	world func() *hosttest.World
	spec  config.Spec
} {
	read := func(name string) config.Spec {
		b, err := os.ReadFile("../../examples/" + name)
		require.NoError(t, err)
		c, err := config.Load([]config.Source{{Name: name, Data: b}}, config.Identity{Hostname: "prdk8snod001"})
		require.NoError(t, err)
		return c.Spec
	}
	return map[string]struct {
		world func() *hosttest.World
		spec  config.Spec
	}{
		"token of its own":    {withKubeconfig, tokenSpec(t, tokenOfItsOwn)},
		"token from a server": {withServer, tokenSpec(t, tokenFromAServer)},
		"token in guestinfo":  {withGuestInfo, tokenSpec(t, tokenInGuestInfo)},
		"rocky9":              {hosttest.Rocky9, read("rocky9.yaml")},
		"rocky9, enforcing":   {enforcing, read("rocky9.yaml")},
		"minimal":             {hosttest.Rocky9, read("minimal.yaml")},
		"photon5":             {hosttest.Photon5, read("photon5.yaml")},
		"photon5, minimal":    {withRepository, read("minimal.yaml")},
		"alauda":              {hosttest.Alauda, read("alauda.yaml")},
		"rocky9, trust":       {hosttest.Rocky9, trusting(read("minimal.yaml"))},
		"photon5, trust":      {withRepository, trusting(read("minimal.yaml"))},
		"rocky9, emptied":     {hosttest.Rocky9, emptying(read("rocky9.yaml"))},
		"rocky9, proxy":       {hosttest.Rocky9, proxied(read("rocky9.yaml"))},
		"alauda, proxy":       {hosttest.Alauda, proxied(read("alauda.yaml"))},
		"alauda, trust":       {hosttest.Alauda, trusting(read("alauda.yaml"))},
		"rocky9, users":       {enforcing, peopling(read("minimal.yaml"))},
		"photon5, users":      {withRepository, peopling(read("minimal.yaml"))},
		"alauda, users":       {hosttest.Alauda, peopling(read("alauda.yaml"))},
		"somebody is there":   {withSomebody, peopling(read("minimal.yaml"))},
		"rocky9, addressed":   {withNetworkManager, addressed(read("minimal.yaml"))},
		"rocky9, compared":    {withNetworkManager, compared(read("minimal.yaml"))},
		"photon5, addressed":  {withNetworkd, addressed(read("minimal.yaml"))},
		"rocky9, mounts":      {withExports, mounting(read("rocky9.yaml"))},
		"rocky9, raw disks":   {withRawDisks(hosttest.Rocky9), linking(read("rocky9.yaml"))},
		"alauda, raw disks":   {withRawDisks(hosttest.Alauda), linking(read("alauda.yaml"))},
		"rocky9, time":        {withChrony, timed(read("minimal.yaml"))},
		"photon5, time":       {withTimesyncd, timed(read("minimal.yaml"))},
		"alauda, time":        {withChronyDirectory, timed(read("alauda.yaml"))},
	}
}

// enforcing is a Rocky host with SELinux on.
func enforcing() *hosttest.World {
	w := hosttest.Rocky9()
	w.Sys.SELinux = "enforcing"
	w.Files["/etc/selinux/config"] = hosttest.File{Content: "SELINUX=enforcing\nSELINUXTYPE=targeted\n"}
	return w
}

// withRepository is a Photon host on which somebody set up the repository.
func withRepository() *hosttest.World {
	w := hosttest.Photon5()
	w.Sys.Hostname, w.Files["/etc/hostname"] = "worker-1", hosttest.File{Content: "worker-1\n"}
	w.Files["/etc/yum.repos.d/kubernetes.repo"] = hosttest.File{Content: "[kubernetes]\nname=Kubernetes\nbaseurl=http://mirror.example/v1.35/rpm/\nenabled=1\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/kubernetes\n"}
	return w
}

func up(w *hosttest.World, spec config.Spec) (run.LastRun, error) {
	tick := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	return run.Up(context.Background(), w, spec, steps, run.Options{ID: "law", Version: "test", Now: now}, func(report.Event) {})
}

func TestASecondRunChangesNothing(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			first, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			require.NotZero(t, first.Changes)
			after, effects := w.String(), len(w.Log())
			second, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			require.Zero(t, second.Changes)
			require.Equal(t, after, w.String())
			require.Len(t, w.Log(), effects)
		})
	}
}

// What a run leaves comes back by itself: after a reboot another one has only
// to wait for kubelet.
func TestAfterARebootNothingIsMissing(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			_, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			done := lasting(w)
			w.Reboot()
			require.Equal(t, done, lasting(w))
			for _, s := range run.Make(context.Background(), w, c.spec, steps).Steps {
				require.Empty(t, s.Plan.Blocked, "%s", s.Name)
				for _, ch := range s.Changes {
					require.Equal(t, change.Wait, ch.Class(), "%s: %s", s.Name, ch.Summary())
				}
			}
			_, err = up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			require.Equal(t, done, lasting(w))
		})
	}
}

// lasting is what of a world a reboot must bring back, in no order: not the
// marker in /run that the join was done, and not the volumes of pods.
func lasting(w *hosttest.World) []string {
	lines := slices.DeleteFunc(strings.Split(w.String(), "\n"), func(line string) bool {
		return strings.Contains(line, " /run/cluster-api/") || strings.Contains(line, " /var/lib/kubelet/pods/")
	})
	slices.Sort(lines)
	return lines
}

func TestAPlanLeavesTheHostUntouched(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			before := w.String()
			p := run.Make(context.Background(), w, c.spec, steps)
			require.NoError(t, p.Blocked(), "%s", run.Describe(p.Blocked()))
			require.NotZero(t, p.Changes())
			require.Equal(t, before, w.String())
			require.Empty(t, w.Log())
			require.Zero(t, w.Effects())
		})
	}
}

func TestAPlanFromSavedFactsIsThePlanOfTheHost(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			facts, err := json.Marshal(run.Observe(context.Background(), w, c.spec, steps))
			require.NoError(t, err)
			fromFacts, err := run.FromFacts(facts, c.spec, steps)
			require.NoError(t, err)
			require.Equal(t, text(t, run.Make(context.Background(), w, c.spec, steps)), text(t, fromFacts))
		})
	}
}

func text(t *testing.T, p run.Plan) string {
	b, err := json.MarshalIndent(p, "", " ")
	require.NoError(t, err)
	return string(b)
}

func TestARunKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			reference := c.world()
			reference.DieAt(0, hosttest.Before)
			_, err := up(reference, c.spec)
			require.NoError(t, err)
			want, total := reference.String(), reference.Effects()
			require.Greater(t, total, 20)
			for _, how := range []hosttest.Death{hosttest.Before, hosttest.After, hosttest.Torn} {
				for n := 1; n <= total; n++ {
					at := fmt.Sprintf("death %d at effect %d of %d", how, n, total)
					w := c.world()
					w.DieAt(n, how)
					_, err := up(w, c.spec)
					require.Error(t, err, at)
					require.True(t, w.Died(), at)
					w.Restart()
					_, err = up(w, c.spec)
					require.NoError(t, err, "%s: %s", at, run.Describe(err))
					require.Equal(t, want, w.String(), at)
					require.NoError(t, formatsOnce(w), at)
				}
			}
		})
	}
}

// formatsOnce is the law that nothing destructive is repeated, unless the
// effect itself was the one cut off.
func formatsOnce(w *hosttest.World) error {
	seen := map[string]bool{}
	for _, id := range w.Log() {
		if strings.HasPrefix(id, "mkfs:") && seen[id] {
			return fmt.Errorf("%s twice", id)
		}
		seen[id] = true
	}
	return nil
}

func TestEveryChangeOfAPlanHasAnIDOfItsOwn(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			for _, s := range run.Make(context.Background(), c.world(), c.spec, steps).Steps {
				seen := map[string]bool{}
				for _, ch := range s.Changes {
					require.False(t, seen[ch.ID()], "%s: %s", s.Name, ch.ID())
					seen[ch.ID()] = true
					require.NotEmpty(t, ch.Summary())
					require.NotEmpty(t, change.Kind(ch))
				}
			}
		})
	}
}

func TestTheTokenIsInNoPlanRecordOrJournal(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			secret := "0123456789abcdef"
			p := text(t, run.Make(context.Background(), w, c.spec, steps))
			last, err := up(w, c.spec)
			require.NoError(t, err)
			record, err := json.Marshal(last)
			require.NoError(t, err)
			facts, err := json.Marshal(run.Observe(context.Background(), w, c.spec, steps))
			require.NoError(t, err)
			for _, secret := range append(sourceSecrets, secret) {
				require.NotContains(t, p+string(record)+string(facts), secret)
				for path, f := range w.Files {
					if path != "/etc/nodeagent/join-command" && path != minter {
						require.NotContains(t, f.Content, secret, path)
					}
				}
			}
		})
	}
}
