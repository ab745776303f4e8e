package vm_test

import (
	"bytes"

	"strings"
	"testing"
	"time"
)

// moments is what happens to a disk while a run goes on or between two.
func (m *matrix) moments(t *testing.T) {
	ctx := t.Context()
	g := m.g
	const begun = `until tail -n1 /var/lib/nodeagent/journal.jsonl | grep '"intent"' | grep -q mkfs:; do sleep 0.1; done`

	t.Run("a blank disk is formatted, mounted, and adopted by the next run", func(t *testing.T) {
		if _, code := m.ask(t, bySerial("control")); code != converged {
			t.Fatalf("exit %d", code)
		}
		must(g.Run(ctx, "findmnt --mountpoint /srv/control"))(t)
		if _, code := up(t, g, onlyDisks); code != converged || lastRunOf(t, g).Changes != 0 {
			t.Errorf("exit %d, %d changes", code, lastRunOf(t, g).Changes)
		}
	})
	t.Run("what is wanted is adopted though another mount namespace has it", func(t *testing.T) {
		m.inGuest(t, "adopted", `mkdir -p /run/lab-adopted; echo the only copy >/run/lab-adopted/data; mkfs.ext4 -q -F -L $NAME -d /run/lab-adopted $D; udevadm settle
{ setsid unshare --mount sh -c "mount $D /mnt && exec sleep infinity" </dev/null >/dev/null 2>&1 & }; until ! python3 -c "import os; os.open('$D', os.O_RDONLY|os.O_EXCL)" 2>/dev/null; do sleep 0.1; done`)
		out, code := m.ask(t, bySerial("adopted"))
		if code != converged || strings.Contains(out, "FORMAT") {
			t.Errorf("exit %d", code)
		}
		must(g.Run(ctx, "grep 'only copy' /srv/adopted/data"))(t)
	})
	t.Run("a disk that isn't there is not another one, and is formatted once it appears", func(t *testing.T) {
		out, code := m.ask(t, bySerial("late"))
		if code != failed || !strings.Contains(out, "no device has serial late") {
			t.Errorf("exit %d", code)
		}
		check(t, g.Plug(ctx, m.disks["late"]))
		must(g.Run(ctx, "until [ -e "+m.disks["late"].Link()+" ]; do sleep 0.1; done"))(t)
		if _, code := up(t, g, onlyDisks); code != converged {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("a disk that is pulled out between plan and up is missed", func(t *testing.T) {
		m.write(t, bySerial("pulled"))
		if p, _ := planOf(t, g); !strings.Contains(strings.Join(p.changes(), " "), "mkfs:") {
			t.Errorf("the plan is %v", p.changes())
		}
		before := m.sum(t, m.disks["pulled"])
		check(t, g.Unplug(ctx, m.disks["pulled"]))
		out, code := up(t, g, onlyDisks)
		if code != failed || !strings.Contains(out, "no device has serial pulled") {
			t.Errorf("exit %d", code)
		}
		if m.sum(t, m.disks["pulled"]) != before {
			t.Error("its bytes have changed")
		}
	})
	// The lock that udev respects holds the run between its intent and its last
	// look at the disk.
	t.Run("a disk that gets data between plan and format is refused", func(t *testing.T) {
		d := m.disks["raced"]
		m.write(t, bySerial("raced"))
		must(g.Run(ctx, `: >/run/lab-hold; rm -f /run/lab-held; { setsid flock `+d.Link()+` sh -c 'echo >/run/lab-held; while [ -e /run/lab-hold ]; do sleep 0.1; done' </dev/null >/dev/null 2>&1 & }; until [ -e /run/lab-held ]; do sleep 0.1; done`))(t)
		wait := m.start(t, "nodeagent up "+onlyDisks)
		must(g.Run(ctx, begun+`; mkdir -p /run/lab-tree; echo the only copy >/run/lab-tree/data; mkfs.ext4 -q -F -L precious -d /run/lab-tree `+d.Link()+`; sync`))(t)
		before := m.sum(t, d)
		must(g.Run(ctx, "rm /run/lab-hold"))(t)
		out, code := wait()
		if code != refused || !strings.Contains(out, `is not formatted: it holds ext4 labelled "precious"`) {
			t.Errorf("exit %d", code)
		}
		if m.sum(t, d) != before {
			t.Error("its bytes have changed")
		}
	})
	t.Run("a disk that is pulled out while it is formatted is finished when it is back", func(t *testing.T) {
		d := m.disks["pulled-while"]
		check(t, g.Throttle(ctx, d, 100<<10))
		m.write(t, bySerial("pulled-while"))
		wait := m.start(t, "nodeagent up "+onlyDisks)
		must(g.Run(ctx, "until pidof mkfs.ext4; do sleep 0.1; done"))(t)
		check(t, g.Unplug(ctx, d))
		out, code := wait()
		if code != failed || !strings.Contains(out, "could not be formatted") {
			t.Errorf("exit %d", code)
		}
		check(t, g.Plug(ctx, d))
		must(g.Run(ctx, "until [ -e "+d.Link()+" ]; do sleep 0.1; done; udevadm settle"))(t)
		if _, code := up(t, g, onlyDisks); code != converged {
			t.Errorf("exit %d", code)
		}
		must(g.Run(ctx, "findmnt --mountpoint /srv/pulled-while && umount /srv/pulled-while && e2fsck -f -n "+d.Link()))(t)
	})
}

// start runs a command in the guest; the returned function waits for its
// output and exit code.
func (m *matrix) start(t *testing.T, command string) func() (string, int) {
	t.Helper()
	var out bytes.Buffer
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		code, err := m.g.Stream(t.Context(), &logAndKeep{t, &out}, command)
		done <- result{code, err}
	}()
	return func() (string, int) {
		t.Helper()
		select {
		case r := <-done:
			check(t, r.err)
			return out.String(), r.code
		case <-time.After(5 * time.Minute):
			t.Fatal(command + " doesn't end")
			return "", 0
		}
	}
}
