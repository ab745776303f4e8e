// Package run is the loop: observe, plan, apply, verify, with the lock and the
// journal.
package run

import (
	"context"
	"encoding/json"
	"fmt"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Step is one subject: what is observed for it and what is planned from that.
type Step struct {
	Name    string
	observe func(context.Context, host.View, config.Spec) (any, error)
	plan    func(config.Spec, any) change.Plan
	decode  func(json.RawMessage) (any, error)
}

// NewStep ties a package's Observe and Plan together.
func NewStep[F any](name string, observe func(context.Context, host.View, config.Spec) (F, error), plan func(config.Spec, F) change.Plan) Step {
	return Step{
		Name:    name,
		observe: func(ctx context.Context, v host.View, s config.Spec) (any, error) { return observe(ctx, v, s) },
		plan:    func(s config.Spec, f any) change.Plan { return plan(s, f.(F)) },
		decode: func(b json.RawMessage) (any, error) {
			var f F
			err := json.Unmarshal(b, &f)
			return f, err
		},
	}
}

// Select returns the steps up to and including until (all when empty) without
// those in skip. A name that is no step is an error.
func Select(steps []Step, until string, skip []string) ([]Step, error) {
	known := map[string]bool{}
	for _, s := range steps {
		known[s.Name] = true
	}
	for _, name := range append([]string{until}, skip...) {
		if name != "" && !known[name] {
			return nil, fmt.Errorf("there is no step %q", name)
		}
	}
	var out []Step
	for _, s := range steps {
		skipped := false
		for _, name := range skip {
			skipped = skipped || name == s.Name
		}
		if !skipped {
			out = append(out, s)
		}
		if s.Name == until {
			break
		}
	}
	return out, nil
}

// Facts is what each step observed, by step name.
type Facts map[string]any

// Observe collects the facts of every step. A step that can't be observed has
// its error under "NAME.error" instead.
func Observe(ctx context.Context, v host.View, spec config.Spec, steps []Step) Facts {
	f := Facts{}
	for _, s := range steps {
		got, err := s.observe(ctx, v, spec)
		if err != nil {
			f[s.Name+".error"] = err.Error()
			continue
		}
		f[s.Name] = got
	}
	return f
}
