package packages

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/prereq/distro"
)

// load reads a configuration of only these lines below spec.
func load(t *testing.T, spec string) config.Spec {
	t.Helper()
	text := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n" + spec
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(text)}}, config.Identity{})
	require.NoError(t, err)
	return c.Spec
}

const repos = `  packages:
    repositories:
    - id: kubernetes
      name: Kubernetes
      baseURL: https://packages.example/v1.35/rpm/
      gpgKeys: [https://packages.example/v1.35/rpm/repodata/repomd.xml.key]
      exclude: [kubelet, kubeadm, kubectl, cri-tools, kubernetes-cni]
    - id: containerd
      baseURL: https://packages.example/containerd/$basearch/$releasever
      gpgKeys: [https://packages.example/containerd/key]
`

func observe(t *testing.T, w *hosttest.World, spec config.Spec) Facts {
	t.Helper()
	f, err := Observe(context.Background(), w, spec)
	require.NoError(t, err)
	return f
}

func ids(p change.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return out
}

// converge applies a plan and wants nothing left.
func converge(t *testing.T, w *hosttest.World, spec config.Spec) change.Plan {
	t.Helper()
	p := Plan(spec, observe(t, w, spec))
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil), c.ID())
	}
	left := Plan(spec, observe(t, w, spec))
	require.True(t, left.Empty(), "%v %v", ids(left), left.Blocked)
	return p
}

func of[T change.Change](t *testing.T, p change.Plan) T {
	t.Helper()
	for _, c := range p.Changes {
		if c, ok := c.(T); ok {
			return c
		}
	}
	var none T
	require.Fail(t, "no such change", "%T in %v", none, ids(p))
	return none
}

func TestAStockRockyGetsRepositoriesKeysPackagesAndLocks(t *testing.T) {
	w := hosttest.Rocky9()
	p := converge(t, w, load(t, repos))
	require.Equal(t, []string{"route",
		"probe:kubernetes", "keys:kubernetes", "file:/etc/yum.repos.d/kubernetes.repo",
		"probe:containerd", "keys:containerd", "file:/etc/yum.repos.d/containerd.repo",
		"file:/etc/dnf/plugins/versionlock.list", "packages"}, ids(p))
	in := of[change.InstallPackages](t, p)
	require.Equal(t, []string{"kubelet-1.35.4-*", "kubeadm-1.35.4-*", "containerd.io"}, in.Packages)
	require.Equal(t, []string{"cri-tools", "socat", "ethtool", "conntrack-tools"}, in.Optional)
	require.Equal(t, []string{"kubernetes"}, in.Unlock)
	require.Len(t, in.Keys, 2)
	require.Empty(t, p.Warnings)
	require.Equal(t, `# Kept by nodeagent (spec.packages.repositories).
[kubernetes]
name=Kubernetes
baseurl=https://packages.example/v1.35/rpm/
enabled=1
gpgcheck=1
repo_gpgcheck=0
gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-kubernetes
exclude=kubelet kubeadm kubectl cri-tools kubernetes-cni
`, w.Files["/etc/yum.repos.d/kubernetes.repo"].Content)
	require.Equal(t, "# nodeagent keeps these at spec.kubernetes.version\nkubelet-0:1.35.4-*.*\nkubeadm-0:1.35.4-*.*\nkubectl-0:1.35.4-*.*\n",
		w.Files["/etc/dnf/plugins/versionlock.list"].Content)
}

func TestO4ARepositoryIsProbedAtItsExpandedURLBeforeItsFileIsWritten(t *testing.T) {
	p := Plan(load(t, repos), observe(t, hosttest.Rocky9(), load(t, repos)))
	require.Contains(t, p.Changes, change.Change(change.ProbeRepository{Repository: "containerd", BaseURL: "https://packages.example/containerd/x86_64/9"}))
}

func TestAVariableNobodyKnowsIsNotProbed(t *testing.T) {
	spec := load(t, "  packages: {repositories: [{id: a, baseURL: \"https://r.example/$stream/\", gpgKeys: [/k]}]}\n")
	require.NotContains(t, ids(Plan(spec, observe(t, hosttest.Rocky9(), spec))), "probe:a")
}

func TestP1ExcludesAreLiftedForOurTransactionAndStayInTheFile(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/yum.repos.d/k8s.repo"] = hosttest.File{Content: "[k8s]\nbaseurl=https://k.example/\nexclude=kubelet kubeadm kubectl cri-tools kubernetes-cni\n"}
	before := w.Files["/etc/yum.repos.d/k8s.repo"]
	p := converge(t, w, load(t, ""))
	require.Equal(t, []string{"k8s"}, of[change.InstallPackages](t, p).Unlock)
	require.Equal(t, before, w.Files["/etc/yum.repos.d/k8s.repo"])
}

func TestAnExcludeThatKeepsKubeletOutOfAnotherRepositoryStaysInForce(t *testing.T) {
	// The stock host has exclude=kubelet in [baseos].
	p := Plan(load(t, repos), observe(t, hosttest.Rocky9(), load(t, repos)))
	require.NotContains(t, of[change.InstallPackages](t, p).Unlock, "baseos")
}

func TestP2TheReleaseFieldIsLeftOpen(t *testing.T) {
	w := hosttest.Rocky9()
	k := w.Repo["kubelet"]
	k.Version = "1.35.4-999.el9"
	w.Repo["kubelet"] = k
	converge(t, w, load(t, repos))
	require.Equal(t, "1.35.4-999.el9", w.Packages["kubelet"])
	spec := load(t, repos)
	spec.Kubernetes.Version = "v1.28.3"
	require.Contains(t, wanted(spec, observe(t, w, spec), managers["dnf"]).required, "kubelet-1.28.3-*")
}

func TestP2TheURLHasTheMinorReleaseOnly(t *testing.T) {
	for segment, want := range map[string]string{"v1.28": "", "v1.28.3": "it should be v1.28", "v1.27": "it should be v1.28"} {
		spec := load(t, "  packages: {repositories: [{id: kubernetes, baseURL: \"https://repo.example/core:/stable:/"+segment+"/rpm/\", gpgKeys: [/k]}]}\n")
		spec.Kubernetes.Version = "v1.28.3"
		warnings := strings.Join(Plan(spec, observe(t, hosttest.Rocky9(), spec)).Warnings, "\n")
		if want == "" {
			require.Empty(t, warnings)
			continue
		}
		require.Contains(t, warnings, "repository kubernetes is of "+segment+" by its URL, and Kubernetes v1.28.3 is asked for: "+want)
	}
}

func TestP7ConntrackIsRequiredForReleasesWhoseKubeadmWantsIt(t *testing.T) {
	spec := load(t, repos)
	spec.Kubernetes.Version = "v1.32.9"
	f := observe(t, hosttest.Rocky9(), spec)
	require.Contains(t, wanted(spec, f, managers["dnf"]).required, "conntrack-tools")
	spec.Kubernetes.Version = "v1.33.0"
	require.NotContains(t, wanted(spec, f, managers["dnf"]).required, "conntrack-tools")
	require.Contains(t, wanted(spec, f, managers["dnf"]).optional, "conntrack-tools")
}

func TestP8PackagesAreRemovedOnlyWhenListed(t *testing.T) {
	spec := load(t, repos)
	require.Empty(t, of[change.InstallPackages](t, Plan(spec, observe(t, hosttest.Rocky9(), spec))).Remove)
	spec = load(t, repos+"    remove: [podman, runc]\n")
	require.Equal(t, []string{"podman", "runc"}, of[change.InstallPackages](t, Plan(spec, observe(t, hosttest.Rocky9(), spec))).Remove)
}

func TestOptionalPackagesThatNoRepositoryHasDontKeepAHostFromBeingDone(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Repo, "cri-tools")
	delete(w.Repo, "socat")
	converge(t, w, load(t, repos))
	require.NotContains(t, w.Packages, "socat")
	require.Contains(t, w.Packages, "ethtool")
}

func TestAnInstalledProviderCounts(t *testing.T) {
	w := hosttest.Rocky9() // has iptables-nft, which provides iptables
	p := Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.NotContains(t, of[change.InstallPackages](t, p).Packages, "iptables")
	delete(w.Packages, "iptables-nft")
	p = Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.Contains(t, of[change.InstallPackages](t, p).Packages, "iptables")
}

func TestWithoutThePluginExcludesLockThePackages(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Files, "/etc/dnf/plugins/versionlock.conf")
	spec := load(t, "  packages: {repositories: [{id: kubernetes, baseURL: \"https://k.example/\", gpgKeys: [/k], exclude: [cri-tools, \"kubele*\"]}]}\n")
	p := converge(t, w, spec)
	require.Contains(t, w.Files["/etc/yum.repos.d/kubernetes.repo"].Content, "\nexclude=cri-tools kubele* kubeadm kubectl\n")
	require.Equal(t, []string{"kubernetes"}, of[change.InstallPackages](t, p).Unlock)
	require.NotContains(t, ids(p), "file:/etc/dnf/plugins/versionlock.list")
}

func TestWithoutPluginAndRepositoriesOfOursThePluginIsAskedFor(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Files, "/etc/dnf/plugins/versionlock.conf")
	delete(w.Packages, "python3-dnf-plugin-versionlock")
	w.Repo["python3-dnf-plugin-versionlock"] = hosttest.Package{Version: "4.3.0-16.el9", Files: map[string]hosttest.File{
		"/etc/dnf/plugins/versionlock.conf": {Content: "[main]\nenabled = 1\n"}}}
	p := converge(t, w, load(t, ""))
	require.Contains(t, of[change.InstallPackages](t, p).Optional, "python3-dnf-plugin-versionlock")
	require.Contains(t, w.Files["/etc/dnf/plugins/versionlock.list"].Content, "kubelet-0:1.35.4-*.*")

	delete(w.Repo, "python3-dnf-plugin-versionlock")
	delete(w.Files, "/etc/dnf/plugins/versionlock.conf")
	left := Plan(load(t, ""), observe(t, w, load(t, "")))
	require.True(t, left.Empty())
	require.Len(t, left.Warnings, 1)
}

func TestLocksOfOthersStayInTheList(t *testing.T) {
	old := "# Added lock on Mon Mar  2\nnginx-1:1.20.1-14.el9.*\n" + lockComment + "\nkubelet-0:1.34.2-*.*\nkubeadm-0:1.34.2-*.*\nkubectl-0:1.34.2-*.*\nkubelet-0:1.34.2-150500.1.1.*"
	want := "# Added lock on Mon Mar  2\nnginx-1:1.20.1-14.el9.*\nkubelet-0:1.34.2-150500.1.1.*\n" + lockComment + "\nkubelet-0:1.35.4-*.*\nkubeadm-0:1.35.4-*.*\nkubectl-0:1.35.4-*.*\n"
	require.Equal(t, want, editLocks(old, "1.35.4"))
	require.Equal(t, want, editLocks(want, "1.35.4"))
	require.Equal(t, "# Added lock on Mon Mar  2\nnginx-1:1.20.1-14.el9.*\nkubelet-0:1.34.2-150500.1.1.*\n", editLocks(want, ""))
}

func TestLockFalseTakesOurLocksAway(t *testing.T) {
	w := hosttest.Rocky9()
	converge(t, w, load(t, repos))
	converge(t, w, load(t, repos+"    lock: false\n"))
	require.Empty(t, w.Files["/etc/dnf/plugins/versionlock.list"].Content)
}

func TestAnOlderKubeletIsUpgradedOnAHostThatHasNotJoined(t *testing.T) {
	w := hosttest.Rocky9()
	w.Packages["kubelet"], w.Packages["kubeadm"] = "1.34.2-150500.1.1", "1.34.2-150500.1.1"
	converge(t, w, load(t, repos))
	require.Equal(t, "1.35.4-150500.1.1", w.Packages["kubelet"])
}

func TestANewerKubeletIsNotDowngraded(t *testing.T) {
	w := hosttest.Rocky9()
	w.Packages["kubelet"] = "1.36.0-150500.1.1"
	p := Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "kubelet 1.36.0-150500.1.1 is installed, which is newer than 1.35.4")
	require.Contains(t, fail.HintOf(p.Blocked[0]), "dnf downgrade --disableexcludes=all kubelet-1.35.4-*")
	require.Equal(t, fail.Safety, fail.KindOf(p.Blocked[0]))
}

func TestAJoinedNodeKeepsItsVersion(t *testing.T) {
	w := hosttest.Rocky9()
	w.Packages["kubelet"], w.Packages["kubeadm"] = "1.34.2-150500.1.1", "1.34.2-150500.1.1"
	w.Files["/etc/kubernetes/kubelet.conf"] = hosttest.File{}
	p := Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.Len(t, p.Blocked, 2)
	require.Equal(t, fail.Safety, fail.KindOf(p.Blocked[0]))
	require.ErrorContains(t, p.Blocked[0], "already")
}

func TestASecondDefinitionOfARepositoryIsRefused(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/yum.repos.d/mine.repo"] = hosttest.File{Content: "[kubernetes]\nbaseurl=https://old.example\n"}
	p := Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "repository kubernetes is already defined in /etc/yum.repos.d/mine.repo")
}

func TestANewKeyURLIsFetchedAgainAndADroppedKeyIsImportedAgain(t *testing.T) {
	w := hosttest.Rocky9()
	converge(t, w, load(t, repos))
	other := load(t, strings.Replace(repos, "repomd.xml.key", "new.key", 1))
	require.Equal(t, []string{"route", "keys:kubernetes"}, ids(Plan(other, observe(t, &hosttest.World{
		Sys: w.Sys, Files: w.Files, Packages: w.Packages, Repo: w.Repo, UnitStates: w.UnitStates}, other))))
	for name := range w.Packages {
		if strings.HasPrefix(name, "gpg(") {
			delete(w.Packages, name)
		}
	}
	require.Equal(t, []string{"keys:kubernetes", "keys:containerd"}, ids(Plan(load(t, repos), observe(t, w, load(t, repos)))))
}

func TestTheRouteIsAwaitedOnlyWhenSomethingIsFetchedFromAfar(t *testing.T) {
	local := load(t, "  packages: {repositories: [{id: k, baseURL: \"file:///srv/k\", gpgKeys: [/srv/k.asc]}]}\n")
	w := hosttest.Rocky9()
	w.Files["/etc/yum.repos.d/rocky.repo"] = hosttest.File{Content: "[base]\nbaseurl=file:///srv/base\n"}
	require.NotContains(t, ids(Plan(local, observe(t, w, local))), "route")
	never := load(t, repos+"  network: {defaultRoute: {family: none}}\n")
	require.NotContains(t, ids(Plan(never, observe(t, hosttest.Rocky9(), never))), "route")
	w = hosttest.Rocky9()
	w.Net.Defaults = []host.Route{{Family: "ipv6", Interface: "eth0"}}
	v4 := load(t, repos+"  network: {defaultRoute: {family: ipv4}}\n")
	require.Contains(t, ids(Plan(v4, observe(t, w, v4))), "route")
	require.NotContains(t, ids(Plan(load(t, repos), observe(t, w, load(t, repos)))), "route")
}

func TestAHostWithoutAnyRepositoryIsToldSo(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Files, "/etc/yum.repos.d/rocky.repo")
	p := Plan(load(t, ""), observe(t, w, load(t, "")))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "no enabled package repository")
}

func TestUncheckedSignaturesAreWarnedAbout(t *testing.T) {
	spec := load(t, "  packages: {repositories: [{id: k, baseURL: \"https://k.example\", gpgCheck: false}]}\n")
	p := Plan(spec, observe(t, hosttest.Rocky9(), spec))
	require.Len(t, p.Warnings, 1)
	require.Contains(t, of[change.WriteFile](t, p).Content, "\ngpgcheck=0\n")
}

func TestO3OracleLinuxWorksWithAWarningAndFedoraIsRefused(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/usr/lib/os-release"] = hosttest.File{Content: "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"8.5\"\nPLATFORM_ID=\"platform:el8\"\n"}
	p := converge(t, w, load(t, repos))
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "not certified")

	w = hosttest.Rocky9()
	w.Files["/usr/lib/os-release"] = hosttest.File{Content: "ID=fedora\nVERSION_ID=41\n"}
	p = Plan(load(t, repos), observe(t, w, load(t, repos)))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "not a supported distribution")
	converge(t, w, load(t, repos+"    manager: dnf\n"))
}

func TestTheKernelsModulesComeForTheRunningKernelOnEL10(t *testing.T) {
	spec := load(t, repos)
	f := observe(t, hosttest.Rocky9(), spec)
	f.Evidence.Release = distro.Release{ID: "rocky", VersionID: "10.0"}
	f.Kernel = "6.12.0-55.el10_0.x86_64"
	require.Contains(t, wanted(spec, f, managers["dnf"]).required, "kernel-modules-extra-6.12.0-55.el10_0.x86_64")
	f.Bridge = true
	require.NotContains(t, strings.Join(wanted(spec, f, managers["dnf"]).required, " "), "kernel-modules-extra")
}

func TestSELinuxAndDisksBringTheirPackages(t *testing.T) {
	spec := load(t, repos+"  disks:\n  - {name: a, select: {label: a}, filesystem: {type: ext4}, mountPath: /a}\n")
	f := observe(t, hosttest.Rocky9(), spec)
	f.SELinux = "enforcing"
	require.Subset(t, wanted(spec, f, managers["dnf"]).required, []string{"container-selinux", "e2fsprogs"})
	require.NotContains(t, wanted(spec, f, managers["dnf"]).required, "xfsprogs")
}

func TestAUsersVersionWinsOverTheBareName(t *testing.T) {
	spec := load(t, repos+"    install: [containerd.io-2.2.*, nfs-utils]\n")
	w := hosttest.Rocky9()
	in := of[change.InstallPackages](t, converge(t, w, spec))
	require.Equal(t, []string{"kubelet-1.35.4-*", "kubeadm-1.35.4-*", "containerd.io-2.2.*", "nfs-utils"}, in.Packages)
}

func TestAWildcardInANameIsRefused(t *testing.T) {
	spec := load(t, repos+"    install: [\"nfs-*\"]\n")
	require.Len(t, Plan(spec, observe(t, hosttest.Rocky9(), spec)).Blocked, 1)
}

func TestFactsOfATreeStillGiveAPlan(t *testing.T) {
	f := Facts{Evidence: distro.Evidence{Release: distro.Release{ID: "rocky", VersionID: "9.4"}}, DNF: true}
	p := Plan(load(t, repos), f)
	require.Empty(t, p.Blocked)
	require.Contains(t, ids(p), "packages")
}

func TestARepositoryFileWithCredentialsIsNeitherShownNorReplaced(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/yum.repos.d/kubernetes.repo"] = hosttest.File{Content: "[kubernetes]\nbaseurl=https://k.example\nusername=u\npassword=hunter2\n"}
	f := observe(t, w, load(t, repos))
	b, err := json.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(b), "hunter2")
	p := Plan(load(t, repos), f)
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "holds credentials of repository kubernetes")
	require.Equal(t, fail.Safety, fail.KindOf(p.Blocked[0]))
}

func TestALockInDnfConfIsLiftedForOurTransaction(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/dnf/dnf.conf"] = hosttest.File{Content: "[main]\ngpgcheck=1\nexcludepkgs=kube*\n"}
	require.Equal(t, []string{"kubernetes", "main"}, of[change.InstallPackages](t, converge(t, w, load(t, repos))).Unlock)
}
