package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// labelWait bounds how long udev may take to name a filesystem by its label.
const labelWait = 30 * time.Second

// applyMakeFilesystem formats the device behind a stable link, after proving
// anew that it is the one in the plan and that nothing is on it, and returns
// when its label leads to it.
func (l *Linux) applyMakeFilesystem(ctx context.Context, c change.MakeFilesystem, progress func(string)) error {
	return l.makeFilesystem(ctx, diskLinks, c, progress)
}

func (l *Linux) makeFilesystem(ctx context.Context, dir linkDir, c change.MakeFilesystem, progress func(string)) error {
	d, err := l.recheck(ctx, dir, c)
	if err != nil {
		return err
	}
	progress("formatting " + d.Path)
	if err := l.mkfs(ctx, c, d); err != nil {
		return err
	}
	l.forget()
	after, err := l.probe(ctx, d)
	if err != nil {
		return err
	}
	if after.FSType != c.Type || after.Label != c.Label || after.FSUUID != c.UUID || after.Unfinished {
		return fail.New(fail.Step, "see the kernel's log for errors of the device: dmesg", "mkfs.%s succeeded, but %s (%s) now holds %s with uuid %q", c.Type, c.Device, d.Path, after.Content(), after.FSUUID)
	}
	progress("waiting for " + dir.label(c.Label))
	return l.waitLabel(ctx, dir.label(c.Label), d.Path, labelWait)
}

// recheck looks at the device again as if nothing were known of it. Whatever
// differs from the plan is a refusal.
func (l *Linux) recheck(ctx context.Context, dir linkDir, c change.MakeFilesystem) (BlockDevice, error) {
	const hint = "look at it again: nodeagent plan"
	refuse := func(format string, a ...any) error {
		return fail.New(fail.Safety, hint, "%s for disk %s is not formatted: %s", c.Device, c.Disk, fmt.Sprintf(format, a...))
	}
	if filepath.Dir(filepath.Dir(c.Device)) != string(dir) {
		return BlockDevice{}, refuse("it is not a stable link below %s", dir)
	}
	target, err := filepath.EvalSymlinks(c.Device)
	if err != nil {
		return BlockDevice{}, fail.Wrap(fail.Step, err, "attach the device, or look at: nodeagent plan", "%s for disk %s is gone", c.Device, c.Disk)
	}
	l.forget()
	devices, err := l.blockDevices(ctx, dir)
	if err != nil {
		return BlockDevice{}, err
	}
	i := slices.IndexFunc(devices, func(d BlockDevice) bool { return d.Path == target })
	if i < 0 {
		return BlockDevice{}, refuse("it leads to %s, which lsblk doesn't list", target)
	}
	for _, other := range devices {
		if other.Label == c.Label && other.Path != target {
			return BlockDevice{}, refuse("label %s is on %s already", c.Label, other.Path)
		}
	}
	d, err := l.probe(ctx, devices[i])
	if err != nil {
		return BlockDevice{}, err
	}
	switch {
	case !slices.Contains([]string{"disk", "part", "loop"}, d.Type):
		return d, refuse("%s is of type %s", target, d.Type)
	case d.Size != c.Size || d.Serial != c.Serial || d.WWN != c.WWN:
		return d, refuse("it leads to another device now: %s has size %d, serial %q, wwn %q; planned was size %d, serial %q, wwn %q", target, d.Size, d.Serial, d.WWN, c.Size, c.Serial, c.WWN)
	case d.ReadOnly:
		return d, refuse("%s is read-only", target)
	case c.Resume && d.HalfMade(c.Type, c.UUID):
		return d, nil
	}
	if why := d.NotBlank(); len(why) > 0 {
		return d, refuse("%s", strings.Join(why, "; "))
	}
	return d, nil
}

// HalfMade tells whether all that is on the device is the beginning of one
// certain filesystem: its superblock, which says that it is unfinished, or our
// claim and nothing that any tool knows.
func (d BlockDevice) HalfMade(fstype, uuid string) bool {
	begun := d.Unfinished && d.FSType == fstype && d.FSUUID == uuid ||
		d.Claim == uuid && uuid != "" && d.FSType == "" && len(d.Signatures) == 0
	return begun && d.Probed && d.PTType == "" && !d.Ambivalent && len(d.Children) == 0 && len(d.Mounts) == 0 && !d.Swap && d.Busy == "" && d.Unreadable == ""
}

// mkfs runs the program and brings its result onto the platter. A lock on the
// device keeps udev from looking at it half-made; udev looks when the lock's
// descriptor, which could write, is closed (systemd's "Locking Block Device
// Access").
func (l *Linux) mkfs(ctx context.Context, c change.MakeFilesystem, d BlockDevice) error {
	f, err := os.OpenFile(d.Path, os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lockDevice(ctx, f); err != nil {
		return err
	}
	p, err := mkfsProgram(c, d)
	if err != nil {
		return err
	}
	if c.Type == "ext4" {
		if err := claim(f, c.UUID); err != nil {
			return err
		}
	}
	if _, err := l.must(ctx, p); err != nil {
		return fail.Wrap(fail.Step, err, "see the kernel's log for errors of the device: dmesg", "%s (%s) could not be formatted", c.Device, d.Path)
	}
	if err := errors.Join(f.Sync(), unclaim(f, c.UUID)); err != nil {
		return fail.Wrap(fail.Step, err, "see the kernel's log for errors of the device: dmesg", "%s (%s) did not take the new filesystem", c.Device, d.Path)
	}
	return nil
}

// mkfsProgram is the argument list of mkfs.xfs or mkfs.ext4. Neither forces
// anything, except over our own half-made xfs: mkfs.xfs then looks for
// signatures once more by itself. Nothing is discarded: that is quick, and
// fstrim.timer does it later. stdin is /dev/null.
func mkfsProgram(c change.MakeFilesystem, d BlockDevice) (program, error) {
	p := program{name: "mkfs." + c.Type, timeout: 30 * time.Minute}
	switch c.Type {
	case "xfs":
		p.args = []string{"-q", "-K", "-L", c.Label, "-m", "uuid=" + c.UUID}
		if c.Resume {
			p.args = append(p.args, "-f")
		}
	case "ext4":
		p.args = []string{"-q", "-E", "nodiscard", "-L", c.Label, "-U", c.UUID}
	default:
		return p, fmt.Errorf("no way to make a %s", c.Type)
	}
	p.args = append(append(p.args, c.Options...), d.Path)
	return p, nil
}

// lockDevice takes the advisory lock that udev respects; udev holds it only for
// moments.
func lockDevice(ctx context.Context, f *os.File) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return fail.New(fail.Safety, "see who works on it: fuser -v "+f.Name(), "another program holds the lock of %s", f.Name())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
