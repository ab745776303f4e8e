package run

import (
	"errors"

	"nodeagent/internal/host"
	"nodeagent/internal/report"
)

// ConfigurationStep is what a run without steps yet is in.
const ConfigurationStep = "configuration"

// Prepare does what a run needs before it knows its steps, under the lock, so
// that `status` tells of a first boot that waits for its configuration, and of
// one that has failed for want of it. The lock is free again afterwards.
// Whoever may not take it goes on without: the run itself will say so.
func Prepare(h host.Host, opts Options, what string, do func() error) error {
	lock, err := h.Lock(LockPath)
	var held host.Held
	if errors.As(err, &held) {
		return locked(err)
	}
	if err != nil {
		return do()
	}
	r := &runner{host: h, opts: opts, lock: lock, emit: func(report.Event) {}}
	r.result = LastRun{Run: opts.ID, Command: opts.command(), Version: opts.Version, Started: opts.Now(), Step: ConfigurationStep, Steps: []StepResult{}}
	r.note(ConfigurationStep, what)
	err = do()
	if err != nil {
		r.finish(err)
		err = errors.Join(err, r.save())
	}
	return errors.Join(err, lock.Release())
}
