package kubeadm

import (
	"regexp"
	"strings"
)

var (
	klogError = regexp.MustCompile(`^[EF][0-9]{4} [0-9:.]+ +[0-9]+ [^\]]+\] ?(.*)$`)
	errField  = regexp.MustCompile(`\berr="((?:[^"\\]|\\.)*)"`)
	goExit    = regexp.MustCompile(`^(Error|error): (.*)$`)
)

// LastKubeletError finds what kubelet died of in the lines of its journal
// (journalctl -o cat), the last one first; empty when it named nothing.
func LastKubeletError(journal string) string {
	lines := strings.Split(strings.TrimSpace(journal), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		// What kubelet says right before it exits, as run.go and cobra print it.
		if m := klogError.FindStringSubmatch(line); m != nil {
			if e := errField.FindStringSubmatch(m[1]); e != nil {
				text := strings.NewReplacer(`\"`, `"`, `\n`, " ", `\\`, `\`).Replace(e[1])
				if what, _, ok := strings.Cut(strings.TrimPrefix(m[1], `"`), `" `); ok && what != "command failed" && what != "Failed to run kubelet" {
					return what + ": " + text
				}
				return text
			}
			return m[1]
		}
		if m := goExit.FindStringSubmatch(line); m != nil {
			return m[2]
		}
	}
	return ""
}

// KubeletHint is the next action for an error of kubelet's; empty when there
// is none of its own.
func KubeletHint(err string) string {
	has := func(s string) bool { return strings.Contains(err, s) }
	switch {
	case has("unknown flag"):
		return "this kubelet doesn't have that flag: take it out of spec.kubelet.extraArgs or /etc/sysconfig/kubelet"
	case has("unable to load client CA file"):
		return "the cluster's kubelet-config names a CA file that this host doesn't have; set spec.kubelet.config.authentication.x509.clientCAFile: /etc/kubernetes/pki/ca.crt"
	case has("running with swap on"):
		return "swap.mode: disable turns it off; to keep it set spec.kubelet.config.failSwapOn: false"
	case has("cgroup v1"):
		return "this kubelet wants cgroup v2: boot with systemd.unified_cgroup_hierarchy=1"
	case has("invalid kernel flag"):
		return "protectKernelDefaults wants these sysctls; see: nodeagent plan"
	case has("cgroup driver"):
		return "kubelet and the runtime disagree about the cgroup driver; both shall be systemd"
	case has("failed to load kubelet config file") || has("failed to decode") || has("strict decoding"):
		return "look at /var/lib/kubelet/config.yaml and spec.kubelet.config"
	case has("failed to construct kubelet dependencies") && has("tls"), has("tls: ") || has("kubelet.crt"):
		return "look at tlsCertFile and tlsPrivateKeyFile in spec.kubelet.config"
	case has("container runtime") || has("rpc error"):
		return "look at the runtime: journalctl -u containerd"
	}
	return ""
}
