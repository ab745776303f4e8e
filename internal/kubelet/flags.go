package kubelet

import (
	"sort"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/kubelet/nodelabel"
)

// gone are kubelet's flags that a release has removed: kubelet ends with
// "unknown flag" on them. Source: the changelogs of Kubernetes.
var gone = map[string]struct {
	minor int
	hint  string
}{
	"cni-bin-dir":                  {24, "the runtime's configuration says where plugins are"},
	"cni-cache-dir":                {24, "the runtime's configuration says where plugins are"},
	"cni-conf-dir":                 {24, "the runtime's configuration says where plugins are"},
	"docker-endpoint":              {24, "Docker isn't a runtime of kubelet any more"},
	"image-pull-progress-deadline": {24, "it was for Docker"},
	"network-plugin":               {24, "the runtime has the network plugin"},
	"network-plugin-mtu":           {24, "the runtime has the network plugin"},
	"container-runtime":            {27, "every runtime is a remote one"},
	"iptables-drop-bit":            {31, "kubelet doesn't set these rules any more"},
	"iptables-masquerade-bit":      {31, "kubelet doesn't set these rules any more"},
	"keep-terminated-pod-volumes":  {31, "it did nothing"},
	"cloud-config":                 {34, "cloud providers run outside of kubelet"},
	"register-schedulable":         {34, "use spec.kubelet.taints"},
	"pod-infra-container-image":    {35, "use spec.runtime.sandboxImage"},
}

// switches are those of them that have no value of their own.
var switches = map[string]bool{"keep-terminated-pod-volumes": true, "register-schedulable": true}

// removedIn tells whether kubelet 1.minor has lost a flag.
func removedIn(minor int) func(string) bool {
	return func(name string) bool {
		g, ok := gone[name]
		return ok && minor >= g.minor
	}
}

// owned are flags that something else of the configuration decides.
var owned = map[string]string{
	"config":                     "kubeadm sets it",
	"kubeconfig":                 "kubeadm sets it",
	"bootstrap-kubeconfig":       "kubeadm sets it",
	"container-runtime-endpoint": "use spec.runtime.socket",
	"cgroup-driver":              "it is systemd; spec.runtime sets the runtime to the same",
	"resolv-conf":                "use spec.kubelet.config.resolvConf; when it is absent the right file is chosen",
	"provider-id":                "use spec.kubelet.providerID",
	"fail-swap-on":               "use spec.kubelet.config.failSwapOn",
	"hostname-override":          "use spec.hostname",
	"node-labels":                "use spec.kubelet.labels",
	"register-with-taints":       "use spec.kubelet.taints",
}

// Flags are the flags that kubeadm is asked to give to kubelet, in a stable
// order. Labels that a node may not give itself are set after the join.
func Flags(spec config.Spec) []change.NameValue {
	var out []change.NameValue
	for _, a := range spec.Kubelet.ExtraArgs {
		out = append(out, change.NameValue{Name: a.Name, Value: a.Value})
	}
	var labels []string
	for k, v := range spec.Kubelet.Labels {
		if nodelabel.Own(k) {
			labels = append(labels, k+"="+v)
		}
	}
	if len(labels) > 0 {
		sort.Strings(labels)
		out = append(out, change.NameValue{Name: "node-labels", Value: strings.Join(labels, ",")})
	}
	return out
}
