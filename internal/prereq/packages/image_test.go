package packages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/host/hosttest"
)

// image is a host with an immutable system: everything is baked in.
func image() *hosttest.World {
	w := hosttest.Rocky9()
	w.Files["/usr/lib/os-release"] = hosttest.File{Content: "NAME=\"SLE Micro\"\nID=\"sle-micro\"\nID_LIKE=\"suse\"\nVERSION_ID=\"5.5\"\n"}
	w.Files["/usr/sbin/transactional-update"] = hosttest.File{Mode: "0755"}
	delete(w.Files, "/usr/bin/dnf")
	for _, n := range []string{"kubelet", "kubeadm", "containerd.io"} {
		w.Packages[n] = w.Repo[n].Version
		for p, f := range w.Repo[n].Files {
			w.Files[p] = f
		}
	}
	return w
}

func TestAnImageWithTheRightVersionsNeedsNothing(t *testing.T) {
	p := Plan(load(t, ""), observe(t, image(), load(t, "")))
	require.True(t, p.Empty(), "%v", p.Blocked)
}

func TestAnImageTakesNoRepositoriesAndNoPackages(t *testing.T) {
	spec := load(t, repos+"    install: [nfs-utils]\n")
	p := Plan(spec, observe(t, image(), spec))
	require.Empty(t, p.Changes)
	require.Len(t, p.Blocked, 2)
	require.ErrorContains(t, p.Blocked[0], "repositories can't be set up on this host: the host has transactional-update")
	require.ErrorContains(t, p.Blocked[1], "nfs-utils can't be installed")
}

func TestAnImageOfAnotherVersionIsTold(t *testing.T) {
	w := image()
	w.Packages["kubelet"] = "1.34.5-1"
	delete(w.Files, "/usr/bin/kubeadm")
	p := Plan(load(t, ""), observe(t, w, load(t, "")))
	require.Len(t, p.Blocked, 2)
	require.ErrorContains(t, p.Blocked[0], "kubelet of this host is 1.34.5, not 1.35.4")
	require.ErrorContains(t, p.Blocked[1], "kubeadm is not on this host")
}

// photon is a Photon OS 5 host with tdnf.
func photon() *hosttest.World {
	w := hosttest.Rocky9()
	w.Files["/usr/lib/os-release"] = hosttest.File{Content: "NAME=\"VMware Photon OS\"\nVERSION=\"5.0\"\nID=photon\nVERSION_ID=5.0\n"}
	delete(w.Files, "/usr/bin/dnf")
	delete(w.Files, "/etc/dnf/plugins/versionlock.conf")
	w.Files["/usr/bin/tdnf"] = hosttest.File{Mode: "0755"}
	for _, n := range []string{"containerd", "containerd-extras", "runc", "iptables"} {
		w.Repo[n] = hosttest.Package{Version: "1-1.ph5"}
	}
	delete(w.Packages, "iptables-nft")
	return w
}

func TestO2PhotonIsInstalledByTdnfUnderItsOwnNames(t *testing.T) {
	w := photon()
	p := converge(t, w, load(t, repos))
	in := of[change.InstallPackages](t, p)
	require.Equal(t, "tdnf", in.Manager)
	require.Equal(t, []string{"kubelet-1.35.4-*", "kubeadm-1.35.4-*", "iptables", "containerd", "containerd-extras", "runc"}, in.Packages)
	require.Contains(t, p.Changes, change.Change(change.ProbeRepository{Repository: "containerd", BaseURL: "https://packages.example/containerd/x86_64/5.0"}))
	require.Equal(t, "kubelet\n", w.Files["/etc/tdnf/locks.d/kubelet.conf"].Content)
}

func TestP3EveryKeyIsImportedBeforeTdnfInstalls(t *testing.T) {
	p := Plan(load(t, repos), observe(t, photon(), load(t, repos)))
	require.Equal(t, []string{"route", "probe:kubernetes", "keys:kubernetes", "file:/etc/yum.repos.d/kubernetes.repo",
		"probe:containerd", "keys:containerd", "file:/etc/yum.repos.d/containerd.repo", "packages",
		"file:/etc/tdnf/locks.d/kubelet.conf", "file:/etc/tdnf/locks.d/kubeadm.conf", "file:/etc/tdnf/locks.d/kubectl.conf"}, ids(p))
	require.Contains(t, of[change.WriteFile](t, p).Content, "gpgcheck=1\n")
}

func TestTdnfsLocksAreLiftedForOurOwnUpgrade(t *testing.T) {
	w := photon()
	converge(t, w, load(t, repos))
	w.Packages["kubelet"] = "1.34.2-1"
	p := converge(t, w, load(t, repos))
	require.Equal(t, []string{"remove:/etc/tdnf/locks.d/kubelet.conf", "packages", "file:/etc/tdnf/locks.d/kubelet.conf"}, ids(p))
}
