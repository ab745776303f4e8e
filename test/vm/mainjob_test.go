package vm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

const hostName = "prdk8snod001"

// foreignRules are what a network plugin and kube-proxy leave on a node, in both
// forms. They aren't ours to touch.
const foreignRules = `set -e
nft -f - <<'EOF'
table ip lab-cni {
	chain forward {
		type filter hook forward priority filter + 10; policy accept;
		ip saddr 10.244.0.0/16 counter accept comment "cni pods"
	}
}
table ip6 lab-cni {
	set pods {
		type ipv6_addr
		elements = { 2001:db8::1 }
	}
}
EOF
iptables -t nat -N KUBE-LAB-SERVICES
iptables -t nat -A KUBE-LAB-SERVICES -d 10.96.0.10/32 -p udp -m udp --dport 53 -m comment --comment "kube-system/dns" -j RETURN
iptables -t nat -A PREROUTING -m comment --comment "lab service portals" -j KUBE-LAB-SERVICES
iptables -N KUBE-LAB-FORWARD
iptables -A KUBE-LAB-FORWARD -m conntrack --ctstate INVALID -j DROP
iptables -A FORWARD -m comment --comment "lab forwarding" -j KUBE-LAB-FORWARD
`

// showForeignRules prints exactly those, without counters.
const showForeignRules = `nft --stateless list table ip lab-cni; nft --stateless list table ip6 lab-cni
iptables-nft-save | grep -e KUBE-LAB -e 'lab ' | sed 's/\[[0-9:]*\]//'`

// TestMainJob takes a stock Rocky 9 type host to a Ready worker and through what
// happens to it afterwards. Its subtests are one story: each needs the one before.
func TestMainJob(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	bin := binary(t)
	g := newGuest(t, l, lab.Rocky9, hostName)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: hostName, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(bin, config, join), lab.CNIConfig)...)
	g.LateLease = true
	check(t, g.Boot(ctx))
	check(t, g.LeaseAfterFirstAsk(ctx, 15*time.Second))
	check(t, g.WaitSSH(ctx, 5*time.Minute))

	foreign := ""
	step := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}

	step("the host is stock: swap on from fstab and from a unit, firewalld running, two blank disks without ids", func(t *testing.T) {
		out := must(g.Run(ctx, "cat /proc/swaps; firewall-cmd --state; lsblk --nodeps --noheadings --output NAME,SERIAL,FSTYPE,PTTYPE; ls /dev/disk/by-id || true"))(t)
		t.Log(out)
		for _, want := range []string{"/var/swap.img", "/srv/swapfile", "running"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s is missing", want)
			}
		}
		must(g.Run(ctx, foreignRules))(t)
		foreign = must(g.Run(ctx, showForeignRules))(t)
	})

	step("plan exits 3 and changes nothing", func(t *testing.T) {
		// The first commands on a fresh host fill caches of their own.
		must(g.Exec(ctx, "nodeagent version; rpm -qa"))(t)
		before := must(g.Snapshot(ctx))(t)
		p, code := planOf(t, g)
		after := must(g.Snapshot(ctx))(t)
		if code != pending {
			t.Errorf("exit %d, want %d", code, pending)
		}
		if len(p.Blocked) > 0 {
			t.Errorf("blocked: %+v", p.Blocked)
		}
		if len(p.changes()) == 0 {
			t.Error("the plan is empty")
		}
		for _, c := range before.Changes(after) {
			t.Error(c)
		}
		must(g.Run(ctx, "! test -e /run/nodeagent"))(t)
		text := must(g.Exec(ctx, "nodeagent plan"))(t)
		t.Log(text.Stdout)
		if strings.Contains(text.Stdout+text.Stderr, tokenSecret(t, join)) {
			t.Error("the plan shows the token")
		}
	})

	session := must(g.OpenSession(ctx))(t)
	defer session.Close()

	step("up exits 0", func(t *testing.T) {
		peak := peakMemory(t, g)
		_, code := up(t, g, "")
		t.Logf("peak memory %.1f MiB", peak())
		if code != converged {
			t.Fatalf("exit %d; last run: %+v", code, lastRunOf(t, g))
		}
		for _, s := range lastRunOf(t, g).Steps {
			t.Logf("%-12s %6.1f s, %d changes", s.Name, s.Took.Seconds(), len(s.Changes))
		}
	})

	step("the ssh connection was never cut", func(t *testing.T) { check(t, session.Check()) })

	step("the node is Ready with its label, taint, version and address", func(t *testing.T) {
		n := must(nodeOf(ctx, l, hostName))(t)
		if !n.ready() {
			t.Error("not Ready")
		}
		if got := n.Metadata.Labels["type"]; got != "physical" {
			t.Errorf("label type is %q", got)
		}
		if taints := fmt.Sprint(n.Spec.Taints); !strings.Contains(taints, "{dedicated lab NoSchedule}") {
			t.Errorf("taints are %s", taints)
		}
		if got := n.Status.NodeInfo.KubeletVersion; got != "v1.35.4" {
			t.Errorf("kubelet is %s", got)
		}
		if addresses := fmt.Sprint(n.Status.Addresses); !strings.Contains(addresses, "{InternalIP "+g.Addr+"}") {
			t.Errorf("addresses are %s", addresses)
		}
	})

	step("kubelet's config.yaml and flags hold what was asked", func(t *testing.T) {
		conf := must(g.Run(ctx, "cat /var/lib/kubelet/config.yaml"))(t)
		for _, want := range []string{"protectKernelDefaults: true", "maxPods: 55", "resolvConf: /etc/resolv.conf"} {
			if !strings.Contains(conf, want) {
				t.Errorf("config.yaml lacks %q:\n%s", want, conf)
			}
		}
		flags := must(g.Run(ctx, "cat /var/lib/kubelet/kubeadm-flags.env"))(t)
		if !strings.Contains(flags, "--node-ip="+g.Addr) {
			t.Errorf("flags are %s", flags)
		}
	})

	step("containerd and kubelet live on their disks", func(t *testing.T) { checkMounts(t, g, twoXFS) })

	step("a pod runs, and logs and exec reach it through port 10250", func(t *testing.T) {
		check(t, g.ImportImages(ctx))
		check(t, l.Apply(ctx, podManifest("pod-net", hostName, "false")+"---\n"+podManifest("host-net", hostName, "true")))
		check(t, l.WaitPod(ctx, "pod-net", 2*time.Minute))
		check(t, l.WaitPod(ctx, "host-net", 2*time.Minute))
		if out := must(l.Kubectl(ctx, "logs", "pod-net"))(t); !strings.Contains(out, "serving on :30080") {
			t.Errorf("logs say %q", out)
		}
		if out := must(l.Kubectl(ctx, "exec", "pod-net", "--", "/pod", "cat", "/etc/resolv.conf"))(t); !strings.Contains(out, "nameserver 192.0.2.1") {
			t.Errorf("the pod's resolv.conf is %q", out)
		}
	})

	step("a port in the NodePort range answers from the LAN, one that wasn't opened doesn't", func(t *testing.T) { checkPorts(t, g) })

	step("rules of others are as they were", func(t *testing.T) {
		if now := must(g.Run(ctx, showForeignRules))(t); now != foreign {
			t.Errorf("now:\n%s\nbefore:\n%s", now, foreign)
		}
	})

	step("a second up makes no change and exits 0", func(t *testing.T) {
		before := must(g.Snapshot(ctx))(t)
		start := time.Now()
		_, code := up(t, g, "")
		t.Logf("a run that changes nothing took %.2f s", time.Since(start).Seconds())
		if code != converged {
			t.Fatalf("exit %d", code)
		}
		last := lastRunOf(t, g)
		if last.Changes != 0 || last.Result != "converged" {
			t.Errorf("last run: %+v", last)
		}
		after := must(g.Snapshot(ctx))(t)
		for _, c := range before.Changes(after) {
			if !ownRecord(c) && !runtimeState(c) {
				t.Error(c)
			}
		}
	})

	step("plan afterwards exits 0", func(t *testing.T) {
		if p, code := planOf(t, g); code != converged || len(p.changes()) > 0 || len(p.Blocked) > 0 {
			t.Errorf("exit %d, plan %+v", code, p)
		}
	})

	step("the token is in no file, log, journal or process list", func(t *testing.T) { checkNoToken(t, g, tokenSecret(t, join)) })

	step("the ssh connection still wasn't cut", func(t *testing.T) { check(t, session.Check()) })

	step("after a reboot with the disks in another order the node is Ready again", func(t *testing.T) {
		session.Close()
		g.SwapDisks()
		g.LateLease = false
		start := time.Now()
		check(t, g.Reboot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		waitReadyAgain(t, l, g)
		t.Logf("Ready %.1f s after the reboot began", time.Since(start).Seconds())
	})

	step("swap is off, both mounts are right and the ports answer after the reboot", func(t *testing.T) {
		if out := must(g.Run(ctx, "tail -n +2 /proc/swaps"))(t); out != "" {
			t.Errorf("swap is on: %s", out)
		}
		checkMounts(t, g, twoXFS)
		check(t, l.WaitPod(ctx, "host-net", 3*time.Minute))
		checkPorts(t, g)
	})

	step("plan and up have nothing to do after the reboot", func(t *testing.T) {
		if p, code := planOf(t, g); code != converged || len(p.changes()) > 0 {
			t.Errorf("exit %d, plan %+v", code, p)
		}
		if _, code := up(t, g, ""); code != converged || lastRunOf(t, g).Changes != 0 {
			t.Errorf("exit %d, last run %+v", code, lastRunOf(t, g))
		}
	})
}

// waitReadyAgain waits until the API server has heard of the guest's present
// boot that it is Ready.
func waitReadyAgain(t *testing.T, l *lab.Lab, g *lab.Guest) {
	t.Helper()
	boot := strings.TrimSpace(must(g.Run(t.Context(), "cat /proc/sys/kernel/random/boot_id"))(t))
	check(t, lab.WaitFor(t.Context(), "the node to be Ready in its new boot", 5*time.Minute, func(ctx context.Context) error {
		n, err := nodeOf(ctx, l, g.Name)
		if err == nil && (n.Status.NodeInfo.BootID != boot || !n.ready()) {
			err = fmt.Errorf("boot %s, ready %t", n.Status.NodeInfo.BootID, n.ready())
		}
		return err
	}))
}

// twoXFS is what findmnt says of the mounts of lab.MainDisks.
var twoXFS = map[string]string{"/var/lib/kubelet": "xfs kubelet", "/var/lib/containerd": "xfs containerd"}

// checkMounts wants each directory on a filesystem of that type and label, on a
// disk of its own.
func checkMounts(t *testing.T, g *lab.Guest, want map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for dir, what := range want {
		out := must(g.Run(t.Context(), "findmnt --noheadings --first-only --output SOURCE,FSTYPE,LABEL --mountpoint "+dir))(t)
		f := strings.Fields(out)
		if len(f) != 3 || f[1]+" "+f[2] != what || seen[f[0]] {
			t.Errorf("%s is on %q", dir, out)
			continue
		}
		seen[f[0]] = true
	}
}

// checkPorts asks, as another host of the LAN, for two ports that one program
// in the guest listens on.
func checkPorts(t *testing.T, g *lab.Guest) {
	t.Helper()
	var out string
	check(t, lab.WaitFor(t.Context(), "the NodePort", 30*time.Second, func(ctx context.Context) (err error) {
		out, err = lab.GetFromLAN(ctx, "http://"+g.Addr+":30080/")
		return err
	}))
	if !strings.Contains(out, "hello from the pod") {
		t.Errorf("port 30080 answered %q", out)
	}
	must(g.Run(t.Context(), "curl --fail --silent http://127.0.0.1:20080/"))(t)
	if out, err := lab.GetFromLAN(t.Context(), "http://"+g.Addr+":20080/"); err == nil {
		t.Errorf("port 20080 isn't open but answered %q", out)
	}
}

// checkNoToken looks for the token's secret half everywhere but in the file that
// the administrator put there.
func checkNoToken(t *testing.T, g *lab.Guest, secret string, rootOnly ...string) {
	t.Helper()
	const script = `read -r secret
printf %s "$secret" >/run/lab-secret
printf 'token %s\n' "$secret" >/var/tmp/lab-canary
grep -rlFf /run/lab-secret --devices=skip /etc /root /home /opt /srv /tmp /run /usr/local /var \
	--exclude=lab-secret --exclude=swap.img --exclude=swapfile --exclude-dir=io.containerd.content.v1.content --exclude-dir=io.containerd.snapshotter.v1.overlayfs 2>/dev/null
journalctl --no-pager --output=export | grep -aqFf /run/lab-secret && echo the system journal
for p in /proc/[0-9]*; do
	tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -qFf /run/lab-secret && echo "the arguments of $p"
	tr '\0' ' ' <$p/environ 2>/dev/null | grep -qFf /run/lab-secret && echo "the environment of $p"
done
rm /run/lab-secret /var/tmp/lab-canary`
	out := must(g.RunWithInput(t.Context(), secret+"\n", script))(t)
	const canary = "/var/tmp/lab-canary"
	seen := false
	for found := range strings.Lines(out) {
		// Below /run/state are the upper sides of an immutable guest's /etc, /var and
		// /usr/local: the same files, which are found at their own places.
		switch found = strings.TrimSpace(found); {
		case found == canary:
			seen = true
		case slices.ContainsFunc(rootOnly, func(dir string) bool { return strings.HasPrefix(found, dir) }):
			if mode := strings.TrimSpace(must(g.Run(t.Context(), "stat --format=%a "+found))(t)); !strings.HasSuffix(mode, "00") {
				t.Errorf("the token is in %s, which has mode %s", found, mode)
			}
		case found != lab.TokenFile && !strings.HasPrefix(found, "/run/state/"):
			t.Errorf("the token is in %s", found)
		}
	}
	if !seen {
		t.Errorf("the search doesn't even find the token where the test put it: %q", out)
	}
}

// ownRecord says whether a difference is what a run writes about itself.
func ownRecord(change string) bool {
	return strings.Contains(change, " /var/lib/nodeagent") || strings.HasPrefix(change, "changed /var/lib: ") // its parent's times
}

// runtimeState says whether a difference is what kubelet and containerd write
// while they run.
func runtimeState(change string) bool {
	for _, dir := range []string{" /var/lib/kubelet", " /var/lib/containerd", " /var/lib/cni", "mounts differ"} {
		if strings.Contains(change, dir) {
			return true
		}
	}
	return false
}

// TestRefusalsAndJoinFailures are runs that must end without success: each says
// why, and a disk with data survives.
func TestRefusalsAndJoinFailures(t *testing.T) {
	needWholeMatrix(t) // TestDiskSafety and the control plane's own tests stand for it in the representative set
	l := needLab(t)
	ctx := t.Context()
	bin := binary(t)
	const name = "prdk8snod002"
	g := newGuest(t, l, lab.Rocky9, name)
	d := must(g.AddDisk(2, ""))(t)
	check(t, d.FormatWithData(ctx, "ext4", "precious", "the only copy\n"))
	before := must(d.Sum())(t)
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(bin, config, join), lab.CNIConfig)...)
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))

	t.Run("a disk with ext4 and data where xfs was asked is refused, with its bytes unchanged", func(t *testing.T) {
		path := strings.TrimSpace(must(g.Run(ctx, `for l in /dev/disk/by-path/*; do [ "$(blkid -s LABEL -o value $l)" = precious ] && echo $l; done | tail -n 1`))(t))
		bad := config
		bad.Disks = fmt.Sprintf("\n  - name: kubelet\n    select: {path: %s}\n    filesystem: {type: xfs, label: kubelet}\n    mountPath: /var/lib/kubelet\n", path)
		check(t, g.CopyIn(ctx, lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: bad.String()}))
		snapshot := must(g.Snapshot(ctx))(t)
		out, code := up(t, g, "")
		if code != refused {
			t.Errorf("exit %d, want %d", code, refused)
		}
		for _, want := range []string{"ext4", "precious"} {
			if !strings.Contains(out, want) {
				t.Errorf("the message doesn't show %q", want)
			}
		}
		for _, c := range snapshot.Changes(must(g.Snapshot(ctx))(t)) {
			if !ownRecord(c) {
				t.Error(c)
			}
		}
		must(g.Run(ctx, "sync"))(t)
		if after := must(d.Sum())(t); after != before {
			t.Error("the disk's bytes changed")
		}
	})

	noDisks := config
	noDisks.Disks = "[]"
	t.Run("a wrong CA pin ends with that message", func(t *testing.T) {
		wrong := "sha256:" + strings.Repeat("0123456789abcdef", 4)
		i := strings.Index(join, "sha256:")
		bad := join[:i] + wrong + join[i+len(wrong):]
		check(t, g.CopyIn(ctx, lab.ProductFiles(bin, noDisks, bad)...))
		start := time.Now()
		out, code := up(t, g, "")
		t.Logf("ended after %.1f s", time.Since(start).Seconds())
		if code != failed {
			t.Errorf("exit %d, want %d", code, failed)
		}
		if e := lastRunOf(t, g).Error; !containsAny(e+out, "pin", "caCertHashes", "discovery-token-ca-cert-hash") {
			t.Errorf("the error is %q", e)
		}
	})

	t.Run("an expired token ends with that message", func(t *testing.T) {
		old := must(l.JoinCommand(ctx, time.Second))(t)
		check(t, l.WaitTokenGone(ctx, old, time.Minute))
		check(t, g.CopyIn(ctx, lab.ProductFiles(bin, noDisks, old)...))
		start := time.Now()
		out, code := up(t, g, "")
		t.Logf("ended after %.1f s", time.Since(start).Seconds())
		if code != failed {
			t.Errorf("exit %d, want %d", code, failed)
		}
		if e := lastRunOf(t, g).Error; !containsAny(e+out, "expired", "never existed") {
			t.Errorf("the error is %q", e)
		}
	})

	t.Run("with a good token the same host joins", func(t *testing.T) {
		check(t, g.CopyIn(ctx, lab.ProductFiles(bin, noDisks, join)...))
		if _, code := up(t, g, ""); code != converged {
			t.Fatalf("exit %d; last run %+v", code, lastRunOf(t, g))
		}
		n := must(nodeOf(ctx, l, name))(t)
		if !n.ready() {
			t.Error("not Ready")
		}
	})
}

func containsAny(s string, any ...string) bool {
	for _, a := range any {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}

// TestFirstBoot lets up start at power-on, when there is no network yet: DHCP
// answers 15 s after it was first asked.
func TestFirstBoot(t *testing.T) {
	needWholeMatrix(t) // a first boot by the unit is in the representative set with Photon OS and Alauda OS
	l := needLab(t)
	ctx := t.Context()
	const name = "prdk8snod003"
	g := newGuest(t, l, lab.Rocky9, name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(binary(t), config, join), lab.CNIConfig)...)
	g.Seed(firstBootUnit(t)...)
	powerOnToReady(t, l, g)
}

// firstBootUnit is the product's unit as an installer enables it.
func firstBootUnit(t *testing.T) []lab.File {
	t.Helper()
	const path = "/etc/systemd/system/nodeagent.service"
	return []lab.File{
		{Path: path, Content: string(must(os.ReadFile("../../packaging/nodeagent.service"))(t))},
		{Path: "/etc/systemd/system/multi-user.target.wants/nodeagent.service", Link: path},
	}
}

// powerOnToReady boots a guest with the unit, with an address that comes 15 s
// late, and waits until its node is Ready.
func powerOnToReady(t *testing.T, l *lab.Lab, g *lab.Guest) {
	t.Helper()
	ctx := t.Context()
	g.LateLease = true
	start := time.Now()
	check(t, g.Boot(ctx))
	check(t, g.LeaseAfterFirstAsk(ctx, 15*time.Second))
	g.LateLease = false
	leased := time.Now()
	err := lab.WaitFor(ctx, "the node to be Ready", 8*time.Minute, func(ctx context.Context) error {
		n, err := nodeOf(ctx, l, g.Name)
		if err == nil && !n.ready() {
			err = errors.New("not Ready")
		}
		if r, sshErr := g.Exec(ctx, "systemctl is-failed nodeagent.service"); sshErr == nil && r.Code == 0 {
			t.Fatalf("nodeagent.service failed: %s", must(g.Run(ctx, "journalctl --no-pager --unit nodeagent.service"))(t))
		}
		return err
	})
	if err != nil {
		out, _ := g.Run(ctx, "journalctl --no-pager --unit nodeagent.service")
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("power-on to Ready: %.1f s, of which %.1f s without an address", time.Since(start).Seconds(), leased.Sub(start).Seconds())
}
