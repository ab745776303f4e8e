// Package hooks is two steps: the user's own commands before the join, and
// those after it. Each command runs once per host; a marker remembers it.
package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

const directory = "/var/lib/nodeagent/hooks/"

// Facts is what was observed.
type Facts struct {
	Joined bool            `json:"joined"`
	Done   map[string]bool `json:"done"` // by marker
}

// ObservePre looks at the markers of the hooks before the join.
func ObservePre(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	return observe(ctx, v, "preJoin", spec.Hooks.PreJoin)
}

// ObservePost looks at the markers of the hooks after the join.
func ObservePost(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	return observe(ctx, v, "postJoin", spec.Hooks.PostJoin)
}

func observe(ctx context.Context, v host.View, when string, commands []string) (Facts, error) {
	f := Facts{Done: map[string]bool{}}
	if len(commands) == 0 {
		return f, nil
	}
	node, err := v.Node(ctx, "")
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.Joined = node.Joined
	for _, h := range list(when, commands) {
		info, err := v.Stat(h.Marker)
		if err != nil {
			return f, err
		}
		f.Done[h.Marker] = info.Exists
	}
	return f, nil
}

// PlanPre runs what hasn't run yet. On a node that has joined already there is
// no "before the join" any more.
func PlanPre(spec config.Spec, f Facts) change.Plan {
	if f.Joined {
		return change.Plan{}
	}
	return plan("preJoin", spec.Hooks.PreJoin, f)
}

// PlanPost runs what hasn't run yet.
func PlanPost(spec config.Spec, f Facts) change.Plan {
	return plan("postJoin", spec.Hooks.PostJoin, f)
}

func plan(when string, commands []string, f Facts) change.Plan {
	var p change.Plan
	for _, h := range list(when, commands) {
		if !f.Done[h.Marker] {
			p.Changes = append(p.Changes, h)
		}
	}
	return p
}

// list gives each command its marker: a hash of when, the command, and how
// many equal ones stand before it, so that an edited command is a new one and
// the order doesn't matter.
func list(when string, commands []string) []change.RunHook {
	seen := map[string]int{}
	var out []change.RunHook
	for _, c := range commands {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", when, seen[c], c))
		seen[c]++
		out = append(out, change.RunHook{When: when, Command: c, Marker: directory + hex.EncodeToString(sum[:8])})
	}
	return out
}
