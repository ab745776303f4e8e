package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// Plan is the whole plan: each step's part in order.
type Plan struct {
	Steps []StepPlan
}

// StepPlan is one step's part.
type StepPlan struct {
	Name string
	change.Plan
}

// Make observes and plans every step. Nothing on the host is changed, no lock
// is taken, no file written.
func Make(ctx context.Context, v host.View, spec config.Spec, steps []Step) Plan {
	var p Plan
	for _, s := range steps {
		p.Steps = append(p.Steps, StepPlan{s.Name, one(ctx, v, spec, s)})
	}
	p.afterMending()
	return p
}

// afterMending turns what is in the way of the steps behind a repair into
// warnings: a transaction that the power cut off leaves empty unit files and
// programs, which look like masked units and broken installations. Each step is
// planned anew when its turn comes, and refuses then what is still so.
func (p *Plan) afterMending() {
	mends := false
	for i := range p.Steps {
		s := &p.Steps[i]
		if mends {
			for _, err := range s.Plan.Blocked {
				s.Warnings = append(s.Warnings, err.Error()+" (looked at again once what was cut off is mended)")
			}
			s.Plan.Blocked = nil
		}
		mends = mends || slices.ContainsFunc(s.Changes, change.Mends)
	}
}

// FromFacts plans from facts that `nodeagent facts` saved.
func FromFacts(data []byte, spec config.Spec, steps []Step) (Plan, error) {
	var saved map[string]json.RawMessage
	if err := json.Unmarshal(data, &saved); err != nil {
		return Plan{}, fail.Wrap(fail.Usage, err, "save them with: nodeagent facts > facts.json", "the facts aren't JSON")
	}
	var p Plan
	for _, s := range steps {
		raw, ok := saved[s.Name]
		if !ok {
			why := fmt.Errorf("the facts have nothing for step %s", s.Name)
			if e, ok := saved[s.Name+".error"]; ok {
				why = fmt.Errorf("step %s could not be observed: %s", s.Name, e)
			}
			p.Steps = append(p.Steps, StepPlan{s.Name, change.Plan{Blocked: []error{why}}})
			continue
		}
		f, err := s.decode(raw)
		if err != nil {
			return Plan{}, fail.Wrap(fail.Usage, err, "save them with the same version: nodeagent facts > facts.json", "the facts of step %s can't be read", s.Name)
		}
		p.Steps = append(p.Steps, StepPlan{s.Name, s.plan(spec, f)})
	}
	p.afterMending()
	return p, nil
}

// one observes and plans a single step. What can't be observed blocks it.
func one(ctx context.Context, v host.View, spec config.Spec, s Step) change.Plan {
	facts, err := s.observe(ctx, v, spec)
	if err != nil {
		return change.Plan{Blocked: []error{err}}
	}
	return s.plan(spec, facts)
}

// Changes counts the changes of all steps.
func (p Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		n += len(s.Changes)
	}
	return n
}

// Blocked is nil, or one error that lists everything that is in the way. Its
// kind is Safety when any part of it is.
func (p Plan) Blocked() error {
	var all []error
	kind, hint := fail.Step, ""
	for _, s := range p.Steps {
		for _, err := range s.Plan.Blocked {
			all = append(all, fmt.Errorf("%s: %w", s.Name, err))
			if k := fail.KindOf(err); k == fail.Safety || kind == fail.Step {
				kind = k
			}
			if hint == "" {
				hint = fail.HintOf(err)
			}
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &Several{Errors: all, kind: kind, hint: hint}
}

// Several is more than one thing in the way.
type Several struct {
	Errors []error
	kind   fail.Kind
	hint   string
}

// Error counts them; each is printed on its own.
func (s *Several) Error() string { return fmt.Sprintf("%d things are in the way", len(s.Errors)) }

// As gives the exit code and hint of the whole.
func (s *Several) As(target any) bool {
	if e, ok := target.(**fail.Error); ok {
		*e = &fail.Error{Kind: s.kind, Text: s.Error(), Hint: s.hint}
		return true
	}
	return false
}

// MarshalJSON writes the plan in the outward form: steps with their changes,
// and what is blocked.
func (p Plan) MarshalJSON() ([]byte, error) {
	type step struct {
		Name     string            `json:"name"`
		Changes  []json.RawMessage `json:"changes"`
		Warnings []string          `json:"warnings,omitempty"`
		Notes    []string          `json:"notes,omitempty"`
	}
	type blocked struct {
		Step  string `json:"step"`
		Error string `json:"error"`
		Hint  string `json:"hint,omitempty"`
	}
	out := struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Steps      []step    `json:"steps"`
		Blocked    []blocked `json:"blocked,omitempty"`
	}{APIVersion: config.APIVersion, Kind: "Plan", Steps: []step{}}
	for _, s := range p.Steps {
		js := step{Name: s.Name, Changes: []json.RawMessage{}, Warnings: s.Warnings, Notes: s.Notes}
		for _, c := range s.Changes {
			raw, err := change.Encode(c)
			if err != nil {
				return nil, err
			}
			js.Changes = append(js.Changes, raw)
		}
		out.Steps = append(out.Steps, js)
		for _, err := range s.Plan.Blocked {
			out.Blocked = append(out.Blocked, blocked{s.Name, err.Error(), fail.HintOf(err)})
		}
	}
	return json.Marshal(out)
}

// errMoved is the reason a destructive change is refused in the middle of a run.
var errMoved = errors.New("the host is not as it was when the plan was made")
