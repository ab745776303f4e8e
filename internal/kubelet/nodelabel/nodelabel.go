// Package nodelabel knows which labels a node may give itself.
package nodelabel

import (
	"slices"
	"strings"
)

// What kubelet accepts in --node-labels below kubernetes.io and k8s.io
// (k8s.io/kubelet/pkg/apis, well_known_labels.go); the NodeRestriction admission
// plugin holds it to the same.
var (
	keys = []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
		"kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}
	namespaces = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
	reserved   = []string{"kubernetes.io", "k8s.io"}
)

// Check returns why a node may not give itself a label, and the next action;
// both are empty when it may.
func Check(key string) (text, hint string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok || !within(namespace, reserved) || slices.Contains(keys, key) || within(namespace, namespaces) {
		return "", ""
	}
	text = "a node can't give itself a label of " + namespace + " (NodeRestriction); kubelet would not start"
	switch {
	case namespace == "node-role.kubernetes.io":
		hint = "once the node is there: kubectl label node NAME " + key + "=; or use a label of your own, such as role: " + name
	default:
		hint = "once the node is there: kubectl label node NAME " + key + "=…; or use a label of your own domain"
	}
	return text, hint
}

// Own tells whether a node may give itself a label.
func Own(key string) bool {
	text, _ := Check(key)
	return text == ""
}

func within(namespace string, domains []string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return namespace == d || strings.HasSuffix(namespace, "."+d) })
}
