// Package ready is the last step: the node has its labels and is Ready, said by
// the API server and not by this host.
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
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/nodestatus"
	"nodeagent/internal/kubelet/nodelabel"
)

// Facts is what was observed.
type Facts struct {
	NodeName string    `json:"nodeName"`
	Node     host.Node `json:"node"`
	Started  time.Time `json:"started,omitzero"` // kubelet
	// Kubeconfig is the one that the token is made with: it labels the node, and
	// may have to go when the node is Ready.
	Kubeconfig host.FileInfo `json:"kubeconfig,omitzero"`
}

const kubelet = "kubelet.service"

// Observe asks for this host's Node, once.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	name, err := credential.NodeName(v, spec)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{NodeName: name}
	if m := spec.Join.Token.Kubeconfig; m != nil {
		if f.Kubeconfig, err = v.Stat(m.File); err != nil {
			return f, err
		}
	}
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

// Plan waits unless the node is Ready, or nobody wants to wait. A kubeconfig that
// is no longer needed goes last.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if f.Node.Reached {
		keys := make([]string, 0, len(spec.Kubelet.Labels))
		for k := range spec.Kubelet.Labels {
			if nodelabel.Own(k) { // the others are set below
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		for _, k := range keys {
			if v, want := f.Node.Labels[k], spec.Kubelet.Labels[k]; f.Node.Labels != nil && v != want {
				p.Warnings = append(p.Warnings, fmt.Sprintf("label %s of node %s is %q, not %q: kubelet sets labels when it registers; now: kubectl label --overwrite node %s %s=%s", k, f.NodeName, v, want, f.NodeName, k, want))
			}
		}
	}
	label(spec, f, &p)
	ready := f.Node.Ready && !nodestatus.Stale(f.Node.Reported, f.Started)
	if !ready && spec.Join.WaitReady.Duration > 0 {
		p.Changes = append(p.Changes, change.WaitReady{NodeName: f.NodeName, Timeout: spec.Join.WaitReady.Duration, After: f.Started})
		ready = true // or the rest isn't done
	}
	if m := spec.Join.Token.Kubeconfig; m != nil && m.Shred && ready && f.Kubeconfig.Exists {
		if link := f.Kubeconfig.Link; link != "" {
			p.Warnings = append(p.Warnings, m.File+" is a link to "+link+", so it is not shredded: give the file itself")
			return p
		}
		p.Changes = append(p.Changes, change.RemoveFile{Path: m.File, Shred: true, What: "shred the kubeconfig " + m.File})
	}
	return p
}
