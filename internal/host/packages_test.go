package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstalledNamesCountWhenAnotherPackageProvidesThem(t *testing.T) {
	out := "iptables-nft\t1.8.10-4.el9\tconfig(iptables-nft) iptables iptables-compat iptables-nft iptables-nft(x86-64) \n" +
		"no package provides socat\n" +
		"kubelet\t1.35.4-150500.1.1\tkubelet kubelet(x86-64) \n" +
		"gpg-pubkey\t9a296436-6385a1a0\tgpg(isv:kubernetes OBS Project <isv:kubernetes@build.example>) gpg(9a296436) gpg(234654da9a296436) \n"
	require.Equal(t, map[string]string{"iptables": "1.8.10-4.el9", "kubelet": "1.35.4-150500.1.1", "gpg(9a296436)": "9a296436-6385a1a0"},
		parseInstalled(out, []string{"iptables", "kubelet", "socat", "gpg(9a296436)", "gpg(11111111)"}))
}

func TestAPackageOfTheVeryNameWinsOverAProvider(t *testing.T) {
	out := "containerd.io\t2.2.9-1\tcontainerd containerd.io runc \nrunc\t1.1.12-4\trunc \n"
	require.Equal(t, map[string]string{"runc": "1.1.12-4", "containerd": "2.2.9-1"}, parseInstalled(out, []string{"runc", "containerd"}))
}

func TestSeveralVersionsAreAllKnownAndEachIsOnce(t *testing.T) {
	out := "kernel\t5.14.0-427\tkernel \nkernel\t5.14.0-503\tkernel \nkernel\t5.14.0-427\tkernel \n"
	require.Equal(t, map[string]string{"kernel": "5.14.0-427 5.14.0-503"}, parseInstalled(out, []string{"kernel"}))
}

func TestVersionsAreFoundInWhatProgramsPrint(t *testing.T) {
	for out, want := range map[string]string{
		"v1.35.4":                 "1.35.4",
		"Kubernetes v1.34.2-rc.1": "1.34.2-rc.1",
		"containerd github.com/containerd/containerd/v2 v2.2.9 e9b1e5b":            "2.2.9",
		"containerd containerd.io 1.6.33 d2d58213f83a351ca8f528a95fbd145f5654e957": "1.6.33",
		"containerd github.com/containerd/containerd 1.7.13~ds1 1.7.13~ds1-1":      "1.7.13~ds1",
		"runc version 1.1.5+ds1\ncommit: 1\nspec: 1.0.2-dev":                       "1.1.5+ds1",
		"iptables v1.8.9 (nf_tables)":                                              "1.8.9",
		"crictl version v1.35.0":                                                   "1.35.0",
		"socat by Gerhard Rieger":                                                  "",
		"":                                                                         "",
	} {
		require.Equal(t, want, parseVersion(out), out)
	}
}

func FuzzParseInstalledNeverInventsNames(f *testing.F) {
	f.Add("a\t1-1\ta b \n")
	f.Fuzz(func(t *testing.T, out string) {
		for n := range parseInstalled(out, []string{"a", "b"}) {
			if n != "a" && n != "b" {
				t.Fatal(n)
			}
		}
		parseVersion(out)
	})
}

func TestWhatOthersNeedStaysAndWhatThatNeedsToo(t *testing.T) {
	const out = "error: Failed dependencies:\n\tsocat is needed by (installed) kubelet-1.35.4-150500.1.1.x86_64\n\tsocat >= 1.7 is needed by (installed) their-tool-2.0-1.noarch\n"
	require.Equal(t, []string{"kubelet", "their-tool"}, parseNeeded(out))
	require.Empty(t, parseNeeded("error: package iptables is not installed"))
	require.Equal(t, map[string]string{"socat": "their-tool", "libwrap": "socat"},
		staying(map[string][]string{"kubelet": nil, "kubeadm": {"kubelet"}, "socat": {"kubelet", "their-tool"}, "libwrap": {"socat"}, "conntrack": {"kubelet"}}))
}
