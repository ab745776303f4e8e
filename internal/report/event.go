// Package report carries what a run does to those who watch: one stream of
// events, several readers.
package report

import "time"

// Kind of an event.
type Kind string

// The kinds, in the order a run emits them.
const (
	RunStart     Kind = "run-start"
	Warning      Kind = "warning"
	Note         Kind = "note"
	StepStart    Kind = "step-start"
	ChangeStart  Kind = "change-start"
	Progress     Kind = "progress"
	ChangeDone   Kind = "change-done"
	ChangeFailed Kind = "change-failed"
	StepDone     Kind = "step-done"
	StepFailed   Kind = "step-failed"
	RunDone      Kind = "run-done"
)

// Event is one thing that happened. It never holds a secret.
type Event struct {
	Time     time.Time     `json:"time"`
	Kind     Kind          `json:"event"`
	Step     string        `json:"step,omitempty"`
	ID       string        `json:"id,omitempty"`   // of the change
	Text     string        `json:"text,omitempty"` // summary, progress, warning, note or error
	Hint     string        `json:"hint,omitempty"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds; of a finished change, step or run
	Changes  int           `json:"changes,omitempty"`  // made by the step or run
}

// Sink receives events, one at a time.
type Sink func(Event)

// Tee hands each event to every sink.
func Tee(sinks ...Sink) Sink {
	return func(e Event) {
		for _, s := range sinks {
			s(e)
		}
	}
}
