package run

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/report"
	"nodeagent/internal/run/journal"
)

// write is a step that wants one file.
func write(name, path string) Step {
	return NewStep(name, func(_ context.Context, v host.View, _ config.Spec) (host.Text, error) { return host.ReadText(v, path) },
		func(_ config.Spec, now host.Text) change.Plan {
			if c, ok := now.Write(path, "0644", "root:root", "x\n", ""); ok {
				return change.Plan{Changes: []change.Change{c}}
			}
			return change.Plan{}
		})
}

// planned is a step whose plan is what the function returns, whatever the host.
func planned(name string, plan func() change.Plan) Step {
	return NewStep(name, func(context.Context, host.View, config.Spec) (int, error) { return 0, nil },
		func(config.Spec, int) change.Plan { return plan() })
}

func start(ctx context.Context, w *hosttest.World, steps ...Step) (LastRun, error) {
	return Up(ctx, w, config.Default().Spec, steps, Options{ID: "id", Now: time.Now}, func(report.Event) {})
}

func TestWhatIsInTheWayIsAllToldAndNothingIsChanged(t *testing.T) {
	w := hosttest.Rocky9()
	no := func(k fail.Kind, text string) func() change.Plan {
		return func() change.Plan { return change.Plan{Blocked: []error{fail.New(k, "do this", "%s", text)}} }
	}
	last, err := start(context.Background(), w, write("files", "/a"), planned("one", no(fail.Step, "first")), planned("two", no(fail.Safety, "second")))
	require.Contains(t, Describe(err), "one: first\ntwo: second")
	require.Equal(t, 4, ExitCode(err), "safety outweighs the others")
	require.Equal(t, "one", last.Step)
	require.Equal(t, "failed", last.Result)
	require.Empty(t, w.Log())
	var saved LastRun
	require.NoError(t, json.Unmarshal([]byte(w.Files[LastRunPath].Content), &saved))
	require.Equal(t, last.Error, saved.Error)
	require.Equal(t, 4, saved.ExitCode)
}

func TestADestructiveChangeThatWasNotShownStopsTheRun(t *testing.T) {
	w := hosttest.Rocky9()
	mkfs := change.MakeFilesystem{Disk: "d", Device: "/dev/disk/by-path/pci-0000:00:04.0", Type: "xfs", Label: "d", UUID: "u"}
	asked := 0
	last, err := start(context.Background(), w, write("files", "/a"), planned("disks", func() change.Plan {
		asked++
		c := mkfs
		if asked > 1 { // the host has moved on since
			c.Device = "/dev/disk/by-path/pci-0000:00:05.0"
		}
		return change.Plan{Changes: []change.Change{c}}
	}))
	require.ErrorContains(t, err, "was not in the plan shown at the start")
	require.Equal(t, 4, ExitCode(err))
	require.Equal(t, "disks", last.Step)
	require.Equal(t, []string{"file:/a"}, w.Log())
}

func TestAStepThatIsNotSettledAfterwardsFails(t *testing.T) {
	_, err := start(context.Background(), hosttest.Rocky9(), planned("kernel", func() change.Plan {
		return change.Plan{Changes: []change.Change{change.LoadModule{Name: "overlay"}}}
	}))
	require.ErrorContains(t, err, "step kernel was applied, but the host still needs: load kernel module overlay")
	require.Equal(t, 1, ExitCode(err))
}

func TestAnInterruptedRunExitsWith130AndATimedOutOneWith5(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := hosttest.Rocky9()
	_, err := start(ctx, w, write("files", "/a"))
	require.Equal(t, 130, ExitCode(err))
	require.Empty(t, w.Log())
	ctx, cancel = context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	_, err = start(ctx, w, write("files", "/a"))
	require.Equal(t, 5, ExitCode(err))
}

func TestTheIntentIsInTheJournalBeforeTheChangeAndTheEndAfterIt(t *testing.T) {
	w := hosttest.Rocky9()
	_, err := start(context.Background(), w, write("files", "/a"))
	require.NoError(t, err)
	entries := journal.Parse([]byte(w.Files[journal.Path].Content))
	require.Len(t, entries, 2)
	require.Equal(t, []journal.Event{journal.Intent, journal.Done}, []journal.Event{entries[0].Event, entries[1].Event})
	require.JSONEq(t, `{"id":"file:/a","kind":"WriteFile","class":"additive","summary":"write /a","path":"/a","mode":"0644","owner":"root:root","content":"x\n","diff":"--- /dev/null\n+++ /a\n@@ -0,0 +1 @@\n+x\n"}`, string(entries[0].Change))
}

func TestDisagreementChangesNothing(t *testing.T) {
	w := hosttest.Rocky9()
	no := errors.New("no")
	_, err := Up(context.Background(), w, config.Default().Spec, []Step{write("files", "/a")}, Options{ID: "x", Now: time.Now, Confirm: func(Plan) error { return no }}, func(report.Event) {})
	require.ErrorIs(t, err, no)
	require.Empty(t, w.Log())
}

func TestStepsAreChosenByName(t *testing.T) {
	all := []Step{write("a", "/a"), write("b", "/b"), write("c", "/c")}
	names := func(until string, skip ...string) (out []string) {
		s, err := Select(all, until, skip)
		require.NoError(t, err)
		for _, x := range s {
			out = append(out, x.Name)
		}
		return out
	}
	require.Equal(t, []string{"a", "b"}, names("b"))
	require.Equal(t, []string{"a", "c"}, names("", "b"))
	_, err := Select(all, "", []string{"z"})
	require.ErrorContains(t, err, `there is no step "z"`)
}

// A power cut in a package transaction leaves empty files: a unit looks masked
// and a program broken until the packages are whole again.
func TestWhatADamageHidesIsJudgedOnceItIsMended(t *testing.T) {
	w := hosttest.Rocky9()
	whole := func() bool { return w.Packages["kubelet"] != "" }
	repair := planned("packages", func() change.Plan {
		if whole() {
			return change.Plan{}
		}
		return change.Plan{Changes: []change.Change{change.InstallPackages{Manager: "dnf", Packages: []string{"kubelet-1.35.4-*"}, CutOff: 1}}}
	})
	masked := planned("runtime", func() change.Plan {
		if whole() {
			return change.Plan{}
		}
		return change.Plan{Blocked: []error{fail.New(fail.Safety, "systemctl unmask it", "kubelet.service is masked")}}
	})
	p := Make(context.Background(), w, config.Default().Spec, []Step{repair, masked})
	require.NoError(t, p.Blocked())
	require.Contains(t, p.Steps[1].Warnings[0], "kubelet.service is masked (looked at again")
	last, err := start(context.Background(), w, repair, masked, write("files", "/a"))
	require.NoError(t, err)
	require.Equal(t, 2, last.Changes)

	// What is still in the way then stops the run before anything else is changed.
	w = hosttest.Rocky9()
	last, err = start(context.Background(), w, repair, write("files", "/a"), planned("runtime", func() change.Plan {
		return change.Plan{Blocked: []error{fail.New(fail.Safety, "", "still masked")}}
	}))
	require.ErrorContains(t, err, "still masked")
	require.Equal(t, []string{"packages"}, w.Log())
	require.Equal(t, "runtime", last.Step)
}

// kubelet starts a pod while a reset is on its way: the step is done once more,
// and only once.
func TestAResetTakesWhatCameMeanwhileToo(t *testing.T) {
	undone := func(context.Context, host.View) ([]string, error) { return nil, nil }
	for _, c := range []struct {
		come int // more each time the step is done
		ok   bool
	}{{1, true}, {2, true}, {3, false}} {
		w, asked := hosttest.Rocky9(), 0
		pods := planned("join", func() change.Plan {
			if asked++; asked > c.come {
				return change.Plan{}
			}
			return change.Plan{Changes: []change.Change{change.StopPods{Pods: []string{"a/b"}}}}
		})
		_, err := Up(context.Background(), w, config.Default().Spec, []Step{pods}, Options{ID: "id", Now: time.Now, Undone: undone}, func(report.Event) {})
		require.Equal(t, c.ok, err == nil, "%d: %v", c.come, err)
	}
}
