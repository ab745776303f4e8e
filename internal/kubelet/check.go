package kubelet

import (
	"fmt"
	"sort"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/kubelet/field"
	"nodeagent/internal/kubelet/nodelabel"
	"nodeagent/internal/kubelet/release"
)

// Problem is something in spec that this kubelet can't run with.
type Problem struct {
	Path    string // spec.kubelet.config.maxPod
	Text    string
	Hint    string
	Warning bool
}

// Check looks at what spec says about kubelet, without any host.
func Check(spec config.Spec) []Problem {
	var out []Problem
	bad := func(path, hint, format string, a ...any) {
		out = append(out, Problem{Path: path, Text: fmt.Sprintf(format, a...), Hint: hint})
	}
	minor, known := release.Minor(spec.Kubernetes.Version)
	k := spec.Kubelet
	if known {
		for _, p := range field.Check(k.Config, minor) {
			out = append(out, Problem{"spec.kubelet.config." + p.Path, p.Text, p.Hint, p.Warning})
		}
	}
	if d, ok := k.Config["cgroupDriver"].(string); ok && d != "systemd" {
		bad("spec.kubelet.config.cgroupDriver", "leave it away", "%q doesn't fit a host that systemd runs; the runtime is set to systemd too", d)
	}
	if e, ok := k.Config["containerRuntimeEndpoint"].(string); ok && e != spec.Runtime.Socket {
		bad("spec.kubelet.config.containerRuntimeEndpoint", "use spec.runtime.socket alone", "%q differs from spec.runtime.socket", e)
	}
	if id, ok := k.Config["providerID"].(string); ok && k.ProviderID != "" && id != k.ProviderID {
		bad("spec.kubelet.config.providerID", "keep spec.kubelet.providerID", "differs from spec.kubelet.providerID")
	}
	for _, placeholder := range []string{"PROVIDER_ID", "NODE_IP"} {
		if strings.Contains(k.ProviderID, placeholder) {
			bad("spec.kubelet.providerID", "write this machine's own, such as baremetal:///name", "%s is a placeholder that an infrastructure provider would have replaced", placeholder)
		}
		for i, a := range k.ExtraArgs {
			if strings.Contains(a.Value, placeholder) {
				bad(fmt.Sprintf("spec.kubelet.extraArgs[%d].value", i), "write this machine's own value", "%s is a placeholder that an infrastructure provider would have replaced", placeholder)
			}
		}
	}
	for i, a := range k.ExtraArgs {
		at := fmt.Sprintf("spec.kubelet.extraArgs[%d].name", i)
		if hint, ok := owned[a.Name]; ok {
			bad(at, hint, "flag --%s has a place of its own", a.Name)
		} else if g, ok := gone[a.Name]; ok && known && minor >= g.minor {
			bad(at, g.hint, "kubelet has no flag --%s since 1.%d and would not start", a.Name, g.minor)
		}
	}
	labels := make([]string, 0, len(k.Labels))
	for key := range k.Labels {
		labels = append(labels, key)
	}
	sort.Strings(labels)
	for _, key := range labels {
		if text, hint := nodelabel.Check(key); text != "" && spec.Join.Token.Kubeconfig == nil {
			bad("spec.kubelet.labels."+key, hint, "%s", text)
		}
	}
	if keep, set := k.Config["failSwapOn"]; spec.Swap.Mode == "keep" && set && keep == true {
		bad("spec.kubelet.config.failSwapOn", "set it to false, or swap.mode to disable", "is true while swap.mode is keep: kubelet would not start")
	}
	for i, f := range spec.Files {
		at := fmt.Sprintf("spec.files[%d].path", i)
		switch f.Path {
		case PatchPath:
			bad(at, "move its content to spec.kubelet.config", "%s is made from spec.kubelet.config", f.Path)
		case ConfigPath, FlagsPath, clusterCA, kubeletConf, bootstrapConf:
			bad(at, "use spec.kubelet.config and spec.kubelet.extraArgs; kubeadm merges them in", "kubeadm join writes %s itself: what is there before is lost, or stops it", f.Path)
		}
	}
	return out
}

// Files that kubeadm join writes and that belong to nobody else.
const (
	kubeletConf   = "/etc/kubernetes/kubelet.conf"
	bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
)

func (p Problem) err() error {
	return fail.New(fail.Usage, p.Hint, "%s: %s", p.Path, p.Text)
}
