package kubeadm

import (
	"regexp"
	"slices"
	"strings"
)

var (
	klogError = regexp.MustCompile(`^[EF][0-9]{4} [0-9:.]+ +[0-9]+ [^\]]+\] ?(.*)$`)
	errField  = regexp.MustCompile(`\berr="((?:[^"\\]|\\.)*)"`)
	goExit    = regexp.MustCompile(`^(Error|error): (.*)$`)
)

// noise are errors that a healthy kubelet logs while it starts or stops.
var noise = []string{"broadcaster already stopped", "Error getting the current node from lister", "Failed to initialize CSINode",
	"Server rejected event", "failed to get summary stats"}

// LastKubeletError reads the lines of kubelet's journal (journalctl -o cat):
// what kubelet said when it exited, in its last start or the one before;
// failing that, the last error it logged, which needn't be what is wrong.
func LastKubeletError(journal string) (text string, fatal bool) {
	lines := strings.Split(strings.TrimSpace(journal), "\n")
	starts, from := 0, 0
	for i := len(lines) - 1; i >= 0 && from == 0; i-- {
		if strings.HasPrefix(lines[i], "Started kubelet") {
			if starts++; starts == 2 {
				from = i
			}
		}
	}
	logged := ""
	for i := len(lines) - 1; i >= from; i-- {
		line := strings.TrimSpace(lines[i])
		text, fatal := kubeletError(line)
		if fatal {
			return text, true
		}
		if logged == "" && text != "" && !slices.ContainsFunc(noise, func(n string) bool { return strings.Contains(line, n) }) {
			logged = text
		}
	}
	return logged, false
}

// kubeletError reads one line; fatal says that kubelet ended with it.
func kubeletError(line string) (text string, fatal bool) {
	m := klogError.FindStringSubmatch(line)
	if m == nil {
		if m := goExit.FindStringSubmatch(line); m != nil {
			return m[2], true // cobra, of older kubelets
		}
		return "", false
	}
	fatal = line[0] == 'F' || strings.HasPrefix(m[1], `"command failed"`) || strings.Contains(m[1], "ailed to run kubelet")
	e := errField.FindStringSubmatch(m[1])
	if e == nil {
		return m[1], fatal
	}
	text = strings.NewReplacer(`\"`, `"`, `\n`, " ", `\\`, `\`).Replace(e[1])
	if what, _, ok := strings.Cut(strings.TrimPrefix(m[1], `"`), `" `); ok && !fatal {
		return what + ": " + text, fatal
	}
	return text, fatal
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
	case has("failed to construct kubelet dependencies") && has("tls"), has("tls: ") || has("server cert files"):
		return "look at tlsCertFile and tlsPrivateKeyFile in spec.kubelet.config"
	case has("container runtime") || has("rpc error"):
		return "look at the runtime: journalctl -u containerd"
	}
	return ""
}
