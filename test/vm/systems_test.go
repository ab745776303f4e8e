package vm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// system is what a guest of another operating system has of its own.
type system struct {
	flavour lab.Flavour
	name    string // of host and node
	stock   string // a script that fails where the guest isn't what it should be
	image   string // what the node says of itself
	mounts  map[string]string
	kept    func(t *testing.T, g *lab.Guest) // what must hold after the run and after a reboot

}

// firewalldStarted waits for what systemd doesn't: firewalld takes its D-Bus name
// first and flushes all rules after that.
const firewalldStarted = "! systemctl --quiet is-active firewalld || until firewall-cmd --state; do :; done\n"

// cniAtBoot loads rules of others before nodeagent runs, at every boot, as a
// network plugin does, and notes how they look.
func cniAtBoot() []lab.File {
	const unit = "/etc/systemd/system/lab-cni.service"
	return []lab.File{
		{Path: "/usr/local/bin/lab-cni", Mode: 0o755, Content: "#!/bin/sh\n" + firewalldStarted + foreignRules + "{ " + showForeignRules + "; } >/run/lab-foreign\n"},
		{Path: unit, Content: "[Unit]\nAfter=firewalld.service iptables.service\nBefore=nodeagent.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/bin/lab-cni\n\n[Install]\nWantedBy=multi-user.target\n"},
		{Path: "/etc/systemd/system/multi-user.target.wants/lab-cni.service", Link: unit},
	}
}

// TestPhotonFromPowerOn is a Photon OS 5 type host: tdnf (a stand-in), iptables
// with the files that are loaded at boot, networkd, resolved, containerd 1.6
// installed and switched off.
func TestPhotonFromPowerOn(t *testing.T) {
	fromPowerOn(t, system{
		flavour: lab.Photon5, name: "photon1", image: "VMware Photon OS/Linux",
		stock: `! command -v dnf && ! command -v firewall-cmd && ! command -v mkfs.xfs && ! command -v containerd-shim-runc-v2
rpm -q containerd && systemctl is-active iptables systemd-networkd systemd-resolved && systemctl is-enabled iptables`,
		mounts: map[string]string{"/var/lib/kubelet": "ext4 kubelet", "/var/lib/containerd": "xfs containerd"},
		kept: func(t *testing.T, g *lab.Guest) {
			for _, family := range []string{"4", "6"} {
				file := "/etc/systemd/scripts/ip" + family + "save"
				saved := must(g.Run(t.Context(), "cat "+file))(t)
				for _, want := range []string{"--dport 10250 ", "--dport 22 ", "--dport 8472 ", "#-A INPUT -j LOG", ":INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n"} {
					if !strings.Contains(saved, want) {
						t.Errorf("%s lacks %q:\n%s", file, want, saved)
					}
				}
				if foreign := []string{"KUBE-", "lab ", "CNI-"}; containsAny(saved, foreign...) {
					t.Errorf("%s holds rules of others:\n%s", file, saved)
				}
				live := must(g.Run(t.Context(), "ip"+strings.TrimPrefix(family, "4")+"tables --list-rules"))(t)
				for line := range strings.Lines(saved) {
					if strings.Contains(line, "nodeagent") && !strings.Contains(live, `--comment nodeagent`) {
						t.Errorf("%q isn't live:\n%s", line, live)
					}
				}
				if !strings.Contains(live, "-P INPUT DROP") || !strings.Contains(live, "-P FORWARD DROP") {
					t.Errorf("a policy was changed:\n%s", live)
				}
			}
			if out := must(g.Run(t.Context(), "cat /proc/sys/net/ipv4/ip_forward; cat /var/lib/kubelet/config.yaml"))(t); !strings.HasPrefix(out, "1\n") || !strings.Contains(out, "resolvConf: /run/systemd/resolve/resolv.conf") {
				t.Errorf("ip_forward and kubelet's configuration: %s", out)
			}
		},
	})
}

// TestAlaudaFromPowerOn is an immutable host: the root filesystem is a device
// that can't be written, and Kubernetes is part of the image.
func TestAlaudaFromPowerOn(t *testing.T) {
	fromPowerOn(t, system{
		flavour: lab.Alauda, name: "alauda1", image: "SUSE Linux Enterprise Micro 5.5",
		stock:  `! touch /usr/x 2>/dev/null && ! mount -o remount,rw / 2>/dev/null && systemctl is-active containerd firewalld NetworkManager && command -v kubelet`,
		mounts: twoXFS,
		kept: func(t *testing.T, g *lab.Guest) {
			must(g.Run(t.Context(), "! touch /usr/x 2>/dev/null; test $(hostname) = alauda1; test $(cat /etc/hostname) = alauda1; firewall-cmd --quiet --query-port=10250/tcp; firewall-cmd --quiet --permanent --query-port=10250/tcp"))(t)
		},
	})
}

// fromPowerOn takes a host from power-on to Ready by the first-boot unit, and
// through a second run and a reboot. Its subtests are one story.
func fromPowerOn(t *testing.T, s system) {
	l := needLab(t)
	ctx := t.Context()
	g := newGuest(t, l, s.flavour, s.name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{Spec: s.flavour.Spec, HostName: s.name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(append(lab.ProductFiles(binary(t), config, join), lab.CNIConfig)...)
	g.Seed(firstBootUnit(t)...)
	g.Seed(cniAtBoot()...)
	g.Seed(s.flavour.Seed(s.name)...)
	step := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}
	step("from power-on to Ready, the address 15 s late", func(t *testing.T) { powerOnToReady(t, l, g) })
	step("the host is what it should be", func(t *testing.T) {
		check(t, g.WaitSSH(ctx, time.Minute))
		must(g.Run(ctx, "systemctl is-active lab-cni"))(t)
		// Each run's warnings and steps, for the record.
		t.Log(must(g.Run(ctx, "journalctl --no-pager --output=cat --unit nodeagent.service"))(t))
		n := must(nodeOf(ctx, l, s.name))(t)
		if n.Metadata.Labels["type"] != "physical" || n.Status.NodeInfo.OSImage != s.image || n.Status.NodeInfo.KubeletVersion != "v1.35.4" ||
			!strings.Contains(fmt.Sprint(n.Spec.Taints), "{dedicated lab NoSchedule}") {
			t.Errorf("the node is %+v", n)
		}
	})
	step("disks and what the system keeps are as asked", func(t *testing.T) {
		checkMounts(t, g, s.mounts)
		s.kept(t, g)
	})
	podNet, hostNet := "pod-net-"+s.name, "host-net-"+s.name
	step("a pod runs and reaches the LAN; logs and exec reach it", func(t *testing.T) {
		check(t, g.ImportImages(ctx))
		check(t, l.Apply(ctx, podManifest(podNet, s.name, "false")+"---\n"+podManifest(hostNet, s.name, "true")))
		if err := l.WaitPod(ctx, podNet, 2*time.Minute); err != nil {
			out, _ := g.Run(ctx, "journalctl --no-pager --output=cat --unit containerd --unit kubelet | grep -i -e error -e fail | tail -n 20; cat /etc/containerd/config.toml")
			t.Fatalf("%v\n%s", err, out)
		}
		check(t, l.WaitPod(ctx, hostNet, 2*time.Minute))
		if out := must(l.Kubectl(ctx, "logs", podNet))(t); !strings.Contains(out, "serving on :30080") {
			t.Errorf("logs say %q", out)
		}
		if out := must(l.Kubectl(ctx, "exec", podNet, "--", "/pod", "get", "http://192.0.2.1/"))(t); !strings.Contains(out, "200") && !strings.Contains(out, "404") {
			t.Errorf("the LAN's web server answered the pod %q", out)
		}
	})
	step("a port in the NodePort range answers from the LAN, one that wasn't opened doesn't", func(t *testing.T) { checkPorts(t, g) })
	step("rules of others are as they were", func(t *testing.T) { checkForeign(t, g) })
	step("a second up makes no change", func(t *testing.T) {
		before := must(g.Snapshot(ctx))(t)
		if _, code := up(t, g, ""); code != converged {
			t.Fatalf("exit %d", code)
		}
		if last := lastRunOf(t, g); last.Changes != 0 || last.Result != "converged" {
			t.Errorf("last run: %+v", last)
		}
		for _, c := range before.Changes(must(g.Snapshot(ctx))(t)) {
			if !ownRecord(c) && !runtimeState(c) {
				t.Error(c)
			}
		}
		if p, code := planOf(t, g); code != converged || len(p.changes()) > 0 || len(p.Blocked) > 0 {
			t.Errorf("plan: exit %d, %+v", code, p)
		}
	})
	step("the token is in no file, log, journal or process list", func(t *testing.T) { checkNoToken(t, g, tokenSecret(t, join)) })
	step("after a reboot with the disks in another order the node is Ready again", func(t *testing.T) {
		g.SwapDisks()
		start := time.Now()
		check(t, g.Reboot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		waitReadyAgain(t, l, g)
		t.Logf("Ready %.1f s after the reboot began", time.Since(start).Seconds())
	})
	step("the unit's run after the reboot changed nothing, and all is as it was", func(t *testing.T) {
		check(t, lab.WaitFor(ctx, "the unit's run", 2*time.Minute, func(ctx context.Context) error {
			_, err := g.Run(ctx, "systemctl is-active nodeagent")
			return err
		}))
		last := lastRunOf(t, g)
		for _, s := range last.Steps {
			for _, c := range s.Changes {
				if !strings.HasPrefix(c, "wait ") { // kubelet is only just starting
					t.Errorf("%s: %s", s.Name, c)
				}
			}
		}
		if last.Result != "converged" {
			t.Errorf("last run: %+v", last)
		}
		if out := must(g.Run(ctx, "tail -n +2 /proc/swaps"))(t); out != "" {
			t.Errorf("swap is on: %s", out)
		}
		checkMounts(t, g, s.mounts)
		s.kept(t, g)
		checkForeign(t, g)
		check(t, l.WaitPod(ctx, hostNet, 3*time.Minute))
		checkPorts(t, g)
	})
}

// checkForeign compares the rules of others with how they were before nodeagent
// ran in this boot.
func checkForeign(t *testing.T, g *lab.Guest) {
	t.Helper()
	before := must(g.Run(t.Context(), "cat /run/lab-foreign"))(t)
	now := must(g.Run(t.Context(), showForeignRules))(t)
	if now != before || !strings.Contains(before, "KUBE-LAB-SERVICES") {
		t.Errorf("now:\n%s\nbefore:\n%s", now, before)
	}
}
