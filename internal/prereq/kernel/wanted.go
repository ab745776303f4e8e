package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/config"
)

const (
	forwarding6 = "net.ipv6.conf.all.forwarding"
	rpFilterAll = "net.ipv4.conf.all.rp_filter"
)

// needed are the sysctls without which pods have no network.
var needed = map[string]string{
	"net.ipv4.ip_forward":                 "1",
	"net.bridge.bridge-nf-call-iptables":  "1",
	"net.bridge.bridge-nf-call-ip6tables": "1",
}

// protected are what kubelet demands with protectKernelDefaults; it exits when
// one differs (k8s.io/kubernetes/pkg/kubelet/cm, setupKernelTunables).
var protected = map[string]string{
	"vm.overcommit_memory":      "1",
	"vm.panic_on_oom":           "0",
	"kernel.panic":              "10",
	"kernel.panic_on_oops":      "1",
	"kernel.keys.root_maxkeys":  "1000000",
	"kernel.keys.root_maxbytes": "25000000",
}

// ciliumPatterns loosen the reverse path filter on Cilium's own interfaces,
// which come and go; systemd applies them when one appears.
var ciliumPatterns = []string{"-net.ipv4.conf.cilium_*.rp_filter = 0", "-net.ipv4.conf.lxc*.rp_filter = 0"}

// modules are the wanted kernel modules, in the order in which they are loaded.
func modules(spec config.Spec) []string {
	out := []string{"overlay", "br_netfilter"}
	for _, m := range spec.Kernel.Modules {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// sysctls are the wanted values. The user's own win.
func sysctls(spec config.Spec) map[string]string {
	out := maps.Clone(needed)
	if protects(spec) {
		maps.Copy(out, protected)
	}
	if spec.Firewall.CNI == "cilium" {
		// The greater of this and an interface's own value counts, so it would
		// undo the patterns.
		out[rpFilterAll] = "0"
	}
	if speaksIPv6(spec) {
		out[forwarding6] = "1"
	}
	maps.Copy(out, spec.Kernel.Sysctls)
	return out
}

func protects(spec config.Spec) bool {
	on, _ := spec.Kubelet.Config["protectKernelDefaults"].(bool)
	return on
}

// speaksIPv6 tells whether pods of this node will have IPv6: its node address,
// its API server or its pods' sources are. Forwarding isn't switched on
// otherwise, since it changes how the host takes its own routes.
func speaksIPv6(spec config.Spec) bool {
	is6 := func(s string) bool {
		a, err := netip.ParseAddr(strings.Trim(strings.TrimSpace(s), "[]"))
		return err == nil && a.Is6()
	}
	for _, a := range spec.Kubelet.ExtraArgs {
		if a.Name == "node-ip" && slices.ContainsFunc(strings.Split(a.Value, ","), is6) {
			return true
		}
	}
	for _, s := range spec.Firewall.TrustedSources {
		if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is6() {
			return true
		}
	}
	if i := strings.LastIndex(spec.Join.Endpoint, ":"); i > 0 && is6(spec.Join.Endpoint[:i]) {
		return true
	}
	return spec.Network.DefaultRoute.Family == "ipv6"
}
