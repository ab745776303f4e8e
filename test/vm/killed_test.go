package vm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// killedConfig is all that a container can carry of a worker's configuration:
// packages, swap, files, firewall, containerd, kubelet, by the real programs.
const killedConfig = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: %s
  kubernetes: {version: v1.35.4}
  packages:
    repositories:
    - {id: kubernetes, name: Kubernetes, baseURL: "file:///srv/repos/kubernetes/", gpgKeys: ["file:///srv/repos/kubernetes/repodata/repomd.xml.key"], exclude: [kubelet, kubeadm, kubectl, cri-tools, kubernetes-cni]}
    - {id: containerd, name: containerd, baseURL: "file:///srv/repos/containerd/", gpgKeys: ["file:///srv/repos/containerd/repodata/repomd.xml.key"]}
    install: [nfs-utils]
  runtime: {source: package, package: containerd.io, sandboxImage: "registry.lab.test/pause:1"}
  firewall: {cni: cilium, allow: ["30000-32767/tcp", "30000-32767/udp"]}
  network: {defaultRoute: {family: none}}
  kubelet: {config: {maxPods: 55, failCgroupV1: false}, labels: {type: physical}}
  files:
  - {path: /etc/motd, content: "a worker\n"}
  - {path: /etc/lab/secret, permissions: "0600", content: "not for everybody\n"}
  join: {endpoint: "192.0.2.1:6443", token: {file: /etc/nodeagent/join-command}}
`

// killedUp is the run that is killed: all steps before the join but those that
// need a kernel or disks of their own.
const killedUp = "nodeagent up --until kubelet --skip kernel --skip disks"

// killedHost is a container that is ready for killedUp.
func killedHost(t *testing.T, l *lab.Lab, name string) *lab.Container {
	t.Helper()
	const host = "worker" // the same for all, for it is part of the end state
	repo := "[baseos]\nname=BaseOS\nbaseurl=file:///srv/repos/base/\ngpgcheck=1\nenabled=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9\n"
	c, err := l.StartContainerWith(t.Context(), lab.Rocky9, name, lab.ContainerOptions{Repositories: true, Files: []lab.File{
		{Path: "/etc/hostname", Content: "localhost\n"},
		{Path: "/etc/machine-id", Mode: 0o444, Content: "4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b\n"},
		{Path: "/etc/fstab", Content: "# made at installation\n/var/swap.img\tnone\tswap\tdefaults\t0\t0\nLABEL=swapdata /srv/swap xfs noauto 0 0"},
		{Path: "/etc/yum.repos.d/rocky.repo", Content: repo},
		{Path: lab.Binary, Mode: 0o755, From: binary(t)},
		{Path: lab.ConfigFile, Mode: 0o600, Content: fmt.Sprintf(killedConfig, host)},
		{Path: lab.TokenFile, Mode: 0o600, Content: "kubeadm join 192.0.2.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:" + strings.Repeat("0", 64) + "\n"},
	}})
	check(t, err)
	t.Cleanup(c.Close)
	must(c.Exec(t.Context(), "until firewall-cmd --state; do sleep 0.1; done"))(t)
	return c
}

// passing is what isn't part of the end state: caches, logs, histories, times,
// and what a run writes about itself.
var passing = []string{"/run", "/tmp", "/var/tmp", "/var/cache", "/var/log", "/var/lib/systemd", "/var/lib/dnf", "/var/lib/rpm", "/var/lib/nodeagent",
	"/var/lib/containerd", "/var/lib/NetworkManager", "/var/lib/private", "/root/.gnupg", "/root/.rpmdb", "/etc/.updated", "/var/.updated"}

// endState is everything that was written to a container, by path, and what its
// package database, units and firewall say.
func endState(t *testing.T, c *lab.Container) string {
	t.Helper()
	var lines []string
	check(t, filepath.WalkDir(c.Written(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, c.Written())
		for _, p := range passing {
			if rel == p {
				return fs.SkipDir
			}
		}
		info, err := e.Info()
		if err != nil || e.IsDir() || strings.HasSuffix(rel, ".pyc") {
			return err
		}
		what := ""
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			what = fmt.Sprintf("%d %s", len(b), hex.EncodeToString(sum[:8]))
		case info.Mode()&fs.ModeSymlink != 0:
			what, err = os.Readlink(path)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", rel, info.Mode(), what))
		return err
	}))
	sort.Strings(lines)
	r := must(c.Exec(t.Context(), `rpm -qa | sort; rpm -Va | grep -v /var/lib/dnf; rpm -qa gpg-pubkey | sort
systemctl list-unit-files --no-legend --no-pager; systemctl is-active containerd
firewall-cmd --list-all; firewall-cmd --permanent --list-all; hostname; ls /run/nodeagent`))(t)
	return strings.Join(lines, "\n") + "\n" + r.Stdout
}

// TestKilledAtRandomMomentsOnARealHost kills runs again and again: the process
// alone, so that a package manager goes on without it, or with all its children.
// The run after that must end as an undisturbed one does.
func TestKilledAtRandomMomentsOnARealHost(t *testing.T) {
	l := needLAN(t)
	rounds, wanted := 2, 20
	if lab.Whole() {
		rounds, wanted = 40, 200
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("NODEAGENT_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("NODEAGENT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	undisturbed := killedHost(t, l, "undisturbed")
	start := time.Now()
	r := must(undisturbed.Exec(t.Context(), killedUp))(t)
	if r.Code != converged {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	took := time.Since(start)
	t.Logf("an undisturbed run took %.1f s", took.Seconds())
	want := endState(t, undisturbed)
	undisturbed.Close()

	kills := 0
	for round := 0; kills < wanted; round++ {
		if round == 3*rounds {
			t.Fatalf("only %d kills in %d rounds", kills, round)
		}
		c := killedHost(t, l, fmt.Sprintf("killed%d", round))
		for range 12 {
			target, group := "$run", random.IntN(2) == 0
			if group {
				target = "-$run"
			}
			delay := time.Duration(random.Int64N(int64(took / 3)))
			// With job control a background job leads a process group; the programs
			// that nodeagent starts lead their own.
			script := fmt.Sprintf(`set -m
%s >/tmp/out 2>&1 & run=$!
sleep %.3f
kill -0 $run 2>/dev/null || exit 9
if [ %t = true ]; then children=$(ps -o pid= --ppid $run); fi
kill -KILL %s $children 2>/dev/null
for c in $children; do kill -KILL -$c 2>/dev/null; done
wait $run
exit 0`, killedUp, delay.Seconds(), group, target)
			r := must(c.Exec(t.Context(), script))(t)
			if r.Code == 9 {
				break // the run was done before
			}
			if r.Code != 0 {
				t.Fatalf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			kills++
		}
		r := must(c.Exec(t.Context(), killedUp))(t)
		if r.Code != converged {
			t.Fatalf("round %d: exit %d: %s", round, r.Code, r.Stderr)
		}
		if got := endState(t, c); got != want {
			t.Fatalf("round %d ends in another state:\n%s", round, difference(want, got))
		}
		again := must(c.Exec(t.Context(), killedUp+" -o json"))(t)
		if again.Code != converged || !strings.Contains(again.Stdout, `"changes": 0`) {
			t.Fatalf("round %d: the next run exits with %d: %s", round, again.Code, again.Stdout)
		}
		c.Close()
		check(t, os.RemoveAll(filepath.Dir(c.Root)))
	}
	t.Logf("%d kills", kills)
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	lines := func(s string) map[string]bool {
		m := map[string]bool{}
		for _, l := range strings.Split(s, "\n") {
			m[l] = true
		}
		return m
	}
	var out []string
	a, b := lines(want), lines(got)
	for l := range a {
		if !b[l] {
			out = append(out, "missing: "+l)
		}
	}
	for l := range b {
		if !a[l] {
			out = append(out, "extra:   "+l)
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}
