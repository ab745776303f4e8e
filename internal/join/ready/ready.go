// Package ready is the last step: the node is Ready, said by the API server
// and not by this host.
package ready

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/join"
	"nodeagent/internal/join/nodestatus"
)

// Facts is what was observed.
type Facts struct {
	NodeName string    `json:"nodeName"`
	Node     host.Node `json:"node"`
	Started  time.Time `json:"started,omitzero"` // kubelet
}

const kubelet = "kubelet.service"

// Observe asks for this host's Node, once.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	name, err := join.NodeName(v, spec)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{NodeName: name}
	f.Node, err = v.Node(ctx, "")
	if errors.Is(err, host.ErrUnobservable) {
		err = nil
	}
	if f.Node.Joined && f.Node.Name != "" {
		f.NodeName = f.Node.Name
	}
	if err != nil || !f.Node.Joined {
		return f, err
	}
	units, err := v.Units(ctx, []string{kubelet})
	if errors.Is(err, host.ErrUnobservable) {
		err = nil
	}
	if at := units[kubelet].StartedAt; at > 0 {
		f.Started = time.UnixMicro(at).UTC()
	}
	return f, err
}

// Plan waits unless the node is Ready, or nobody wants to wait.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if f.Node.Reached {
		keys := make([]string, 0, len(spec.Kubelet.Labels))
		for k := range spec.Kubelet.Labels {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			if v, want := f.Node.Labels[k], spec.Kubelet.Labels[k]; f.Node.Labels != nil && v != want {
				p.Warnings = append(p.Warnings, fmt.Sprintf("label %s of node %s is %q, not %q: kubelet sets labels when it registers; now: kubectl label --overwrite node %s %s=%s", k, f.NodeName, v, want, f.NodeName, k, want))
			}
		}
	}
	ready := f.Node.Ready && !nodestatus.Stale(f.Node.Reported, f.Started)
	if ready || spec.Join.WaitReady.Duration <= 0 {
		return p
	}
	p.Changes = []change.Change{change.WaitReady{NodeName: f.NodeName, Timeout: spec.Join.WaitReady.Duration, After: f.Started}}
	return p
}
