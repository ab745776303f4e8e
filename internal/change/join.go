package change

import (
	"fmt"
	"time"
)

// WaitRoute waits for a default route and a global address on its link.
type WaitRoute struct {
	Family  string        `json:"family"` // any, ipv4, ipv6
	Timeout time.Duration `json:"timeout"`
}

func (c WaitRoute) ID() string { return "route" }
func (c WaitRoute) Summary() string {
	return fmt.Sprintf("wait up to %s for a default route (%s)", c.Timeout, c.Family)
}
func (c WaitRoute) Diff() string { return "" }
func (c WaitRoute) Class() Class { return Wait }

// Join runs kubeadm join with the token in memory.
type Join struct {
	NodeName              string        `json:"nodeName"`
	Endpoint              string        `json:"endpoint,omitempty"` // overrides the document's
	CACertHashes          []string      `json:"caCertHashes,omitempty"`
	CACert                string        `json:"caCert,omitempty"` // PEM
	Socket                string        `json:"criSocket"`
	PatchDirectory        string        `json:"patchDirectory,omitempty"`
	KubeletArgs           []NameValue   `json:"kubeletExtraArgs,omitempty"`
	Taints                []NodeTaint   `json:"taints,omitempty"`
	IgnorePreflightErrors []string      `json:"ignorePreflightErrors,omitempty"`
	Timeout               time.Duration `json:"timeout"`
	Resume                bool          `json:"resume,omitempty"` // leftovers of an earlier, failed join of ours are removed first
	KubernetesVersion     string        `json:"kubernetesVersion"`
}

// NameValue is one kubelet flag.
type NameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NodeTaint is one taint.
type NodeTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func (c Join) ID() string { return "join" }
func (c Join) Summary() string {
	if c.Endpoint == "" {
		return "join the cluster as node " + c.NodeName
	}
	return fmt.Sprintf("join the cluster at %s as node %s", c.Endpoint, c.NodeName)
}
func (c Join) Diff() string { return "" }
func (c Join) Class() Class { return Additive }

// WaitReady waits until the API server says this node is Ready.
type WaitReady struct {
	NodeName string        `json:"nodeName"`
	Timeout  time.Duration `json:"timeout"`
	// After is when kubelet was last started: what the API server says of the
	// time before, as after a reboot, doesn't count.
	After time.Time `json:"after,omitzero"`
}

func (c WaitReady) ID() string { return "ready" }
func (c WaitReady) Summary() string {
	return fmt.Sprintf("wait up to %s for node %s to be Ready", c.Timeout, c.NodeName)
}
func (c WaitReady) Diff() string { return "" }
func (c WaitReady) Class() Class { return Wait }

// RunHook runs one of the user's own commands with /bin/sh, once per host.
type RunHook struct {
	When    string `json:"when"` // preJoin, postJoin
	Command string `json:"command"`
	Marker  string `json:"marker"` // written when it succeeded
}

func (c RunHook) ID() string      { return "hook:" + c.Marker }
func (c RunHook) Summary() string { return fmt.Sprintf("run %s hook: %s", c.When, c.Command) }
func (c RunHook) Diff() string    { return "" }
func (c RunHook) Class() Class    { return Additive }
