// Package fail is the shape of every error that reaches a person: one
// sentence with the evidence, and a hint with the next action.
package fail

import (
	"errors"
	"fmt"
)

// Kind chooses the exit code.
type Kind int

// Kinds and their exit codes.
const (
	Step        Kind = 1   // a step failed
	Usage       Kind = 2   // usage or configuration
	Safety      Kind = 4   // refused for safety
	Timeout     Kind = 5   // timed out waiting
	Locked      Kind = 6   // another run holds the lock
	Interrupted Kind = 130 // ctrl-C or SIGTERM
)

// Error is one sentence and a hint.
type Error struct {
	Kind Kind
	Text string
	Hint string
	Err  error
}

// Error returns the sentence and, after a colon, its cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Text + ": " + e.Err.Error()
	}
	return e.Text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a kind with a hint.
func New(k Kind, hint, format string, a ...any) *Error {
	return &Error{Kind: k, Hint: hint, Text: fmt.Sprintf(format, a...)}
}

// Wrap is New with a cause.
func Wrap(k Kind, err error, hint, format string, a ...any) *Error {
	return &Error{Kind: k, Hint: hint, Text: fmt.Sprintf(format, a...), Err: err}
}

// KindOf returns the kind of the first Error in the chain, Step otherwise.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Step
}

// HintOf returns the first hint in the chain.
func HintOf(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
		if err == nil {
			break
		}
	}
	return ""
}
