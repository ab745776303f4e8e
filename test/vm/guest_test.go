package vm_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// TestGuest proves what the suites rely on, without the product.
func TestGuest(t *testing.T) {
	needWholeMatrix(t)
	l := needLAN(t)
	ctx := t.Context()
	g := newGuest(t, l, lab.Rocky9, "lifecycle")
	d := must(g.AddDisk(2, ""))(t)
	check(t, d.FormatWithData(ctx, "ext4", "precious", "the only copy\n"))
	must(g.AddDisk(1, "second"))(t)
	g.Seed(lab.File{Path: "/etc/seeded", Mode: 0o600, Content: "by the lab\n"})
	g.LateLease = true
	start := time.Now()
	check(t, g.Boot(ctx))
	check(t, g.LeaseAfterFirstAsk(ctx, 5*time.Second))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	t.Logf("ssh after %.1f s with a late lease", time.Since(start).Seconds())

	t.Run("seeded files are there from the start", func(t *testing.T) {
		if out := must(g.Run(ctx, "hostname; stat -c '%a %U' /etc/seeded; cat /etc/seeded"))(t); out != "lifecycle\n600 root\nby the lab\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("two snapshots of an idle guest are equal, and a write shows", func(t *testing.T) {
		start := time.Now()
		before := must(g.Snapshot(ctx))(t)
		t.Logf("%d paths in %.1f s", len(before.Files), time.Since(start).Seconds())
		for _, c := range before.Changes(must(g.Snapshot(ctx))(t)) {
			t.Error(c)
		}
		must(g.Run(ctx, "touch --reference=/etc/seeded /tmp/t && cat /etc/seeded >/etc/hosts; touch --reference=/tmp/t /etc/hosts; swapoff /srv/swapfile"))(t)
		changes := before.Changes(must(g.Snapshot(ctx))(t))
		if s := strings.Join(changes, "\n"); len(changes) != 2 || !strings.Contains(s, "/etc/hosts") || !strings.Contains(s, "swap differ") {
			t.Errorf("changes: %q", changes)
		}
	})
	t.Run("a session stays open, a stream gives its exit code", func(t *testing.T) {
		s := must(g.OpenSession(ctx))(t)
		check(t, s.Check())
		if code := must(g.Stream(ctx, t.Output(), "echo streamed; exit 7"))(t); code != 7 {
			t.Errorf("exit %d", code)
		}
		check(t, s.Check())
		check(t, s.Close())
	})
	const which = `for l in /dev/disk/by-path/virtio-pci-*; do echo "$l $(lsblk -dno SIZE,LABEL,SERIAL $l)"; done`
	t.Run("after a reboot the disks can have changed places", func(t *testing.T) {
		before := must(g.Run(ctx, which))(t)
		g.SwapDisks()
		start := time.Now()
		check(t, g.Reboot(ctx))
		check(t, g.LeaseAfterFirstAsk(ctx, 0))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		t.Logf("back after %.1f s", time.Since(start).Seconds())
		after := must(g.Run(ctx, which))(t)
		t.Logf("before:\n%safter:\n%s", before, after)
		if before == after || strings.Count(after, "precious") != 1 {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("what was flushed survives a power cut", func(t *testing.T) {
		must(g.Run(ctx, "mount LABEL=precious /mnt && echo kept >/mnt/kept && sync"))(t)
		g.PowerCut()
		g.LateLease = false
		check(t, g.Boot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		if out := must(g.Run(ctx, "mount LABEL=precious /mnt && cat /mnt/data /mnt/kept"))(t); out != "the only copy\nkept\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("files can be taken out", func(t *testing.T) {
		to := t.TempDir() + "/os-release"
		check(t, g.CopyOut(ctx, "/etc/os-release", to))
		if b := must(os.ReadFile(to))(t); !strings.Contains(string(b), "Rocky Linux") {
			t.Errorf("got %q", b)
		}
	})
	check(t, g.PowerOff(ctx))
}
