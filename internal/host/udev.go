package host

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// UdevIdentity are the properties of udev's that tell one disk from another:
// 60-persistent-storage.rules, and 62-multipath.rules by DM_UUID. Those first in
// the list tell more.
var UdevIdentity = []string{"ID_SERIAL_SHORT", "ID_WWN_WITH_EXTENSION", "ID_WWN", "ID_SERIAL", "ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL", "DM_UUID"}

// UdevProperties asks udevadm(8) for the properties of one device.
func (l *Linux) UdevProperties(ctx context.Context, d BlockDevice) (map[string]string, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	return once(l, "udev "+d.Path, func() (map[string]string, error) {
		r, err := l.exec(ctx, program{name: "udevadm", args: []string{"info", "--query=property", "--name=" + d.Path}, timeout: 30 * time.Second})
		if err != nil || r.exit != 0 { // a device that udev doesn't know
			return nil, err
		}
		return parseUdev(r.stdout), nil
	})
}

// parseUdev reads KEY=value lines and keeps those of UdevIdentity.
func parseUdev(b []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok && value != "" && slices.Contains(UdevIdentity, key) {
			out[key] = value
		}
	}
	return out
}

// linkTime is how long udev gets to look at a device, and then to make or drop a
// link. An event of one disk takes it milliseconds; a host that boots may have a
// long queue.
const linkTime = 30 * time.Second

// applyLinkDisk lets udev read its rules and look at the disk again, then waits
// for the link. The device that has the link now is looked at, too, so that udev
// notes that it claims it no more.
func (l *Linux) applyLinkDisk(ctx context.Context, c change.LinkDisk, progress func(string)) error {
	return l.linkDisk(ctx, c, linkTime, progress)
}

func (l *Linux) linkDisk(ctx context.Context, c change.LinkDisk, limit time.Duration, progress func(string)) error {
	device, err := filepath.EvalSymlinks(c.Device)
	if err != nil {
		return fail.Wrap(fail.Step, err, "see whether it is attached: lsblk", "%s, which %s is to lead to, is gone", c.Device, c.Link)
	}
	if err := l.rereadRules(ctx); err != nil {
		return err
	}
	if other, err := filepath.EvalSymlinks(c.Instead); c.Instead != "" && err == nil && other != device {
		if err := l.trigger(ctx, other); err != nil {
			return err
		}
	}
	progress("waiting for " + c.Link)
	if err := l.trigger(ctx, device); err != nil {
		return err
	}
	leads := func() bool {
		target, err := filepath.EvalSymlinks(c.Link)
		return err == nil && target == device
	}
	ok, err := watchLink(ctx, c.Link, limit, leads)
	if err != nil || ok {
		return err
	}
	why := "it doesn't exist"
	if target, err := filepath.EvalSymlinks(c.Link); err == nil {
		why = "it leads to " + target
	}
	return fail.New(fail.Timeout, "see which rules udev applies: udevadm test "+sysPath(device), "udev did not make %s lead to %s within %s: %s", c.Link, device, limit, why)
}

// applyUnlinkDisk lets udev look at a disk again whose rule is gone, and waits
// until the link is gone or another device's.
func (l *Linux) applyUnlinkDisk(ctx context.Context, c change.UnlinkDisk, progress func(string)) error {
	return l.unlinkDisk(ctx, c, linkTime, progress)
}

func (l *Linux) unlinkDisk(ctx context.Context, c change.UnlinkDisk, limit time.Duration, progress func(string)) error {
	device, err := filepath.EvalSymlinks(c.Link)
	if err != nil { // gone already: a reboot, or the disk was pulled out
		return nil
	}
	if err := l.rereadRules(ctx); err != nil {
		return err
	}
	progress("waiting for " + c.Link + " to go")
	if err := l.trigger(ctx, device); err != nil {
		return err
	}
	ok, err := watchLink(ctx, c.Link, limit, func() bool {
		target, err := filepath.EvalSymlinks(c.Link)
		return err != nil || target != device
	})
	if err != nil || ok {
		return err
	}
	return fail.New(fail.Timeout, "see which rule makes it: udevadm test "+sysPath(device), "%s still leads to %s after %s, though nodeagent's rule for it is gone", c.Link, device, limit)
}

// rereadRules tells udev that its rules have changed.
func (l *Linux) rereadRules(ctx context.Context) error {
	_, err := l.must(ctx, program{name: "udevadm", args: []string{"control", "--reload"}, timeout: 30 * time.Second})
	return err
}

// trigger lets udev look at one device again, and at no other, and waits until it
// has: --settle came with systemd 238. A link that was right before the rules
// changed isn't taken for their work.
func (l *Linux) trigger(ctx context.Context, device string) error {
	_, err := l.must(ctx, program{name: "udevadm", args: []string{"trigger", "--settle", "--action=change", "--name-match=" + device}, timeout: linkTime})
	return err
}

// sysPath is where the kernel shows a block device.
func sysPath(device string) string { return "/sys/class/block/" + filepath.Base(device) }
