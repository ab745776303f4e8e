package hosttest

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
)

// The world must refuse what a host refuses, or the laws held over it mean
// nothing.

func apply(w *World, c change.Change) error { return w.Apply(context.Background(), c, nil) }

func TestTheImagesOwnFilesystemCannotBeWritten(t *testing.T) {
	w := Alauda()
	require.ErrorIs(t, apply(w, change.WriteFile{Path: "/usr/local/bin/x"}), syscall.EROFS)
	require.ErrorIs(t, apply(w, change.InstallArchive{Into: "/usr/local"}), syscall.EROFS)
	require.ErrorIs(t, apply(w, change.WriteFile{Path: "/etc/os-release"}), syscall.EROFS, "its link leads to /usr")
	require.NoError(t, apply(w, change.WriteFile{Path: "/etc/x"}))
	require.NoError(t, apply(w, change.WriteFile{Path: "/var/lib/x"}))
}

func TestPackagesComeAsTheirManagerBringsThem(t *testing.T) {
	w := Photon5()
	kubelet := change.InstallPackages{Manager: "tdnf", Packages: []string{"kubelet-1.35.4-*"}}
	require.ErrorContains(t, apply(w, kubelet), "no repository has kubelet-1.35.4-*")
	w.Files["/etc/yum.repos.d/kubernetes.repo"] = File{Content: "[kubernetes]\nenabled=1\nexclude=kubelet\n"}
	require.NoError(t, apply(w, kubelet), "tdnf ignores exclude=")
	w.Packages["kubelet"], w.Files["/etc/tdnf/locks.d/kubelet.conf"] = "1.34.2-1", File{Content: "kubelet\n"}
	require.ErrorContains(t, apply(w, kubelet), "kubelet is locked")
	kubelet.Manager = "dnf"
	require.ErrorContains(t, apply(w, kubelet), "dnf is not on this host")
	w.Files["/usr/bin/dnf"] = File{Mode: "0755"}
	require.ErrorContains(t, apply(w, kubelet), "excluded")
	kubelet.Unlock = []string{"kubernetes"}
	require.NoError(t, apply(w, kubelet))
	require.ErrorContains(t, apply(Alauda(), kubelet), "dnf is not on this host")
	require.ErrorContains(t, apply(Photon5(), change.MakeFilesystem{Device: "/dev/sdb", Type: "xfs"}), "mkfs.xfs is not on this host")
}

func TestRulesAreInsertedWhereTheirNumberSays(t *testing.T) {
	live := "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j REJECT\nCOMMIT\n"
	got, err := restore(live, "*filter\n-I INPUT 2 -p tcp -j ACCEPT\n-A INPUT -j LOG\nCOMMIT\n")
	require.NoError(t, err)
	require.Equal(t, "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp -j ACCEPT\n-A INPUT -j REJECT\n-A INPUT -j LOG\nCOMMIT\n", got)
	for _, wrong := range []string{"*filter\n-I INPUT 4 -j ACCEPT\nCOMMIT\n", "*filter\n-A KUBE-X -j ACCEPT\nCOMMIT\n", "*filter\n-A INPUT -j ACCEPT\n", "-A INPUT -j ACCEPT\n", "*filter\n-F\nCOMMIT\n"} {
		got, err := restore(live, wrong)
		require.Error(t, err, wrong)
		require.Equal(t, live, got)
	}
}
