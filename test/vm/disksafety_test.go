package vm_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// TestDiskSafety asks the shipped binary to format disks of every kind of
// content and in every state that is known: one disk each on one guest. What is
// refused keeps the SHA-256 of the whole device. The representative set takes
// the rows marked always.
func TestDiskSafety(t *testing.T) {
	l := needLAN(t)
	ctx := t.Context()
	const name = "disksafety"
	g := newGuest(t, l, lab.Rocky9, name)
	disks := map[string]*lab.SCSIDisk{}
	add := func(t *testing.T, serial string, d lab.SCSIDisk, mib int) {
		t.Helper()
		d.Serial = serial
		disks[serial] = must(g.AddSCSI(d, mib))(t)
	}
	for _, c := range contents {
		if c.always || lab.Whole() {
			add(t, c.name, lab.SCSIDisk{}, cmp.Or(c.mib, contentMiB))
			c.fill(t, disks[c.name].Path)
		}
	}
	for _, s := range states {
		if s.always || lab.Whole() {
			add(t, s.name, s.disk, cmp.Or(s.mib, stateMiB))
		}
	}
	if d := disks["two-paths"]; d != nil {
		other := *d
		add(t, "other-path", other, 0)
	}
	for _, serial := range []string{"raced", "pulled", "pulled-while", "control", "adopted"} {
		add(t, serial, lab.SCSIDisk{}, stateMiB)
	}
	add(t, "late", lab.SCSIDisk{Late: true}, stateMiB)

	m := &matrix{g: g, config: lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile, Disks: "[]"}, disks: disks}
	g.Seed(lab.ProductFiles(binary(t), m.config, "none")...)
	// udev would assemble and start what a row has stopped.
	g.Seed(lab.File{Path: "/etc/mdadm/mdadm.conf", Content: "AUTO -all\n"})
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 15*time.Minute)) // so many disks take an emulated guest long when the machine is busy
	m.settle(t)

	// Every other change of the run is out of the way.
	if _, code := up(t, g, onlyDisks); code != converged {
		t.Fatalf("exit %d without disks", code)
	}
	sums := map[string]string{}
	for _, c := range contents {
		if d := disks[c.name]; d != nil {
			sums[c.name] = m.sum(t, d)
			t.Run(c.name, func(t *testing.T) { m.refuses(t, c.name, "", refused, c.evidence) })
		}
	}
	t.Run("none of them is blank", func(t *testing.T) {
		// The disks of the states are smaller: some of them are blank by now.
		if _, code := m.ask(t, fmt.Sprintf("{name: any, select: {blank: {minSize: %dMiB}}, filesystem: {type: ext4}, mountPath: /srv/any}", contentMiB)); code != refused {
			t.Errorf("exit %d", code)
		}
	})
	asked := 0
	for _, s := range states {
		if disks[s.name] != nil {
			m.inGuest(t, s.name, s.prepare)
			asked++
		}
	}
	for _, s := range states {
		if disks[s.name] != nil {
			t.Run(s.name, func(t *testing.T) { m.refuses(t, s.name, s.disks, s.code, s.evidence) })
		}
	}
	m.moments(t)
	for serial, before := range sums {
		if after := m.sum(t, disks[serial]); after != before {
			t.Errorf("%s was changed in the course of the test", serial)
		}
	}
	t.Logf("%d kinds of content, %d states", len(sums), asked)
}

// matrix is the guest with its disks by serial.
type matrix struct {
	g      *lab.Guest
	config lab.NodeConfig
	disks  map[string]*lab.SCSIDisk
}

// ask puts a configuration with these disks into the guest and runs up.
func (m *matrix) ask(t *testing.T, disks string) (string, int) {
	t.Helper()
	m.write(t, disks)
	return up(t, m.g, onlyDisks)
}

func (m *matrix) write(t *testing.T, disks string) {
	t.Helper()
	m.config.Disks = "\n  - " + disks + "\n"
	check(t, m.g.CopyIn(t.Context(), lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: m.config.String()}))
}

// bySerial asks for one disk as ext4.
func bySerial(serial string) string {
	return fmt.Sprintf("{name: %s, select: {serial: %s}, filesystem: {type: ext4, label: %s}, mountPath: /srv/%[1]s}", serial, serial, serial[:min(16, len(serial))])
}

// refuses wants one disk to be refused with the evidence, all its bytes kept,
// and nothing else changed.
func (m *matrix) refuses(t *testing.T, serial, disks string, code int, evidence string) {
	t.Helper()
	if disks == "" {
		disks = bySerial(serial)
	}
	before := m.sum(t, m.disks[serial])
	out, got := m.ask(t, disks)
	if code == 0 {
		code = refused
	}
	if got != code {
		t.Errorf("exit %d, want %d", got, code)
	}
	// The disk's name and what was wanted of it are no evidence.
	said := out
	if _, after, ok := strings.Cut(out, "serial "+serial+"): "); ok {
		said, _, _ = strings.Cut(after, "; wanted is")
	}
	if !strings.Contains(said, evidence) {
		t.Errorf("the refusal doesn't say %q", evidence)
	}
	if after := m.sum(t, m.disks[serial]); after != before {
		t.Errorf("the disk was changed: SHA-256 %s, was %s", after, before)
	}
}

// inGuest runs a script about one disk.
func (m *matrix) inGuest(t *testing.T, serial, script string) {
	t.Helper()
	if script == "" {
		return
	}
	must(m.g.Run(t.Context(), "set -e; D=$(readlink -f "+m.disks[serial].Link()+"); NAME="+serial+"\n"+script+"\nudevadm settle; sync"))(t)
}

// settle waits until udev has named every disk.
func (m *matrix) settle(t *testing.T) {
	t.Helper()
	var links []string
	for _, d := range m.disks {
		if !d.Late {
			links = append(links, d.Link())
		}
	}
	check(t, lab.WaitFor(t.Context(), "the disks' links", 5*time.Minute, func(ctx context.Context) error {
		_, err := m.g.Run(ctx, "udevadm settle; ls "+strings.Join(links, " "))
		return err
	}))
}

// sum is the SHA-256 of a disk's image, once the guest has written out what it
// holds.
func (m *matrix) sum(t *testing.T, d *lab.SCSIDisk) string {
	t.Helper()
	must(m.g.Run(t.Context(), "sync"))(t)
	return must((&lab.Disk{Path: d.Path}).Sum())(t)
}
