package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the tests against a real dnf need: small signed packages, and a tree
// with dnf that is thrown away.

// pkg is one package with one file.
type pkg struct{ name, version, tags string }

// testPackages are small stand-ins with the relations of the real ones.
var testPackages = map[string][]pkg{
	"kubernetes": {
		{"kubelet", "1.34.2", "Requires: kubernetes-cni"}, {"kubelet", "1.35.4", "Requires: kubernetes-cni"},
		{"kubeadm", "1.35.4", ""}, {"kubernetes-cni", "1.8.0", ""},
	},
	"runtime": {
		{"containerd.io", "2.2.9", "Conflicts: runc < 99\nConflicts: podman"}, {"runc", "1.1.12", ""}, {"podman", "4.9.4", "Requires: runc"},
		{"iptables-nft", "1.8.10", "Provides: iptables = 1.8.10"}, {"broken", "1.0", "Requires: libnothere.so.1"},
	},
	"unsigned": {{"unsigned", "1.0", ""}},
}

func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

func buildPackage(t *testing.T, top, out string, p pkg) {
	t.Helper()
	spec := filepath.Join(top, p.name+".spec")
	text := fmt.Sprintf("%%global debug_package %%{nil}\nName: %s\nVersion: %s\nRelease: 1.el9\nSummary: test\nLicense: MIT\nBuildArch: noarch\n%s\n%%description\ntest\n"+
		"%%install\nmkdir -p %%{buildroot}/usr/share/%[1]s\necho %[1]s %[2]s >%%{buildroot}/usr/share/%[1]s/version\n%%files\n/usr/share/%[1]s/version\n", p.name, p.version, p.tags)
	require.NoError(t, os.WriteFile(spec, []byte(text), 0o644))
	run(t, nil, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+top, "--define", "_rpmdir "+out, "--define", "_rpmfilename %{NAME}-%{VERSION}.rpm", spec)
}

// newSigningKey makes a key ring with one key and exports its public key.
func newSigningKey(t *testing.T, dir, name string) string {
	t.Helper()
	home := filepath.Join(dir, "ring-"+name)
	require.NoError(t, os.Mkdir(home, 0o700))
	env := []string{"GNUPGHOME=" + home}
	t.Cleanup(func() { exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	run(t, env, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", name, "rsa2048", "sign", "never")
	run(t, env, "gpg", "--batch", "--armor", "--output", filepath.Join(dir, name+".asc"), "--export", name)
	return home
}

func sign(t *testing.T, home, name, dir string) {
	t.Helper()
	rpms, err := filepath.Glob(dir + "/*.rpm")
	require.NoError(t, err)
	args := append([]string{"--addsign", "--define", "_gpg_name " + name, "--define", "_gpg_path " + home, "--define", "__gpg /usr/bin/gpg"}, rpms...)
	run(t, []string{"GNUPGHOME=" + home}, "rpmsign", args...)
}

// buildRepositories fills dir with one directory per repository. "kubernetes"
// and "runtime" are signed by the key "first"; "rotated" holds the packages
// of "kubernetes" signed by "second".
func buildRepositories(t *testing.T, dir string) {
	t.Helper()
	top := t.TempDir()
	first, second := newSigningKey(t, dir, "first"), newSigningKey(t, dir, "second")
	for repo, packages := range testPackages {
		for _, p := range packages {
			buildPackage(t, top, filepath.Join(dir, repo), p)
		}
	}
	run(t, nil, "cp", "-a", filepath.Join(dir, "kubernetes"), filepath.Join(dir, "rotated"))
	sign(t, first, "first", filepath.Join(dir, "kubernetes"))
	sign(t, first, "first", filepath.Join(dir, "runtime"))
	sign(t, second, "second", filepath.Join(dir, "rotated"))
	for _, repo := range []string{"kubernetes", "runtime", "rotated", "unsigned"} {
		run(t, nil, "createrepo_c", "--quiet", filepath.Join(dir, repo))
	}
}

// The environment of the tests against a real dnf.
const (
	// dnfTree names a directory with a system that has dnf and rpm. It is used
	// below an overlay and not changed.
	dnfTree = "NODEAGENT_TEST_DNF_TREE"
	// dnfInside is set in the throw-away root.
	dnfInside = "NODEAGENT_TEST_DNF_INSIDE"
)

// enterThrowAwayRoot runs this very test again inside an overlay of the tree,
// with mounts and processes of its own, and reports its outcome.
func enterThrowAwayRoot(t *testing.T) {
	t.Helper()
	tree := os.Getenv(dnfTree)
	if tree == "" {
		t.Skip(dnfTree + " names no tree with dnf and rpm in it: the real dnf isn't asked")
	}
	for _, program := range []string{"rpmbuild", "rpmsign", "createrepo_c", "gpg", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is missing: the real dnf isn't asked")
		}
	}
	dir := t.TempDir()
	for _, d := range []string{"upper", "work", "root", "repos"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	buildRepositories(t, filepath.Join(dir, "repos"))
	run(t, nil, "cp", os.Args[0], filepath.Join(dir, "repos", "host.test"))
	script := `set -e
mount --make-rprivate /
mount -t overlay test -o lowerdir="$TREE",upperdir="$DIR/upper",workdir="$DIR/work" "$DIR/root"
mkdir -p "$DIR/root/srv/repos"
cp -a "$DIR/repos/." "$DIR/root/srv/repos/"
mkdir -p "$DIR/root/etc/yum.repos.d" "$DIR/root/etc/pki/rpm-gpg"
mount -t proc proc "$DIR/root/proc"
mount --rbind /dev "$DIR/root/dev"
exec chroot "$DIR/root" /srv/repos/host.test -test.run "^$TEST\$" -test.v`
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "DIR="+dir, "TREE="+tree, "TEST="+t.Name(), dnfInside+"=1", "HOME=/root")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(out), "--- PASS: "+t.Name()), "it ran")
}
