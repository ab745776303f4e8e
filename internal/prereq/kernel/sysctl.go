package kernel

import (
	"fmt"
	"sort"
	"strings"

	"nodeagent/internal/config"
)

// wanted are the sysctls for this configuration.
func wanted(spec config.Spec) map[string]string {
	s := map[string]string{
		"net.ipv4.ip_forward":                 "1",
		"net.bridge.bridge-nf-call-iptables":  "1",
		"net.bridge.bridge-nf-call-ip6tables": "1",
	}
	if spec.Firewall.CNI == "cilium" {
		// Its traffic takes one way in and another out; see Cilium's system
		// requirements. all is the maximum with each interface's own value.
		s["net.ipv4.conf.all.rp_filter"] = "0"
		s["net.ipv4.conf.default.rp_filter"] = "0"
	}
	if on, _ := spec.Kubelet.Config["protectKernelDefaults"].(bool); on {
		// The kubelet exits unless these hold (k8s.io/kubernetes
		// pkg/kubelet/cm, setupKernelTunables).
		for k, v := range map[string]string{"vm.overcommit_memory": "1", "vm.panic_on_oom": "0", "kernel.panic": "10", "kernel.panic_on_oops": "1",
			"kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000"} {
			s[k] = v
		}
	}
	for k, v := range spec.Kernel.Sysctls {
		s[k] = v
	}
	return s
}

// dropIn is the text of our file: one line a key, sorted.
func dropIn(sysctls map[string]string) string {
	var b strings.Builder
	b.WriteString("# Written by nodeagent; a later file or a change here is found by: nodeagent plan\n")
	for _, k := range keys(sysctls) {
		fmt.Fprintf(&b, "%s = %s\n", k, sysctls[k])
	}
	return b.String()
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// assignments reads a sysctl.d file (sysctl.d(5)): a leading dash only means
// that a failure is ignored.
func assignments(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		k, v, ok := strings.Cut(strings.TrimPrefix(line, "-"), "=")
		if !ok {
			continue
		}
		k = strings.TrimSpace(k)
		if i := strings.IndexAny(k, "./"); i >= 0 && k[i] == '/' {
			k = strings.ReplaceAll(k, "/", ".")
		}
		out[k] = normal(v)
	}
	return out
}

// normal folds white space, which the kernel prints as tabs.
func normal(v string) string { return strings.Join(strings.Fields(v), " ") }
