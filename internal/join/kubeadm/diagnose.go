package kubeadm

import (
	"regexp"
	"strings"

	"nodeagent/internal/fail"
)

// Cause is what kubeadm join failed on.
type Cause int

// Causes.
const (
	Unknown      Cause = iota
	Preflight          // checks of the host
	NoSignature        // cluster-info isn't signed for the token
	BadSignature       // the token's secret doesn't fit its id
	WrongCA            // the CA pin doesn't match
	Clock              // a certificate isn't valid at this host's time
	Unauthorized       // the API server knows the token no more
	Forbidden          // the cluster's roles for joining are missing
	NameTaken          // a Ready node of that name exists
	KubeletDown        // kubelet didn't come up
	TLSBootstrap       // kubelet runs but got no certificate
	Unreachable        // no connection
	BadPatch           // a kubeadm patch can't be applied
	BadConfig          // kubeadm doesn't accept the JoinConfiguration
)

// Failure is a failed join, read.
type Failure struct {
	Cause    Cause
	Evidence string   // kubeadm's own words, one line
	Checks   []string // names of the failed preflight checks
	Kind     fail.Kind
	Text     string // a sentence
	Hint     string
}

// MayStillJoin tells whether kubelet had been started with the token when
// kubeadm gave up, so that the join may complete without it.
func (f Failure) MayStillJoin() bool {
	return f.Cause == TLSBootstrap || f.Cause == KubeletDown || f.Cause == Unreachable || f.Cause == Unknown
}

var (
	checkLine = regexp.MustCompile(`^\s*\[ERROR ([^\]]+)\]: (.*)$`)
	// A table rather than a chain: the first match counts, the most telling
	// causes first. The texts are those of kubeadm 1.24 to 1.37.
	causes = []struct {
		cause Cause
		text  *regexp.Regexp
	}{
		{NameTaken, regexp.MustCompile(`a Node with name ".*" and status "?Ready"? already exists in the cluster`)},
		{Clock, regexp.MustCompile(`x509: certificate has expired or is not yet valid`)},
		{WrongCA, regexp.MustCompile(`none of the public keys .* are pinned|cluster CA found in cluster-info ConfigMap is invalid|certificate signed by unknown authority`)},
		{BadSignature, regexp.MustCompile(`failed to verify JWS signature`)},
		{NoSignature, regexp.MustCompile(`could not find a JWS signature|token id ".*" is invalid for this cluster or it has expired`)},
		{Unauthorized, regexp.MustCompile(`(?i)unauthorized`)},
		{BadPatch, regexp.MustCompile(`(?i)(could not|unable to|failed to) (apply|read|parse|open|create).*patch|patches?\b.*(invalid|unknown|cannot unmarshal|error)`)},
		{BadConfig, regexp.MustCompile(`strict decoding error|unknown field "|no kind "JoinConfiguration" is registered|nodeRegistration\.[^:]*: Invalid value|discovery\.[^:]*: (Invalid value|Required value)`)},
		{KubeletDown, regexp.MustCompile(`failed while waiting for the kubelet to start|kubelet is not healthy|The HTTP call equal to 'curl -sSL http://[^ ]+/healthz' (returned|failed)|the kubelet isn't running|It seems like the kubelet isn't running`)},
		{TLSBootstrap, regexp.MustCompile(`failed while waiting for TLS bootstrap|Waiting for the kubelet to perform the TLS Bootstrap`)},
		{Forbidden, regexp.MustCompile(`is forbidden: User "system:(bootstrap:|anonymous)`)},
		{Unreachable, regexp.MustCompile(`connection refused|no route to host|i/o timeout|no such host|server misbehaving|connection reset by peer|TLS handshake timeout|Client\.Timeout exceeded|context deadline exceeded|network is unreachable`)},
	}
)

// Diagnose reads the redacted output of a kubeadm join that failed. node is
// the name it was to get.
func Diagnose(output, node string) Failure {
	f := Failure{Kind: fail.Step}
	var said []string // each complaint once, with the checks that made it
	by := map[string][]string{}
	for line := range strings.Lines(output) {
		if m := checkLine.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			f.Checks = append(f.Checks, m[1])
			if by[m[2]] == nil {
				said = append(said, m[2])
			}
			by[m[2]] = append(by[m[2]], m[1])
		}
	}
	if len(f.Checks) > 0 {
		for i, text := range said {
			said[i] = strings.Join(by[text], ", ") + ": " + text
		}
		f.Cause, f.Evidence = Preflight, strings.Join(said, "; ")
		f.Text = "kubeadm refuses to join this host: " + f.Evidence
		f.Hint = checkHint(f.Checks, f.Evidence)
		return f
	}
	output = withoutWarnings(output)
	f.Evidence = evidence(output)
	for _, c := range causes {
		if loc := c.text.FindStringIndex(output); loc != nil {
			f.Cause = c.cause
			if f.Evidence == "" || !c.text.MatchString(f.Evidence) {
				f.Evidence = lineAt(output, loc[0])
			}
			break
		}
	}
	f.explain(node)
	return f
}

// harmless are lines that kubeadm writes on its way to success as well: klog's
// information and warnings, and those of its checks.
var harmless = regexp.MustCompile(`^\s*([IW][0-9]{4} [0-9:.]+ |\[WARNING )`)

func withoutWarnings(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if !harmless.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// evidence is the error that kubeadm ended with, on one line; it may have
// printed it on several.
func evidence(output string) string {
	last := ""
	var found []string
	open := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "To see the stack trace"):
			open = false
		case line == "":
		case strings.HasPrefix(line, "error:"), strings.HasPrefix(line, "error execution phase"):
			found, open = []string{strings.TrimSpace(strings.TrimPrefix(line, "error:"))}, true
		case open:
			found = append(found, line)
		default:
			last = line
		}
	}
	if len(found) == 0 {
		return last
	}
	text := strings.Join(found, " ")
	if len(text) > maxEvidence {
		text = strings.ToValidUTF8(text[:maxEvidence], "") + "…"
	}
	return text
}

// maxEvidence bounds what is quoted, in bytes.
const maxEvidence = 600

func lineAt(s string, at int) string {
	start := strings.LastIndexByte(s[:at], '\n') + 1
	end := strings.IndexByte(s[at:], '\n')
	if end < 0 {
		return strings.TrimSpace(s[start:])
	}
	return strings.TrimSpace(s[start : at+end])
}

func (f *Failure) explain(node string) {
	switch f.Cause {
	case NameTaken:
		f.Kind = fail.Safety
		f.Text = "the cluster has a Ready node named " + node + " already, and it isn't this host"
		f.Hint = "give this host another name (spec.hostname), or, if that node is gone for good: kubectl delete node " + node
	case Clock:
		f.Text = "the API server's certificate is not valid at this host's time: " + f.Evidence
		f.Hint = "set the clock: chronyc makestep, or timedatectl; a new token doesn't help"
	case WrongCA:
		f.Text = "the cluster's CA is not the one that was pinned: " + f.Evidence
		f.Hint = "compare the pin with: kubeadm token create --print-join-command; if it was right, somebody else answers at that endpoint"
	case BadSignature:
		f.Text = "cluster-info isn't signed with this token: its id is known there, its secret part is another"
		f.Hint = "make a new one: kubeadm token create --print-join-command"
	case NoSignature:
		f.Text = "the cluster doesn't know the token: it has expired or never existed, or the cluster's token signer isn't running"
		f.Hint = "make a new one: kubeadm token create --print-join-command"
	case Unauthorized:
		f.Text = "the API server doesn't accept the token: " + f.Evidence
		f.Hint = "it has expired meanwhile, or isn't for authentication; make a new one: kubeadm token create --print-join-command"
	case Forbidden:
		f.Text = "the token may not do what a join needs: " + f.Evidence
		f.Hint = "make one for the group system:bootstrappers:kubeadm:default-node-token; `kubeadm init phase bootstrap-token` restores the cluster's roles"
	case KubeletDown:
		f.Text = "kubelet didn't become healthy"
		f.Hint = "look at: journalctl -u kubelet"
	case TLSBootstrap:
		f.Text = "kubelet runs, but got no client certificate from the cluster"
		f.Hint = "see whether its request waits for approval: kubectl get csr; and look at: journalctl -u kubelet"
	case Unreachable:
		f.Text = "kubeadm can't reach the API server: " + f.Evidence
		f.Hint = "see whether the endpoint is reachable from here, also the name that the cluster gives for itself (kubectl -n kube-public get cm cluster-info)"
	case BadPatch:
		f.Text = "kubeadm can't apply a patch: " + f.Evidence
		f.Hint = "look at /etc/kubernetes/patches and at spec.kubelet.config"
	case BadConfig:
		f.Kind = fail.Usage
		f.Text = "kubeadm doesn't accept the join configuration: " + f.Evidence
		f.Hint = "see whether kubeadm is of the version that spec.kubernetes.version names: kubeadm version"
	default:
		f.Text = "kubeadm join failed: " + f.Evidence
		f.Hint = "run nodeagent up again; if it stays so, look at: journalctl -u kubelet"
	}
}

// checkHint is the next action for failed checks: the package that brings a
// missing program is named.
func checkHint(checks []string, evidence string) string {
	packages := map[string]string{"conntrack": "conntrack-tools", "ip": "iproute", "tc": "iproute-tc", "socat": "socat", "ethtool": "ethtool", "crictl": "cri-tools",
		"iptables": "iptables", "nsenter": "util-linux", "mount": "util-linux", "losetup": "util-linux", "ebtables": "ebtables", "cp": "coreutils", "touch": "coreutils"}
	var missing []string
	for _, c := range checks {
		program, ok := strings.CutPrefix(c, "FileExisting-")
		if !ok {
			continue
		}
		if p := packages[program]; p != "" {
			program = p
		}
		missing = append(missing, program)
	}
	switch {
	case len(missing) > 0:
		return "add to spec.packages.install: " + strings.Join(missing, ", ")
	case strings.Contains(evidence, "FileAvailable-"):
		return "another join left these; if nothing on this host is needed any more: kubeadm reset"
	case strings.Contains(evidence, "Port-"):
		return "another kubelet, or something else, listens there; see: ss -ltnp"
	case strings.Contains(evidence, "CRI") || strings.Contains(evidence, "ContainerRuntimeVersion"):
		return "look at the runtime: journalctl -u containerd; its socket is spec.runtime.socket"
	}
	return "mend what is named; a check that is wrong here can be listed in spec.join.ignorePreflightErrors: " + strings.Join(checks, ", ")
}
