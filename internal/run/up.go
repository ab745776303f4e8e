package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/report"
	"nodeagent/internal/reset"
	"nodeagent/internal/run/journal"
)

// Files of the runs.
const (
	LockPath    = "/run/nodeagent/lock"
	LastRunPath = "/var/lib/nodeagent/last-run.json"
)

// Options of a run.
type Options struct {
	ID      string           // names the run in the journal
	Version string           // of nodeagent
	Now     func() time.Time // the clock of events and journal
	// Confirm is asked before the first destructive change; nil agrees.
	Confirm func(Plan) error
	// Undone tells, at the end of a reset, which journalled changes are taken
	// back; nil for any other run.
	Undone func(context.Context, host.View) ([]string, error)
}

func (o Options) command() string {
	if o.Undone != nil {
		return "reset"
	}
	return "up"
}

// LastRun is the record of a finished run, also of a failed one.
type LastRun struct {
	Run      string        `json:"run"`
	Command  string        `json:"command"` // up, reset
	Version  string        `json:"version"`
	Started  time.Time     `json:"started"`
	Finished time.Time     `json:"finished"`
	Result   string        `json:"result"` // converged, failed
	ExitCode int           `json:"exitCode"`
	Changes  int           `json:"changes"`
	Step     string        `json:"step,omitempty"`   // that failed
	Change   string        `json:"change,omitempty"` // that failed
	Error    string        `json:"error,omitempty"`
	Hint     string        `json:"hint,omitempty"`
	Steps    []StepResult  `json:"steps"`
	Warnings []string      `json:"warnings,omitempty"`
	Took     time.Duration `json:"took"` // nanoseconds
}

// StepResult is what one step did.
type StepResult struct {
	Name    string        `json:"name"`
	Changes []string      `json:"changes,omitempty"` // summaries
	Took    time.Duration `json:"took"`              // nanoseconds
}

// runner is one run under the lock.
type runner struct {
	host    host.Host
	spec    config.Spec
	opts    Options
	emit    report.Sink
	lock    host.Lock
	initial Plan
	result  LastRun
	dirty   bool // something was applied since the initial plan
}

// Up brings the host to what the configuration says, step by step, and
// returns the record of the run. The record is also saved, unless another run
// holds the lock.
func Up(ctx context.Context, h host.Host, spec config.Spec, steps []Step, opts Options, emit report.Sink) (LastRun, error) {
	lock, err := h.Lock(LockPath)
	if err != nil {
		return LastRun{}, locked(err)
	}
	emit, silence := oneAtATime(emit)
	defer silence()
	r := &runner{host: h, spec: spec, opts: opts, emit: emit, lock: lock}
	r.result = LastRun{Run: opts.ID, Command: opts.command(), Version: opts.Version, Started: opts.Now(), Steps: []StepResult{}}
	err = r.run(ctx, steps)
	r.finish(err)
	if saveErr := r.save(); err == nil && saveErr != nil {
		err = fmt.Errorf("the host is as asked, but the record could not be saved: %w", saveErr)
	}
	return r.result, errors.Join(err, lock.Release())
}

// plan plans every step, and goes on only if nothing is in the way and nobody
// objects.
func (r *runner) plan(ctx context.Context, steps []Step) error {
	r.initial = Make(ctx, r.host, r.spec, steps)
	if err := interrupted(ctx, "planning"); err != nil {
		return err
	}
	if err := r.initial.Blocked(); err != nil {
		for _, s := range r.initial.Steps {
			if len(s.Plan.Blocked) > 0 {
				r.result.Step = s.Name
				break
			}
		}
		return err
	}
	if r.opts.Confirm != nil {
		return r.opts.Confirm(r.initial)
	}
	return nil
}

func (r *runner) run(ctx context.Context, steps []Step) error {
	// What a killed run left behind and must not live on.
	if err := r.host.Scratch(host.JoinPath, host.DiscoveryPath); err != nil {
		return err
	}
	r.note("planning", "")
	r.emit(report.Event{Time: r.opts.Now(), Kind: report.RunStart, Text: r.opts.ID})
	if err := r.plan(ctx, steps); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, r.stopping)()
	for i, s := range steps {
		if err := r.step(ctx, s, r.initial.Steps[i].Plan); err != nil {
			err = r.left(err, i)
			r.result.Step = s.Name
			r.emit(report.Event{Time: r.opts.Now(), Kind: report.StepFailed, Step: s.Name, Text: err.Error(), Hint: fail.HintOf(err)})
			return err
		}
		if slices.ContainsFunc(r.initial.Steps[i].Changes, change.Mends) {
			if err := r.plan(ctx, steps); err != nil { // only now the host shows what it is
				return err
			}
		}
	}
	return r.undone(ctx)
}

// undone ends a reset in the journal, so that the next round starts clean.
func (r *runner) undone(ctx context.Context) error {
	if r.opts.Undone == nil {
		return nil
	}
	ids, err := r.opts.Undone(ctx, r.host)
	if err != nil || len(ids) == 0 {
		return err
	}
	return r.journal(journal.Entry{Event: journal.Undone, Step: "reset", ID: "reset", IDs: ids})
}

// stopping tells, the moment the run is asked to stop, why it may still take a
// while. Asking again changes nothing: what a transaction or a mkfs leaves when
// it is cut off is worse than waiting for it.
func (r *runner) stopping() {
	r.emit(report.Event{Time: r.opts.Now(), Kind: report.Warning, Text: "stopping at the next safe point: a change that has begun is finished first"})
}

// oneAtATime lets several goroutines emit, until the run has ended.
func oneAtATime(to report.Sink) (emit report.Sink, silence func()) {
	var mu sync.Mutex
	ended := false
	emit = func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			to(e)
		}
	}
	return emit, func() { mu.Lock(); ended = true; mu.Unlock() }
}

// left adds to an interruption in step i what the plan at the start had for the
// steps that have not ended.
func (r *runner) left(err error, i int) error {
	var f *fail.Error
	if !errors.As(err, &f) || f.Kind != fail.Interrupted {
		return err
	}
	var names []string
	for _, s := range r.initial.Steps[i:] {
		if len(s.Plan.Changes) > 0 {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return err
	}
	return fail.New(fail.Interrupted, f.Hint, "%s; not finished: %s", f.Text, strings.Join(names, ", "))
}

// step brings one step to its end. The plan is made anew when anything has
// been changed since the first one.
func (r *runner) step(ctx context.Context, s Step, planned change.Plan) error {
	start := r.opts.Now()
	r.note(s.Name, "")
	r.emit(report.Event{Time: start, Kind: report.StepStart, Step: s.Name})
	now := planned
	if r.dirty {
		now = one(ctx, r.host, r.spec, s)
		if len(now.Blocked) > 0 {
			return Plan{Steps: []StepPlan{{s.Name, now}}}.Blocked()
		}
	}
	for _, w := range now.Warnings {
		r.result.Warnings = append(r.result.Warnings, s.Name+": "+w)
		r.emit(report.Event{Time: r.opts.Now(), Kind: report.Warning, Step: s.Name, Text: w})
	}
	for _, n := range now.Notes {
		r.emit(report.Event{Time: r.opts.Now(), Kind: report.Note, Step: s.Name, Text: n})
	}
	done := StepResult{Name: s.Name}
	for last := false; len(now.Changes) > 0; last = true {
		for _, c := range now.Changes {
			if err := interrupted(ctx, s.Name); err != nil {
				return err
			}
			if err := allowed(c, planned); err != nil {
				return err
			}
			if err := r.apply(ctx, s.Name, c); err != nil {
				r.result.Change = c.ID()
				return err
			}
			done.Changes = append(done.Changes, c.Summary())
		}
		left, err := r.verify(ctx, s)
		if err == nil && len(left.Changes) > 0 && (last || r.opts.Undone == nil) {
			err = unsettled(s, left)
		}
		if err != nil {
			return err
		}
		// A kubelet that starts a pod until the moment it is stopped leaves a reset
		// with more than it saw: once more, then.
		now = left
	}
	done.Took = r.opts.Now().Sub(start)
	r.result.Changes += len(done.Changes)
	r.result.Steps = append(r.result.Steps, done)
	r.emit(report.Event{Time: r.opts.Now(), Kind: report.StepDone, Step: s.Name, Duration: done.Took, Changes: len(done.Changes)})
	return nil
}

// allowed refuses a destructive change that the plan shown at the start does
// not hold in exactly this form.
func allowed(c change.Change, planned change.Plan) error {
	if c.Class() != change.Destructive {
		return nil
	}
	want, err := change.Encode(c)
	if err != nil {
		return err
	}
	for _, p := range planned.Changes {
		if got, err := change.Encode(p); err == nil && bytes.Equal(got, want) {
			return nil
		}
	}
	return fail.Wrap(fail.Safety, errMoved, "look at: nodeagent plan", "%s was not in the plan shown at the start", c.Summary())
}

// patient are kinds that have an effect, and spend most of their time waiting
// for a cluster: they end early, and leave what the next run takes up.
var patient = []string{"Join", "FetchToken", "DropToken", "LabelNode"}

// apply carries out one change between two lines of the journal.
func (r *runner) apply(ctx context.Context, step string, c change.Change) error {
	start := r.opts.Now()
	r.note(step, c.Summary())
	r.emit(report.Event{Time: start, Kind: report.ChangeStart, Step: step, ID: c.ID(), Text: c.Summary()})
	encoded, err := change.Encode(c)
	if err != nil {
		return err
	}
	prior, err := reset.Before(ctx, r.host, c)
	if err != nil {
		return fmt.Errorf("what is there before %s can't be noted for a reset: %w", c.ID(), err)
	}
	if err := r.journal(journal.Entry{Event: journal.Intent, Step: step, ID: c.ID(), Change: encoded, Prior: prior}); err != nil {
		return err
	}
	r.dirty = true
	// An effect that has begun runs to its end; only waits are cut short.
	applyCtx := ctx
	if c.Class() != change.Wait && !slices.Contains(patient, change.Kind(c)) {
		applyCtx = context.WithoutCancel(ctx)
	}
	err = r.host.Apply(applyCtx, c, func(text string) {
		r.emit(report.Event{Time: r.opts.Now(), Kind: report.Progress, Step: step, ID: c.ID(), Text: text})
	})
	took := r.opts.Now().Sub(start)
	if err != nil {
		if stop := interrupted(ctx, step); stop != nil && errors.Is(err, ctx.Err()) {
			err = stop // a wait that was cut short
		}
		r.emit(report.Event{Time: r.opts.Now(), Kind: report.ChangeFailed, Step: step, ID: c.ID(), Text: err.Error(), Hint: fail.HintOf(err), Duration: took})
		return errors.Join(err, r.journal(journal.Entry{Event: journal.Failed, Step: step, ID: c.ID(), Error: err.Error()}))
	}
	r.emit(report.Event{Time: r.opts.Now(), Kind: report.ChangeDone, Step: step, ID: c.ID(), Text: c.Summary(), Duration: took})
	return r.journal(journal.Entry{Event: journal.Done, Step: step, ID: c.ID()})
}

// verify observes the step again and returns what it still wants.
func (r *runner) verify(ctx context.Context, s Step) (change.Plan, error) {
	left := one(ctx, r.host, r.spec, s)
	return left, (Plan{Steps: []StepPlan{{s.Name, left}}}).Blocked()
}

// unsettled is a step that isn't done after all that it asked for was done.
func unsettled(s Step, left change.Plan) error {
	var what []string
	for _, c := range left.Changes {
		what = append(what, c.Summary())
	}
	return fail.New(fail.Step, "something else on this host works against it; look at: nodeagent plan", "step %s was applied, but the host still needs: %s", s.Name, strings.Join(what, "; "))
}

func (r *runner) journal(e journal.Entry) error {
	e.Time, e.Run, e.Reset = r.opts.Now(), r.opts.ID, r.opts.Undone != nil
	line, err := e.Line()
	if err != nil {
		return err
	}
	return r.host.Append(journal.Path, line)
}

// note tells other runs and `status` what goes on. It is worth no failure.
func (r *runner) note(step, summary string) {
	line, err := json.Marshal(Running{Pid: os.Getpid(), Run: r.opts.ID, Command: r.opts.command(), Step: step, Change: summary, Since: r.opts.Now()})
	if err == nil {
		_ = r.lock.Note(string(line))
	}
}

func (r *runner) finish(err error) {
	r.result.Finished = r.opts.Now()
	r.result.Took = r.result.Finished.Sub(r.result.Started)
	r.result.Result = "converged"
	if err != nil {
		r.result.Result, r.result.Error, r.result.Hint, r.result.ExitCode = "failed", Describe(err), fail.HintOf(err), ExitCode(err)
	}
	r.emit(report.Event{Time: r.result.Finished, Kind: report.RunDone, Text: r.result.Result, Hint: r.result.Hint, Duration: r.result.Took, Changes: r.result.Changes})
}

func (r *runner) save() error {
	b, err := json.MarshalIndent(r.result, "", "  ")
	if err != nil {
		return err
	}
	return r.host.Save(LastRunPath, append(b, '\n'))
}

// Describe is the whole text of an error: Several counts only itself.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	var s *Several
	if !errors.As(err, &s) {
		return err.Error()
	}
	parts := make([]string, len(s.Errors))
	for i, e := range s.Errors {
		parts[i] = e.Error()
	}
	return strings.Join(parts, "\n")
}

// interrupted turns a cancelled context into its exit code.
func interrupted(ctx context.Context, step string) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fail.New(fail.Timeout, "give it more with --timeout, or run again: what is done stays done", "the time given with --timeout is over in step %s", step)
	}
	return fail.New(fail.Interrupted, "run it again: what is done stays done", "interrupted in step %s", step)
}

// ExitCode is the one table of exit codes.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return int(fail.KindOf(err))
}
