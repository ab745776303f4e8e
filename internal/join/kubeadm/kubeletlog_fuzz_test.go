package kubeadm

import (
	"strings"
	"testing"
)

func FuzzLastKubeletError(f *testing.F) {
	f.Add(`E0301 12:00:00.000000    1 run.go:74] "command failed" err="failed to run Kubelet: running with swap on"`)
	f.Add("F0301 12:00:00.000000 1 server.go:1] x\nError: unknown flag: --cni-conf-dir\n")
	f.Add("E err=\"\\\\\\\"")
	f.Fuzz(func(t *testing.T, journal string) {
		text, fatal := LastKubeletError(journal)
		if strings.Contains(text, "\n") {
			t.Fatalf("more than one line: %q", text)
		}
		if fatal && strings.TrimSpace(journal) == "" {
			t.Fatal("nothing was fatal")
		}
		KubeletHint(text)
	})
}
