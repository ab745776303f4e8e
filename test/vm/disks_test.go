package vm_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// guestDisks asks for two blank disks without ids, a partition by its label and
// a disk by its serial.
const guestDisks = `
  - name: kubelet
    select: {blank: {minSize: 2GiB, maxSize: 2GiB}}
    mountPath: /var/lib/kubelet
  - name: containerd
    select: {blank: {minSize: 2GiB, maxSize: 2GiB}}
    mountPath: /var/lib/containerd
    mountOptions: [noatime]
  - name: volumes
    select: {partLabel: lab-volumes}
    filesystem: {type: ext4, label: my.volumes-1}
    mountPath: /var/lib/kubelet/plugins
  - name: archive
    select: {serial: archive}
    filesystem: {type: ext4}
    mountPath: /srv/archive
    keep: true
`

// service stands for kubelet and containerd: what matters is what it waits for.
const service = "[Unit]\nDescription=stand-in\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

// onlyDisks leaves out what takes long and has suites of its own.
const onlyDisks = "--until disks --skip preflight --skip packages --skip swap"

// TestDisks takes four disks through a first run, a reboot in another order, and
// a boot without one of them. The other steps are left out.
func TestDisks(t *testing.T) {
	needWholeMatrix(t)
	l := needLAN(t)
	ctx := t.Context()
	const name = "disks"
	g := newGuest(t, l, lab.Rocky9, name)
	for range 2 {
		must(g.AddDisk(2, ""))(t)
	}
	must(g.AddDisk(1, "partitioned"))(t)
	archive := must(g.AddDisk(1, "archive"))(t)
	check(t, archive.FormatWithData(ctx, "ext4", "archive", "the only copy\n"))
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile, Disks: guestDisks}
	unit := func(s string) lab.File { return lab.File{Path: "/etc/systemd/system/" + s, Content: service} }
	g.Seed(append(lab.ProductFiles(binary(t), config, "none"), unit("kubelet.service"), unit("containerd.service"))...)
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	step := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}

	step("blank ones are formatted, the partition too, the one with data is adopted", func(t *testing.T) {
		must(g.Run(ctx, `printf 'label: gpt\nname=lab-volumes\n' | sfdisk --quiet /dev/disk/by-id/virtio-partitioned; udevadm settle`))(t)
		if _, code := up(t, g, onlyDisks); code != converged {
			t.Fatalf("exit %d", code)
		}
		checkDisks(t, g)
		t.Log(must(g.Run(ctx, "lsblk -f; cat /etc/systemd/system/*.mount; systemctl status --no-pager '*.mount' | grep -A3 var-lib"))(t))
	})
	step("a second run changes nothing", func(t *testing.T) {
		start := time.Now()
		if out, code := up(t, g, onlyDisks); code != converged || lastRunOf(t, g).Changes != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		t.Logf("%.2f s", time.Since(start).Seconds())
	})
	step("kubelet and containerd wait for their disks, and stop with them", func(t *testing.T) {
		must(g.Run(ctx, "systemctl enable --now kubelet containerd && systemctl stop var-lib-containerd.mount && ! systemctl is-active kubelet && ! systemctl is-active containerd && systemctl start kubelet && findmnt /var/lib/containerd"))(t)
	})
	step("what kubeadm reset unmounts is mounted again", func(t *testing.T) {
		must(g.Run(ctx, "systemctl stop kubelet containerd; umount /var/lib/kubelet/plugins /var/lib/kubelet"))(t)
		if _, code := up(t, g, onlyDisks); code != converged {
			t.Fatalf("exit %d", code)
		}
		checkDisks(t, g)
	})
	step("after a reboot with the disks in another order everything is in its place", func(t *testing.T) {
		g.SwapDisks()
		check(t, g.Reboot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		checkDisks(t, g)
		must(g.Run(ctx, "systemctl is-active kubelet containerd; systemctl --failed --no-legend | { ! grep mount; }"))(t)
		if _, code := up(t, g, onlyDisks); code != converged || lastRunOf(t, g).Changes != 0 {
			t.Fatalf("exit %d, %+v", code, lastRunOf(t, g))
		}
	})
	step("without one disk ssh comes up, kubelet doesn't, and a blank disk doesn't take its place", func(t *testing.T) {
		label := must(g.Run(ctx, "readlink /dev/disk/by-label/containerd"))(t)
		check(t, g.PowerOff(ctx))
		i := slices.IndexFunc(g.Disks, func(d *lab.Disk) bool { return holdsLabel(t, d, "containerd") })
		if i < 0 {
			t.Fatalf("no image has the label; it was %s", label)
		}
		lost := g.Disks[i]
		must(g.AddDisk(2, ""))(t)
		g.Disks = slices.Delete(slices.Clone(g.Disks), i, i+1)
		start := time.Now()
		check(t, g.Boot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		t.Logf("ssh after %.1f s", time.Since(start).Seconds())
		check(t, lab.WaitFor(ctx, "the boot to finish", 4*time.Minute, func(ctx context.Context) error {
			_, err := g.Run(ctx, "systemctl is-system-running | grep -e running -e degraded")
			return err
		}))
		t.Logf("boot finished after %.1f s", time.Since(start).Seconds())
		must(g.Run(ctx, "! systemctl is-active kubelet; ! systemctl is-active containerd; findmnt /var/lib/kubelet; findmnt /srv/archive"))(t)
		out, code := up(t, g, onlyDisks)
		if code != refused || !strings.Contains(out, "was set up on this host before") {
			t.Errorf("exit %d", code)
		}
		check(t, g.PowerOff(ctx))
		g.Disks = append(g.Disks[:len(g.Disks)-1], lost)
		check(t, g.Boot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		checkDisks(t, g)
		must(g.Run(ctx, "systemctl is-active kubelet containerd"))(t)
	})
}

// holdsLabel looks for a filesystem label in the image of a disk.
func holdsLabel(t *testing.T, d *lab.Disk, label string) bool {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "blkid", "-p", "-s", "LABEL", "-o", "value", d.Path).Output()
	return strings.TrimSpace(string(out)) == label
}

// checkDisks wants each filesystem of guestDisks where it belongs.
func checkDisks(t *testing.T, g *lab.Guest) {
	t.Helper()
	for dir, want := range map[string]string{"/var/lib/kubelet": "xfs kubelet", "/var/lib/containerd": "xfs containerd", "/var/lib/kubelet/plugins": "ext4 my.volumes-1", "/srv/archive": "ext4 archive"} {
		out := must(g.Run(t.Context(), "findmnt --noheadings --first-only --output FSTYPE,LABEL --mountpoint "+dir))(t)
		if strings.Join(strings.Fields(out), " ") != want {
			t.Errorf("%s is %q, want %s", dir, out, want)
		}
	}
	must(g.Run(t.Context(), "grep -q 'only copy' /srv/archive/data && grep -q noatime <(findmnt -no OPTIONS /var/lib/containerd)"))(t)
}
