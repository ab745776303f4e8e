package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/report"
	"nodeagent/internal/reset"
	"nodeagent/internal/run"
)

// The laws of reset, over the same hosts and configurations as those of up.

// ways to die at each effect; before one is after the one before.
var ways = []hosttest.Death{hosttest.After, hosttest.Torn}

func resetWorld(w *hosttest.World, o reset.Options) (run.LastRun, error) {
	tick := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	r := reset.New(o)
	opts := run.Options{ID: "reset", Version: "test", Now: now, Undone: r.Undone}
	return run.Up(context.Background(), w, config.Spec{}, resetSteps(r), opts, func(report.Event) {})
}

// stays is the documented list (docs/reset.md) in the world's words: lines that
// may be new after a reset.
var stays = []string{
	`^package `, `^unit \S+ loaded inactive disabled$`, `^file /(usr|opt|etc/containerd)\S* `, // packages and what they brought
	`^file /var/lib/nodeagent/archives/`,                            // archives
	`^module `, `^sysctl net\.bridge\.`, `^sysctl net\.netfilter\.`, // modules stay loaded, and their sysctls with them
	`^disk .* \S+ label=\S+`, `^label [0-9a-f]{8}-`, // filesystems, and the SELinux labels on them
	`^mount .*`, `^unit \S+\.mount loaded active enabled$`, // their mounts
	`^file /etc/systemd/system/\S+\.mount `, `^file /etc/systemd/system/(kubelet|containerd)\.service\.d/`,
	`^file /var/lib/nodeagent/emptied/`, // that a disk was emptied once
	`^routes `,                          // nothing of ours: the network came up meanwhile
	ofUsers,
}

// whole are those that stay even if packages and mounts may go.
var whole = []string{`^module `, `^sysctl net\.bridge\.`, `^sysctl net\.netfilter\.`, `^disk .* \S+ label=\S+`, `^label [0-9a-f]{8}-`, `^routes `,
	`^file /var/lib/nodeagent/emptied/`, `^package (python3-dnf-plugin|dnf)`, ofUsers}

// ofUsers is what stays of users: the accounts and the homes, without keys and
// without rules of sudo.
const ofUsers = `^(user|password|group) (ops|app|apps|operators):|^member (ops|app) of |^file /(home/ops|srv/app|var/app) 0700 `

func given(t *testing.T, before, after string, may []string, at string) {
	t.Helper()
	lines := func(s string) map[string]bool {
		m := map[string]bool{}
		for line := range strings.Lines(s) {
			m[strings.TrimSpace(line)] = true
		}
		return m
	}
	allowed := regexp.MustCompile(strings.Join(may, "|"))
	b, a := lines(before), lines(after)
	for line := range a {
		if !b[line] && !allowed.MatchString(line) {
			t.Errorf("%s: new: %s", at, line)
		}
	}
	for line := range b {
		if !a[line] && !strings.HasPrefix(line, "disk ") && !strings.HasPrefix(line, "routes ") && !strings.HasPrefix(line, "password ops:") {
			t.Errorf("%s: gone: %s", at, line)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func TestAResetGivesTheHostBack(t *testing.T) {
	for name, c := range lawCases(t) {
		for _, o := range []reset.Options{{}, {ForgetDisks: true, RemovePackages: true}} {
			t.Run(fmt.Sprintf("%s/%+v", name, o), func(t *testing.T) {
				w := c.world()
				before := w.String()
				_, err := up(w, c.spec)
				require.NoError(t, err, "%s", run.Describe(err))
				joined := w.String()
				last, err := resetWorld(w, o)
				require.NoError(t, err, "%s", run.Describe(err))
				require.NotZero(t, last.Changes)
				may := stays
				if o.ForgetDisks {
					may = whole
				}
				given(t, before, w.String(), may, "reset")

				after := w.String()
				second, err := resetWorld(w, o)
				require.NoError(t, err, "%s", run.Describe(err))
				require.Zero(t, second.Changes, "a second reset changes nothing")
				require.Equal(t, after, w.String())

				w.Restart()
				_, err = up(w, c.spec)
				require.NoError(t, err, "%s", run.Describe(err))
				require.Equal(t, joined, w.String(), "up joins again")
				_, err = resetWorld(w, o)
				require.NoError(t, err, "%s", run.Describe(err))
				require.Equal(t, after, w.String(), "and a second round is like the first")
			})
		}
	}
}

func TestADryResetLeavesTheHostUntouchedAndTellsTheTruth(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			_, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			before, effects := w.String(), len(w.Log())
			p := run.Make(context.Background(), w, config.Spec{}, resetSteps(reset.New(reset.Options{})))
			require.NoError(t, p.Blocked(), "%s", run.Describe(p.Blocked()))
			require.Equal(t, before, w.String())
			require.Len(t, w.Log(), effects)
			last, err := resetWorld(w, reset.Options{})
			require.NoError(t, err, "%s", run.Describe(err))
			planned, done := []string{}, []string{}
			for _, s := range p.Steps {
				for _, ch := range s.Changes {
					planned = append(planned, ch.Summary())
				}
			}
			for _, s := range last.Steps {
				done = append(done, s.Changes...)
			}
			require.Equal(t, planned, done)
		})
	}
}

func TestAResetKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	for name, c := range lawCases(t) {
		for _, o := range []reset.Options{{}, {ForgetDisks: true, RemovePackages: true}} {
			t.Run(fmt.Sprintf("%s/%+v", name, o), func(t *testing.T) {
				joined := c.world()
				_, err := up(joined, c.spec)
				require.NoError(t, err)
				reference := joined.Clone()
				reference.DieAt(0, hosttest.Before)
				_, err = resetWorld(reference, o)
				require.NoError(t, err, "%s", run.Describe(err))
				want, total := reference.String(), reference.Effects()
				require.Greater(t, total, 20)
				for _, how := range ways {
					for n := 1; n <= total; n++ {
						at := fmt.Sprintf("death %d at effect %d of %d", how, n, total)
						w := joined.Clone()
						w.DieAt(n, how)
						_, err := resetWorld(w, o)
						require.Error(t, err, at)
						w.Restart()
						_, err = resetWorld(w, o)
						require.NoError(t, err, "%s: %s", at, run.Describe(err))
						require.Equal(t, want, w.String(), at)
					}
				}
				_, err = up(reference, c.spec)
				require.NoError(t, err, "%s", run.Describe(err))
			})
		}
	}
}

// A run that was killed anywhere is taken back all the same.
func TestAHalfDoneRunIsTakenBack(t *testing.T) {
	for name, c := range lawCases(t) {
		t.Run(name, func(t *testing.T) {
			reference := c.world()
			reference.DieAt(0, hosttest.Before)
			_, err := up(reference, c.spec)
			require.NoError(t, err)
			for _, how := range ways {
				for n := 1; n <= reference.Effects(); n++ {
					at := fmt.Sprintf("death %d at effect %d", how, n)
					w := c.world()
					before := w.String()
					w.DieAt(n, how)
					_, err := up(w, c.spec)
					require.Error(t, err, at)
					w.Restart()
					_, err = resetWorld(w, reset.Options{})
					require.NoError(t, err, "%s: %s", at, run.Describe(err))
					given(t, before, w.String(), stays, at)
				}
			}
		})
	}
}
