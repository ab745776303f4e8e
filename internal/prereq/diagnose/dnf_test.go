package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// captured returns the exit status and both outputs of a real dnf 4.14.
func captured(t *testing.T, path string) (int, string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	head, out, _ := strings.Cut(string(b), "\n")
	var exit int
	_, err = fmt.Sscanf(head, "exit %d", &exit)
	require.NoError(t, err, path)
	return exit, out
}

func TestDnfFailuresAreClassified(t *testing.T) {
	want := map[string]Diagnosis{
		"conflict": {Kind: Conflict, Packages: []string{"containerd.io-2.2.9-1.el9.x86_64", "runc-1.1.12-1.el9.noarch"},
			Detail: "containerd.io-2.2.9-1.el9.x86_64 conflicts with runc < 99 provided by runc-1.1.12-1.el9.noarch"},
		"dependency": {Kind: Dependency, Packages: []string{"needsmissing-1.0-1.el9.noarch"},
			Detail: "nothing provides libnothere.so.1 needed by needsmissing-1.0-1.el9.noarch"},
		"excluded":  {Kind: Excluded, Packages: []string{"kubelet-1.35.4-*"}},
		"not-found": {Kind: NotFound, Packages: []string{"nosuch1", "nosuch2", "kubelet-1.30.0-*"}},
		"unsigned":  {Kind: Signature, Packages: []string{"unsigned-1.0-1.el9.noarch"}, Unsigned: true},
		"key-not-installed": {Kind: Signature, Packages: []string{"cri-tools-1.34.0-150500.1.1.x86_64"},
			Detail: "Public key for cri-tools-1.34.0-150500.1.1.x86_64.rpm is not installed"},
		"stored-key-is-not-the-signers": {Kind: Signature, Packages: []string{"cri-tools-1.34.0-150500.1.1.x86_64"},
			Detail: `The GPG keys listed for the "Kubernetes" repository are already installed but they are not correct for this package.`},
		"locked-by-dnf": {Kind: Lock, Pid: 6, Detail: "already locked by 6", Transient: true},
		"locked-by-rpm": {Kind: Lock, Where: "/var/lib/rpm/.rpm.lock", Transient: true,
			Detail: "RPM: error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)"},
		"disk-full-at-transaction-test": {Kind: DiskFull, Where: "/usr/bin", Detail: "needs 53MB more space on the /usr/bin filesystem"},
		"disk-full-at-download": {Kind: DiskFull,
			Detail: "[MIRROR] kubeadm-1.35.4-150500.1.1.x86_64.rpm: Curl error (23): Failed writing received data to disk/application for http://repo.example/repos/kubernetes/kubeadm-1.35.4-150500.1.1.x86_64.rpm [Failure writing output to destination]"},
		"name-not-resolved": {Kind: Network, Where: "net", Transient: true,
			Detail: "Curl error (6): Couldn't resolve host name for http://nosuch.invalid/repo/repodata/repomd.xml"},
		"connection-refused": {Kind: Network, Where: "net", Transient: true,
			Detail: "Curl error (7): Couldn't connect to server for http://127.0.0.1:9/repo/repodata/repomd.xml"},
		"skipped-repository": {Kind: Network, Where: "kubernetes", Packages: []string{"kubernetes-cni"}, Transient: true,
			Detail: "Curl error (7): Couldn't connect to server for http://127.0.0.1:1/k/repodata/repomd.xml"},
		"skipped-repository-for-good": {Kind: NotFound, Packages: []string{"kubernetes-cni"},
			Skipped: "_dnf_local: Curl error (37): Couldn't read a file:// file for file:///var/lib/dnf/plugins/local/repodata/repomd.xml"},
		"repository-is-404": {Kind: Network, Where: "net", Detail: "Status code: 404 for http://repo.example/9.7/repodata/repomd.xml"},
		"package-is-404": {Kind: Network,
			Detail: "Status code: 404 for http://repo.example/repos/kubernetes/kubectl-1.35.4-150500.1.1.x86_64.rpm"},
		"truncated-package": {Kind: Network, Transient: true,
			Detail: "Inconsistent server data, reported file Content-Length: 1000000, repository metadata states file length: 17769667"},
		"no-repositories": {Kind: NoRepository, Detail: `There are no enabled repositories in "/tmp/none".`},
		"changed-meanwhile": {Kind: Changed, Transient: true,
			Detail: "runc < 99 conflicts with containerd.io-2.2.9-1.el9.x86_64"},
		"rpmdb-unreadable": {Kind: Other, Detail: "Error: Error: rpmdb open failed"},
	}
	files, err := filepath.Glob("testdata/dnf/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		t.Run(name, func(t *testing.T) {
			exit, out := captured(t, f)
			d := Dnf(exit, out)
			require.Equal(t, want[name], d)
			require.NotEmpty(t, d.Sentence())
			require.NotEmpty(t, d.Hint())
			require.NotContains(t, d.Sentence(), "\n")
		})
	}
}

func TestDnfSentencesOfOtherVersionsAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		exit int
		out  string
		kind Kind
	}{
		"P6 the lock file vanished":  {200, "[Errno 2] No such file or directory: '/var/cache/dnf/metadata_lock.pid'", Lock},
		"exit 200 without a word":    {200, "", Lock},
		"dnf waits for another":      {1, "Waiting for process with pid 4242 to finish.", Lock},
		"dnf 5 excluded":             {1, "Failed to resolve the transaction:\nArgument 'kubelet-1.35.4-*' matches only excluded packages.\n", Excluded},
		"dnf 5 no match":             {1, "Failed to resolve the transaction:\nNo match for argument: kubelet-1.35.9-*\n", NotFound},
		"a file conflict":            {1, "Error: Transaction test error:\n  file /usr/bin/runc from install of containerd.io-1.7.0-3.1.el9.x86_64 conflicts with file from package runc-4:1.1.12-4.el9.x86_64\n", Conflict},
		"P8 el9 podman":              {1, "Error: \n Problem: problem with installed package podman-2:4.9.4-18.el9_4.x86_64\n  - package podman-2:4.9.4-18.el9_4.x86_64 from @System requires runc >= 1.0.0-57, but none of the providers can be installed\n  - package containerd.io-1.7.24-3.1.el9.x86_64 from docker-ce-stable conflicts with runc provided by runc-4:1.2.4-2.el9.x86_64 from appstream\n", Conflict},
		"a hidden dependency":        {1, "Error: \n Problem: conflicting requests\n  - package kubernetes-cni-1.7.1-150500.1.1.x86_64 from kubernetes is filtered out by exclude filtering\n", Excluded},
		"an expired key":             {1, "error: Verifying a signature using certificate DE15B14486CD377B9E876E1A234654DA9A296436:\n  Key 234654DA9A296436 invalid: key is not alive\nProblem opening package kubelet\nError: GPG check FAILED", Signature},
		"metadata signature":         {1, "Error: Failed to download metadata for repo 'kubernetes': repomd.xml GPG signature verification error: Bad GPG signature", Signature},
		"a full disk in a scriptlet": {1, "error: unpacking of archive failed on file /usr/bin/kubelet;65: cpio: write failed - No space left on device", DiskFull},
		"a certificate":              {1, "Errors during downloading metadata for repository 'k':\n  - Curl error (60): SSL peer certificate or SSH remote key was not OK for https://k.example/repodata/repomd.xml [SSL certificate problem]\nError: Failed to download metadata for repo 'k': Cannot download repomd.xml", Network},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.kind, Dnf(c.exit, c.out).Kind)
		})
	}
}

func TestP1AnExcludedPackageIsCalledExcludedAndNotMissing(t *testing.T) {
	exit, out := captured(t, "testdata/dnf/excluded.txt")
	require.Contains(t, Dnf(exit, out).Sentence(), "kubelet-1.35.4-* is excluded")
	require.NotContains(t, Dnf(exit, out).Sentence(), "no enabled repository")
}

func TestP5ModulesOfAKernelThatTheRepositoriesHaveLeftBehindNeedAReboot(t *testing.T) {
	d := Dnf(1, "No match for argument: kernel-modules-extra-6.12.0-55.el10_0.x86_64\nError: Unable to find a match: kernel-modules-extra-6.12.0-55.el10_0.x86_64\n")
	require.Equal(t, NotFound, d.Kind)
	require.Contains(t, d.Hint(), "a reboot is required: the repositories have left kernel 6.12.0-55.el10_0.x86_64 behind")
}

func TestP8AConflictNamesBothAndSaysHowToHaveOneRemoved(t *testing.T) {
	exit, out := captured(t, "testdata/dnf/conflict.txt")
	d := Dnf(exit, out)
	require.Contains(t, d.Sentence(), "containerd.io-2.2.9-1.el9.x86_64 conflicts with runc-1.1.12-1.el9.noarch")
	require.Contains(t, d.Hint(), "list runc in spec.packages.remove")
}

func TestP8WhatATransactionWouldRemoveIsReadFromItsTable(t *testing.T) {
	b, err := os.ReadFile("testdata/would-remove.txt")
	require.NoError(t, err)
	require.Equal(t, []string{"podman", "runc"}, DnfRemovals(string(b)))
	require.Empty(t, DnfRemovals("Nothing to do.\n"))
}

func TestSuccessIsNoFailure(t *testing.T) {
	require.Equal(t, None, Dnf(0, "Nothing to do.\nComplete!\n").Kind)
}

func TestDnfProgressLinesBecomeShortTexts(t *testing.T) {
	for line, want := range map[string]string{
		"  Installing       : kubelet-1.35.4-150500.1.1.x86_64                       3/4 ": "installing kubelet-1.35.4-150500.1.1.x86_64 (3/4)",
		"(2/2): kubectl-1.35.4-150500.1.1.x86_64.rpm     408 MB/s |  17 MB     00:00    ":  "fetched kubectl-1.35.4-150500.1.1.x86_64 (2/2)",
		"Installing:": "",
		"  Verifying        : socat-1.7.4.4-1.el9.x86_64                             4/4 ": "",
		"Complete!": "",
	} {
		require.Equal(t, want, DnfProgress(line), line)
	}
}

func FuzzDnfAlwaysGivesAKindAndASentence(f *testing.F) {
	f.Add(1, "Error: \n Problem: x\n - package a conflicts with b provided by c\n")
	f.Add(200, "already locked by 99999999999999999999")
	f.Add(3, "")
	f.Fuzz(func(t *testing.T, exit int, out string) {
		d := Dnf(exit, out)
		if (d.Kind == None) != (exit == 0) || exit != 0 && d.Sentence() == "" {
			t.Fatalf("%+v", d)
		}
		DnfRemovals(out)
		DnfProgress(out)
	})
}

func TestOfTwoSkippedRepositoriesTheOneThatMayComeBackIsNamed(t *testing.T) {
	_, gone := captured(t, "testdata/dnf/skipped-repository-for-good.txt")
	exit, down := captured(t, "testdata/dnf/skipped-repository.txt")
	d := Dnf(exit, gone+down)
	require.Equal(t, Network, d.Kind)
	require.Equal(t, "kubernetes", d.Where)
}
