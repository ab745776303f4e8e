// Package labels is the step that gives this host's Node the labels which a
// node may not give itself, with the administrator's kubeconfig.
package labels

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/join"
	"nodeagent/internal/kubelet/nodelabel"
)

// registered is how long kubelet may take to register the node.
const registered = 2 * time.Minute

// Facts is what was observed.
type Facts struct {
	NodeName   string    `json:"nodeName"`
	Node       host.Node `json:"node"`
	Kubeconfig bool      `json:"kubeconfig"` // is there
}

// Wanted are the labels of a configuration that a node may not give itself.
func Wanted(spec config.Spec) map[string]string {
	out := map[string]string{}
	for k, v := range spec.Kubelet.Labels {
		if !nodelabel.Own(k) {
			out[k] = v
		}
	}
	return out
}

// Observe asks for this host's Node when there is a label to compare.
func Observe(ctx context.Context, v host.View, spec config.Spec) (f Facts, err error) {
	m := spec.Join.Token.Kubeconfig
	if m == nil || len(Wanted(spec)) == 0 {
		return f, nil
	}
	if f.NodeName, err = join.NodeName(v, spec); err != nil {
		return f, err
	}
	if f.Node, err = v.Node(ctx, ""); err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	if f.Node.Joined && f.Node.Name != "" {
		f.NodeName = f.Node.Name
	}
	info, err := v.Stat(m.File)
	f.Kubeconfig = info.Exists
	return f, err
}

// Plan labels a node that lacks a label. Of one whose Node can't be read nothing
// is known, and it is left for the next run.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	m := spec.Join.Token.Kubeconfig
	missing := Wanted(spec)
	if m == nil || len(missing) == 0 {
		return p
	}
	if f.Node.Joined && !f.Node.Reached {
		p.Warnings = append(p.Warnings, "whether node "+f.NodeName+" has its labels can't be told now: "+f.Node.Problem)
		return p
	}
	if f.Node.Joined {
		maps.DeleteFunc(missing, func(k, v string) bool { is, ok := f.Node.Labels[k]; return ok && is == v })
	}
	switch {
	case len(missing) == 0:
	case f.Node.Joined && !f.Kubeconfig:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(missing)) {
			pairs = append(pairs, k+"="+missing[k])
		}
		p.Warnings = append(p.Warnings, "node "+f.NodeName+" lacks labels, and "+m.File+", which may set them, is gone: kubectl label --overwrite node "+f.NodeName+" "+strings.Join(pairs, " "))
	default:
		p.Changes = []change.Change{change.LabelNode{NodeName: f.NodeName, Labels: missing, Kubeconfig: m.File, Timeout: registered}}
	}
	return p
}
