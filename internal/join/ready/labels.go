package ready

import (
	"maps"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/kubelet/nodelabel"
)

// registered is how long kubelet may take to register the node.
const registered = 2 * time.Minute

// protected are the labels of a configuration that a node may not give itself.
func protected(spec config.Spec) map[string]string {
	out := map[string]string{}
	for k, v := range spec.Kubelet.Labels {
		if !nodelabel.Own(k) {
			out[k] = v
		}
	}
	return out
}

// label gives this host's Node those labels, with the administrator's
// kubeconfig, before anything waits for Ready: what makes a node Ready may run
// only on nodes with a certain label. When the Node can't be read now, the change
// looks at it first.
func label(spec config.Spec, f Facts, p *change.Plan) {
	m := spec.Join.Token.Kubeconfig
	missing := protected(spec)
	if m == nil || len(missing) == 0 {
		return
	}
	if f.Node.Reached {
		maps.DeleteFunc(missing, func(k, v string) bool { is, ok := f.Node.Labels[k]; return ok && is == v })
	}
	switch {
	case len(missing) == 0:
	case f.Node.Joined && !f.Kubeconfig.Exists && !f.Node.Reached:
	case f.Node.Joined && !f.Kubeconfig.Exists:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(missing)) {
			pairs = append(pairs, k+"="+missing[k])
		}
		p.Warnings = append(p.Warnings, "node "+f.NodeName+" lacks labels, and "+m.File+", which may set them, is gone: kubectl label --overwrite node "+f.NodeName+" "+strings.Join(pairs, " "))
	default:
		p.Changes = append(p.Changes, change.LabelNode{NodeName: f.NodeName, Labels: missing, Kubeconfig: m.File, Timeout: registered})
	}
}
