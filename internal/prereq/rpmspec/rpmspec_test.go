package rpmspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnArgumentIsSatisfiedByTheVersionItNames(t *testing.T) {
	have := map[string]string{"kubelet": "1.35.4-150500.1.1", "nfs-utils": "2.5.4-25.el9", "iptables": "1.8.10-4.el9", "java-17-openjdk": "17.0.1-1", "kernel": "5.14.0-427.el9 5.14.0-503.el9"}
	for spec, want := range map[string]bool{
		"kubelet":                   true,
		"kubelet-1.35.4-*":          true,
		"kubelet-1.35.4":            true,
		"kubelet-1.35.4-150500.1.1": true,
		"kubelet-1.35.*":            true,
		"kubelet-0:1.35.4-*":        true,
		"kubelet.x86_64":            true,
		"kubelet-1.35.4-0":          false, // P2
		"kubelet-1.35":              false,
		"kubelet-1.34.4-*":          false,
		"nfs-utils":                 true,
		"nfs-utils-2.5.4":           true,
		"nfs-utils-2.5.3":           false,
		"java-17-openjdk":           true,
		"socat":                     false,
		"kernel-5.14.0-427.el9":     true,
		"kernel-5.14.0-503.el9":     true,
		"kernel-5.14.0-1.el9":       false,
		"kube*":                     false,
	} {
		require.Equal(t, want, Satisfied(spec, have), spec)
	}
}

func TestTheNameInAnArgument(t *testing.T) {
	for spec, want := range map[string]string{
		"kubelet-1.35.4-*": "kubelet", "nfs-utils": "nfs-utils", "containerd.io-2.2.*": "containerd.io", "kube*": "kube*",
		"kernel-modules-extra-6.12.0-55.el10.x86_64": "kernel-modules-extra",
	} {
		require.Equal(t, want, Name(spec), spec)
	}
}

func TestAWildcardNameHasNoCandidates(t *testing.T) {
	require.Empty(t, Candidates("kube*"))
	require.Empty(t, Names([]string{"kube*"}))
	require.Equal(t, []string{"kubelet-1.35.4", "kubelet"}, Names([]string{"kubelet-1.35.4"}))
}

func FuzzSatisfiedNeverPanics(f *testing.F) {
	f.Add("kubelet-1.35.4-*", "1.35.4-1")
	f.Add("a-[", "1")
	f.Fuzz(func(t *testing.T, spec, v string) {
		Satisfied(spec, map[string]string{Name(spec): v})
	})
}
