// Package join is the step that makes this host a node of its cluster with
// kubeadm, or finds that it is one.
package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/pin"
)

// Files of this step.
const (
	// begun stands from before kubeadm runs until the host has joined: what a
	// failed join leaves behind is ours to clean only while it does.
	begun = "/var/lib/nodeagent/joining"
	// marker tells provisioning tools that the join succeeded. /run is empty
	// after a boot; it isn't written again then.
	marker        = "/run/cluster-api/bootstrap-success.complete"
	bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
)

// blockers are leftovers that kubeadm's preflight refuses; the others it
// overwrites.
var (
	blockers  = []string{host.KubeletConf, bootstrapConf, "/etc/kubernetes/pki/ca.crt"}
	leftovers = append([]string{"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/pki"}, blockers...)
)

// Facts is what was observed.
type Facts struct {
	NodeName  string            `json:"nodeName"`
	Node      host.Node         `json:"node"`
	Document  credential.Public `json:"document"`
	Begun     host.Text         `json:"begun"`
	Marker    host.Text         `json:"marker"`
	Leftovers []string          `json:"leftovers,omitempty"` // of some kubeadm join
	CAFile    host.Text         `json:"caFile"`              // content of spec.join.caCertFile
	// CAPins are those of spec.join.caCert or caCertFile.
	CAPins    []string `json:"caPins,omitempty"`
	CAProblem string   `json:"caProblem,omitempty"`
}

// Observe looks at kubelet.conf, at what joins leave behind, and at the public
// part of the token document.
func Observe(ctx context.Context, v host.View, spec config.Spec) (f Facts, err error) {
	if f.NodeName, err = credential.NodeName(v, spec); err != nil {
		return f, err
	}
	if f.Node, err = v.Node(ctx, ""); err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	if f.Document, err = credential.Read(v, spec); err != nil {
		return f, err
	}
	for path, to := range map[string]*host.Text{begun: &f.Begun, marker: &f.Marker} {
		if *to, err = host.ReadText(v, path); err != nil {
			return f, err
		}
	}
	for _, path := range leftovers {
		info, err := v.Stat(path)
		if err != nil {
			return f, err
		}
		if info.Exists {
			f.Leftovers = append(f.Leftovers, path)
		}
	}
	ca := spec.Join.CACert
	if file := spec.Join.CACertFile; file != "" {
		if f.CAFile, err = host.ReadText(v, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		ca = f.CAFile.Content
		if !f.CAFile.Exists {
			f.CAProblem = "spec.join.caCertFile " + file + " does not exist"
		}
	}
	if ca != "" {
		if f.CAPins, err = pin.OfBundle([]byte(ca)); err != nil {
			f.CAProblem = fmt.Sprintf("the CA in spec.join can't be read: %v", err)
		}
	}
	return f, nil
}

// has tells whether a leftover is there.
func (f Facts) has(path string) bool {
	for _, l := range f.Leftovers {
		if l == path {
			return true
		}
	}
	return false
}
