package vm_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// etcContents are the sums of all files in /etc, which tell what times and sizes
// don't.
const etcContents = `find /etc -type f ! -path '/etc/firewalld/zones/*' -exec sha256sum {} + | sort -k 2; cat /proc/sys/kernel/hostname`

// sameHost reports what a reset left that isn't on the documented list.
func sameHost(t *testing.T, before, after lab.Snapshot, contentsBefore, contentsAfter string, stays *regexp.Regexp) {
	t.Helper()
	before.Rules, after.Rules = deciding(before.Rules), deciding(after.Rules)
	before.Units, after.Units = columns(before.Units), columns(after.Units)
	if before.Rules != after.Rules {
		t.Logf("rules before:\n%s\nafter:\n%s", before.Rules, after.Rules)
	}
	for _, c := range before.WithoutTimes().Changes(after.WithoutTimes()) {
		if !stays.MatchString(c) {
			t.Error(c)
		}
	}
	for line := range strings.Lines(contentsBefore) {
		if !strings.Contains(contentsAfter, line) {
			t.Errorf("its content was %s", line)
		}
	}
}

// What a reset leaves of others' rules that decides nothing: chains that firewalld
// made for the zone trusted and that no rule leads to, and what iptables made
// when kubelet first used a table: base chains that accept, and their tables.
var (
	idleChain = regexp.MustCompile(`(?m)^\tchain \w+_trusted(_\w+)? \{\n(\t\t.*\n)*\t\}\n`)
	baseChain = regexp.MustCompile(`(?m)^\tchain [A-Z]+ \{\n\t\ttype .* policy accept;\n\t\}\n`)
	noTable   = regexp.MustCompile(`(?m)^table \S+ \S+ \{\n\}\n`)
	noRules   = regexp.MustCompile(`(?m)^\*\w+\n(:\S+ ACCEPT ?\n)*COMMIT\n`)
	blank     = regexp.MustCompile(`(?m)^\s*\n`)
)

func deciding(rules string) string {
	for _, r := range []*regexp.Regexp{blank, idleChain, baseChain, noTable, noRules} {
		rules = r.ReplaceAllString(rules, "")
	}
	return strings.TrimSpace(rules)
}

// columns writes tables without their widths.
func columns(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
}

// staysInContainer is that list for steps without packages, disks and a join.
var staysInContainer = regexp.MustCompile(`^new /var/lib/nodeagent|^new /etc/firewalld/zones/|^(new|changed) /var/cache|rpmdb|\.nodeagent`)

// TestResetAtNativeSpeed takes back the steps that a container can carry.
func TestResetAtNativeSpeed(t *testing.T) {
	l := needLAN(t)
	ctx := t.Context()
	c, err := l.StartContainer(ctx, lab.Rocky9, "container3")
	check(t, err)
	defer c.Close()
	check(t, c.CopyIn(ctx, lab.File{Path: lab.Binary, Mode: 0o755, From: binary(t)},
		lab.File{Path: "/etc/lab-public", Mode: 0o644, Content: "as installed\n"}, lab.File{Path: "/etc/lab-secret", Mode: 0o600, Content: "password=old"},
		lab.File{Path: "/etc/fstab", Content: "# made at installation\n/srv/none none swap noauto,nofail 0 0"},
		lab.File{Path: "/etc/systemd/system/srv-other.swap", Content: "[Swap]\nWhat=/srv/other\n[Install]\nWantedBy=lab.target\n"},
		lab.File{Path: "/etc/nodeagent/config.yaml", Mode: 0o600, Content: `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: prdk8snod009
  kubernetes: {version: v1.34.4}
  firewall: {cni: cilium, allow: ["30000-32767/tcp", "30000-32767/udp"], trustedSources: ["10.244.0.0/16"]}
  files:
  - {path: /etc/lab-public, permissions: "0644", content: "a worker\n"}
  - {path: /etc/lab-secret, permissions: "0600", content: "password=new"}
  - {path: /etc/lab/new/file, content: "a worker\n"}
  - {path: /etc/lab-changed, content: "a worker\n"}
  join: {token: {file: /etc/nodeagent/join-command}}
`}))
	must(c.Run(ctx, "rm /etc/systemd/system/swap.target.wants/srv-swapfile.swap; systemctl daemon-reload; systemctl enable srv-other.swap; until firewall-cmd --state; do :; done 2>/dev/null; rpm -qa >/dev/null"))(t)
	run := func(args string, want int) (lastRun, string) {
		t.Helper()
		start := time.Now()
		r := must(c.Exec(ctx, "nodeagent "+args))(t)
		if r.Code != want {
			t.Fatalf("nodeagent %s: exit %d, want %d\n%s%s", args, r.Code, want, r.Stdout, r.Stderr)
		}
		var last lastRun
		if i := strings.Index(r.Stdout, "{"); i >= 0 {
			check(t, json.Unmarshal([]byte(r.Stdout[i:]), &last))
		}
		t.Logf("nodeagent %s: %d changes in %.2f s", args, last.Changes, time.Since(start).Seconds())
		return last, r.Stdout + r.Stderr
	}
	const up = "up --until firewall --skip packages --skip disks --skip kernel -o json"
	must(c.Run(ctx, foreignRules))(t)
	before, sums := must(c.Snapshot(ctx))(t), must(c.Run(ctx, etcContents))(t)
	foreign := must(c.Run(ctx, showForeignRules))(t)
	for round := range 2 {
		if last, _ := run(up, converged); last.Changes == 0 {
			t.Fatal("nothing to take back")
		}
		if out := must(c.Run(ctx, "! grep -r password= /var/lib/nodeagent/journal.jsonl /var/lib/nodeagent/last-run.json; stat -c '%a %U' /var/lib/nodeagent/saved/*"))(t); strings.TrimSpace(out) != "600 root" {
			t.Errorf("the copy of the secret file: %s", out)
		}
		must(c.Run(ctx, "echo mine >/etc/lab-changed"))(t)
		dry := must(c.Exec(ctx, "nodeagent reset --dry-run"))(t)
		t.Log(dry.Stdout)
		if dry.Code != pending || strings.Contains(dry.Stdout, "password=") {
			t.Errorf("dry run: exit %d\n%s", dry.Code, dry.Stderr)
		}
		run("reset", refused) // nobody is asked without a terminal
		last, out := run("reset --yes -o json", converged)
		if last.Changes == 0 || !strings.Contains(out, "/etc/lab-changed was changed since") {
			t.Errorf("%d changes: %s", last.Changes, out)
		}
		if last, _ := run("reset --yes -o json", converged); last.Changes != 0 {
			t.Errorf("a second reset made %d changes", last.Changes)
		}
		if now := must(c.Run(ctx, showForeignRules))(t); now != foreign {
			t.Errorf("rules of others, now:\n%s\nbefore:\n%s", now, foreign)
		}
		must(c.Run(ctx, "grep -qx mine /etc/lab-changed; rm /etc/lab-changed"))(t)
		sameHost(t, before, must(c.Snapshot(ctx))(t), sums, must(c.Run(ctx, etcContents))(t), staysInContainer)
		if t.Failed() {
			t.Fatalf("after round %d", round+1)
		}
	}
}

// staysOnNode is the documented list (docs/reset.md) for a whole node: packages
// and what they brought, data disks and their mounts, records.
var staysOnNode = regexp.MustCompile(`^new /(usr|opt|var/lib/(containerd|kubelet|cni|nodeagent|rpm|dnf|kubeadm|nfs|rpcbind|gssproxy)|var/cache|srv/lab|etc/(cni|containerd|crictl|kubernetes|sysconfig|pki/rpm-gpg|firewalld/zones|dnf|crypto))` +
	`|^(changed|removed) /(usr/(share|lib)/(info|rpm|locale|sysimage)|var/(lib/(rpm|dnf|systemd)|cache)|etc/ld\.so\.cache)` +
	`|^new /etc/systemd/system/(var-lib-\S+\.mount|(kubelet|containerd)\.service\.d|local-fs\.target\.wants)` +
	`|^mounts differ: now "(/var/lib/(kubelet|containerd) \S+ xfs \S+\\n)+", before ""$|rpmdb`)

// TestReset takes a node out of its cluster and gives the host back, then joins
// it again.
func TestReset(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	const name = "prdk8snod006"
	g := newGuest(t, l, lab.Rocky9, name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(binary(t), config, join), lab.CNIConfig)...)
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	const sysctls = "cd /proc/sys; grep . net/ipv4/ip_forward vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops"
	must(g.Run(ctx, "nodeagent version; rpm -qa >/dev/null"))(t)
	must(g.Run(ctx, foreignRules))(t)
	before, sums, values := must(g.Snapshot(ctx))(t), must(g.Run(ctx, etcContents))(t), must(g.Run(ctx, sysctls))(t)
	if !strings.Contains(before.Swaps, "/var/swap.img") || !strings.Contains(before.Swaps, "/srv/swapfile") {
		t.Fatalf("the host isn't stock: %s", before.Swaps)
	}

	step := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}
	joined := func(t *testing.T) {
		if _, code := up(t, g, ""); code != converged {
			t.Fatalf("exit %d; last run: %+v", code, lastRunOf(t, g))
		}
		if !must(nodeOf(ctx, l, name))(t).ready() {
			t.Error("not Ready")
		}
	}
	step("the host joins, and a pod runs on it", func(t *testing.T) {
		joined(t)
		check(t, g.ImportImages(ctx))
		check(t, l.Apply(ctx, podManifest("reset-net", name, "false")))
		check(t, l.WaitPod(ctx, "reset-net", 2*time.Minute))
		must(g.Run(ctx, "findmnt --list --noheadings --output TARGET | grep -c ^/var/lib/kubelet/pods/; ip link show cni0; iptables-nft-save | grep -c '^:\\(KUBE\\|CNI\\)-'"))(t)
	})
	step("a dry run tells all and changes nothing", func(t *testing.T) {
		was := must(g.Run(ctx, etcContents+"; cat /proc/swaps; ls -R /var/lib/kubelet | head -50"))(t)
		r := must(g.Exec(ctx, "nodeagent reset --dry-run"))(t)
		t.Log(r.Stdout)
		if r.Code != pending || !strings.Contains(r.Stdout, "kubectl drain "+name) {
			t.Errorf("exit %d: %s", r.Code, r.Stderr)
		}
		if now := must(g.Run(ctx, etcContents+"; cat /proc/swaps; ls -R /var/lib/kubelet | head -50"))(t); now != was {
			t.Error("the host is another")
		}
	})
	step("reset gives the host back", func(t *testing.T) {
		must(g.Run(ctx, "echo data >/var/lib/kubelet/mine; echo data >/var/lib/containerd/mine"))(t)
		r := must(g.Exec(ctx, "nodeagent reset --yes"))(t)
		t.Log(r.Stderr, r.Stdout)
		if r.Code != converged {
			t.Fatalf("exit %d", r.Code)
		}
		for _, c := range []string{"kubelet", "containerd", "containerd-shim-runc-v2", "pod"} {
			if r := must(g.Exec(ctx, "pgrep -lx "+c[:min(len(c), 15)]))(t); r.Code == 0 {
				t.Errorf("still runs: %s", r.Stdout)
			}
		}
		must(g.Run(ctx, `test "$(cat /var/lib/kubelet/mine /var/lib/containerd/mine)" = "data
data"; rm /var/lib/kubelet/mine /var/lib/containerd/mine; ! test -e /etc/kubernetes/kubelet.conf; ! test -e /var/lib/kubelet/pods; ! test -e /var/lib/kubelet/pki; ! ip link show cni0`))(t)
		after := must(g.Snapshot(ctx))(t)
		// Units that came with packages are there, and off.
		for line := range strings.Lines(after.Units) {
			if f := strings.Fields(line); !strings.Contains(before.Units, f[0]+" ") {
				if len(f) > 1 && strings.HasPrefix(f[1], "enabled") && !strings.HasSuffix(f[0], ".mount") {
					t.Errorf("new and enabled: %s", line)
				}
				after.Units = strings.Replace(after.Units, line, "", 1)
			}
		}
		sameHost(t, before, after, sums, must(g.Run(ctx, etcContents))(t), staysOnNode)
		if now := must(g.Run(ctx, sysctls))(t); now != values {
			t.Errorf("sysctls are\n%s, were\n%s", now, values)
		}
		checkMounts(t, g, twoXFS)
	})
	step("a second reset changes nothing", func(t *testing.T) {
		r := must(g.Exec(ctx, "nodeagent reset --yes"))(t)
		if last := lastRunOf(t, g); r.Code != converged || last.Changes != 0 {
			t.Errorf("exit %d, %+v", r.Code, last)
		}
	})
	step("up joins it again", func(t *testing.T) {
		must(l.Kubectl(ctx, "delete", "node", name))(t)
		joined(t)
	})
	step("reset without disks and packages", func(t *testing.T) {
		r := must(g.Exec(ctx, "nodeagent reset --yes --forget-disks --remove-packages"))(t)
		t.Log(r.Stderr, r.Stdout)
		if r.Code != converged {
			t.Fatalf("exit %d", r.Code)
		}
		must(g.Run(ctx, "! rpm -q kubelet; ! rpm -q containerd.io; ! findmnt /var/lib/kubelet; ! findmnt /var/lib/containerd; ! ls /etc/systemd/system/var-lib-*.mount"))(t)
		must(g.Run(ctx, "blkid -L kubelet; blkid -L containerd"))(t)
		check(t, g.Reboot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		if now := must(g.Run(ctx, "sort /proc/swaps | cut -f1-3"))(t); sortedAreas(now) != sortedAreas(before.Swaps) {
			t.Errorf("swap after a reboot: %s, was: %s", now, before.Swaps)
		}
	})
	step("and up makes it a node once more, with the data disks as they are", func(t *testing.T) {
		must(l.Kubectl(ctx, "delete", "node", name))(t)
		joined(t)
		for _, s := range lastRunOf(t, g).Steps {
			for _, c := range s.Changes {
				if strings.HasPrefix(c, "FORMAT") {
					t.Error(c)
				}
			}
		}
	})
}

// sortedAreas are the paths of /proc/swaps.
func sortedAreas(swaps string) string {
	var out []string
	for line := range strings.Lines(swaps) {
		if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], "/") {
			out = append(out, f[0])
		}
	}
	return fmt.Sprint(out)
}
