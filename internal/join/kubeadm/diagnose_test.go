package kubeadm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

// The files in testdata are what kubeadm 1.35.4 and kubelet 1.35.4 printed in
// a guest when that was wrong; names were changed.

func read(t testing.TB, name string) string {
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	require.NoError(t, err)
	return string(b)
}

func TestEachFailureOfKubeadmIsNamedWithEvidenceAndANextAction(t *testing.T) {
	for name, c := range map[string]struct {
		cause Cause
		kind  fail.Kind
		text  []string
		hint  string
	}{
		"join-preflight":         {Preflight, fail.Step, []string{"CRI, ContainerRuntimeVersion: could not connect", "FileExisting-losetup: losetup not found", "FileAvailable--etc-kubernetes-pki-ca.crt: /etc/kubernetes/pki/ca.crt already exists"}, "util-linux"},
		"join-wrong-pin":         {WrongCA, fail.Step, []string{"not the one that was pinned", `"sha256:a3bbdde29b096b161509641ccc5247ca4d2fd7f20a05105aef143c677ac02729" are pinned`}, "kubeadm token create"},
		"join-no-such-token":     {NoSignature, fail.Step, []string{"expired or never existed"}, "kubeadm token create"},
		"join-other-secret":      {BadSignature, fail.Step, []string{"secret part is another"}, "kubeadm token create"},
		"join-refused":           {Unreachable, fail.Step, []string{"connection refused"}, "reachable"},
		"join-no-name":           {Unreachable, fail.Step, []string{"no such host"}, "reachable"},
		"join-clock":             {Clock, fail.Step, []string{"current time 2020-01-01T00:00:08Z is before 2026-12-01T13:11:35Z"}, "set the clock"},
		"join-unauthorized":      {Unauthorized, fail.Step, []string{"doesn't accept the token", "Unauthorized"}, "kubeadm token create"},
		"join-name-taken":        {NameTaken, fail.Safety, []string{"a Ready node named capture already"}, "kubectl delete node capture"},
		"join-bad-patch":         {BadPatch, fail.Step, []string{"could not convert patch to JSON: { : yaml: line 1: did not find expected node content"}, "/etc/kubernetes/patches"},
		"join-bad-patch-type":    {BadPatch, fail.Step, []string{"unknown or missing patch type after '+'"}, "/etc/kubernetes/patches"},
		"join-bad-type-in-patch": {BadPatch, fail.Step, []string{"cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"}, "spec.kubelet.config"},
		"join-unknown-flag":      {KubeletDown, fail.Step, []string{"kubelet didn't become healthy"}, "journalctl -u kubelet"},
		"join-no-approval":       {TLSBootstrap, fail.Step, []string{"got no client certificate"}, "kubectl get csr"},
		"join-validate":          {BadConfig, fail.Usage, []string{`unknown field "nodeRegistration.frob"`}, "kubeadm version"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Diagnose(read(t, name), "capture")
			require.Equal(t, c.cause, f.Cause, "%+v", f)
			require.Equal(t, c.kind, f.Kind)
			for _, part := range c.text {
				require.Contains(t, f.Text, part)
			}
			require.Contains(t, f.Hint, c.hint)
			require.NotContains(t, f.Text, "\n")
			require.NotContains(t, f.Text, "kube-proxy", "warnings are no causes")
		})
	}
}

func TestP7OnlyErrorLinesAreFatalAndThePackageIsNamed(t *testing.T) {
	f := Diagnose(`[preflight] Running pre-flight checks
	[WARNING FileExisting-socat]: socat not found in system path
	[WARNING Hostname]: hostname "x" could not be reached
error execution phase preflight: [preflight] Some fatal errors occurred:
	[ERROR FileExisting-conntrack]: conntrack not found in system path
[preflight] If you know what you are doing, you can make a check non-fatal with `+"`--ignore-preflight-errors=...`"+`
To see the stack trace of this error execute with --v=5 or higher
`, "n")
	require.Equal(t, Preflight, f.Cause)
	require.Equal(t, []string{"FileExisting-conntrack"}, f.Checks)
	require.Equal(t, "add to spec.packages.install: conntrack-tools", f.Hint)
	require.NotContains(t, f.Text, "socat")

	for line, hint := range map[string]string{
		"[ERROR Port-10250]: Port 10250 is in use":                                                          "ss -ltnp",
		"[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists":   "kubeadm reset",
		"[ERROR Swap]: running with swap on is not supported":                                               "ignorePreflightErrors: Swap",
		"[ERROR SystemVerification]: kernel release 4.18.0-553.el8_10.x86_64 is unsupported":                "ignorePreflightErrors: SystemVerification",
		"[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not": "ignorePreflightErrors",
	} {
		require.Contains(t, Diagnose("\t"+line+"\n", "n").Hint, hint)
	}
}

func TestAFailureThatNobodyKnowsIsQuoted(t *testing.T) {
	f := Diagnose("[preflight] Running\nerror execution phase frobnicate: it was too cold\nTo see the stack trace of this error execute with --v=5 or higher\n", "n")
	require.Equal(t, Unknown, f.Cause)
	require.Equal(t, "kubeadm join failed: error execution phase frobnicate: it was too cold", f.Text)
	require.Equal(t, Unknown, Diagnose("", "n").Cause)
}

func TestOnlyAKubeletThatWasStartedMayStillJoin(t *testing.T) {
	for name, may := range map[string]bool{"join-no-approval": true, "join-unknown-flag": true, "join-bad-patch": false, "join-name-taken": false, "join-preflight": false, "join-unauthorized": false} {
		require.Equal(t, may, Diagnose(read(t, name), "n").MayStillJoin(), name)
	}
}

func TestKubeletsOwnLastErrorIsFoundInItsJournal(t *testing.T) {
	for name, c := range map[string]struct {
		want, hint string
		fatal      bool
	}{
		"kubelet-unknown-flag": {"failed to parse kubelet flag: unknown flag: --frobnicate", "doesn't have that flag", true},
		"kubelet-no-ca-file":   {"failed to construct kubelet dependencies: unable to load client CA file /etc/nosuch.crt: open /etc/nosuch.crt: no such file or directory", "authentication.x509.clientCAFile", true},
		"kubelet-tls-files":    {"failed to run Kubelet: failed to create kubelet: failed to initialize file based certificate manager: unable to set up dynamic certificate manager for kubelet server cert files: open /etc/nosuch.crt: no such file or directory", "tlsCertFile", true},
		"kubelet-swap":         {"failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false", "failSwapOn", true},
		"kubelet-no-approval":  {`Unable to register node with API server, error getting existing node: nodes "capture" is forbidden: User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope`, "", false},
	} {
		got, fatal := LastKubeletError(read(t, name))
		require.Equal(t, c.want, got)
		require.Equal(t, c.fatal, fatal)
		require.Contains(t, KubeletHint(got), c.hint)
	}
	for journal, want := range map[string]string{
		"": "", "Started kubelet.service - kubelet: The Kubernetes Node Agent.": "",
		"Error: failed to parse kubelet flag: unknown flag: --network-plugin":                                                          "failed to parse kubelet flag: unknown flag: --network-plugin",
		`F0301 12:00:00.000000    1234 server.go:274] failed to run Kubelet: x`:                                                        "failed to run Kubelet: x",
		"E1201 13:22:04.475181    1287 event.go:464] \"Unable to record event (will not retry!)\" err=\"broadcaster already stopped\"": "",
	} {
		got, _ := LastKubeletError(journal)
		require.Equal(t, want, got, journal)
	}
	old := read(t, "kubelet-unknown-flag") + strings.Repeat("Started kubelet.service - x.\nI1201 13:22:27.611019    1369 x.go:1] fine\n", 2)
	got, _ := LastKubeletError(old)
	require.Empty(t, got, "what an earlier kubelet died of is over")
}

func FuzzDiagnose(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := Diagnose(s, "n")
		require.NotEmpty(t, d.Text)
		require.NotEmpty(t, d.Hint)
		e, _ := LastKubeletError(s)
		KubeletHint(e)
	})
}
