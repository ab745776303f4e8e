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
	path, err := resolveLink(dir, c)
	if err != nil {
		return err
	}
	// The lock keeps udev, and whoever else respects it, away from the last look
	// to the end of mkfs (systemd's "Locking Block Device Access").
	lock, err := lockDevice(ctx, wholeDisk(path))
	if err != nil {
		return err
	}
	defer lock.Close()
	d, err := l.recheck(ctx, dir, c, path)
	if err != nil {
		return err
	}
	progress("formatting " + d.Path)
	if err := l.mkfs(ctx, c, d, lock); err != nil {
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

// refusal is that a device is not what the plan says.
func refusal(c change.MakeFilesystem, format string, a ...any) error {
	return fail.New(fail.Safety, "look at it again: nodeagent plan", "%s for disk %s is not formatted: %s", c.Device, c.Disk, fmt.Sprintf(format, a...))
}

// resolveLink returns the device node behind the stable link of a change.
func resolveLink(dir linkDir, c change.MakeFilesystem) (string, error) {
	if filepath.Dir(filepath.Dir(c.Device)) != string(dir) {
		return "", refusal(c, "it is not a stable link below %s", dir)
	}
	path, err := filepath.EvalSymlinks(c.Device)
	if err != nil {
		return "", fail.Wrap(fail.Step, err, "attach the device, or look at: nodeagent plan", "%s for disk %s is gone", c.Device, c.Disk)
	}
	return path, nil
}

// recheck looks at the device again as if nothing were known of it. Whatever
// differs from the plan is a refusal.
func (l *Linux) recheck(ctx context.Context, dir linkDir, c change.MakeFilesystem, target string) (BlockDevice, error) {
	l.forget()
	devices, err := l.blockDevices(ctx, dir)
	if err != nil {
		return BlockDevice{}, err
	}
	i := slices.IndexFunc(devices, func(d BlockDevice) bool { return d.Path == target })
	if i < 0 {
		return BlockDevice{}, refusal(c, "it leads to %s, which lsblk doesn't list", target)
	}
	for _, other := range devices {
		if other.Label == c.Label && other.Path != target {
			return BlockDevice{}, refusal(c, "label %s is on %s already", c.Label, other.Path)
		}
	}
	d, err := l.probe(ctx, devices[i])
	if err != nil {
		return BlockDevice{}, err
	}
	switch {
	case !slices.Contains([]string{"disk", "part", "loop"}, d.Type):
		return d, refusal(c, "%s is of type %s", target, d.Type)
	case d.Size != c.Size || d.Serial != c.Serial || d.WWN != c.WWN:
		return d, refusal(c, "it leads to another device now: %s has size %d, serial %q, wwn %q; planned was size %d, serial %q, wwn %q", target, d.Size, d.Serial, d.WWN, c.Size, c.Serial, c.WWN)
	case d.ReadOnly:
		return d, refusal(c, "%s is read-only", target)
	case c.Resume && d.HalfMade(c.Type, c.UUID):
		return d, nil
	}
	if why := d.NotBlank(); len(why) > 0 {
		return d, refusal(c, "%s", strings.Join(why, "; "))
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

// mkfs runs the program and brings its result onto the platter. udev looks at
// the device when a descriptor that could write is closed, so the lock goes
// first.
func (l *Linux) mkfs(ctx context.Context, c change.MakeFilesystem, d BlockDevice, lock *os.File) error {
	f, err := os.OpenFile(d.Path, os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	defer lock.Close()
	p, err := mkfsProgram(c, d)
	if err != nil {
		return err
	}
	if err := claimDevice(d.Path, c.UUID); err != nil {
		return err
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

// wholeDisk returns the disk of a partition, which is what udev locks; other
// devices are their own.
func wholeDisk(path string) string {
	sys, err := filepath.EvalSymlinks(filepath.Join("/sys/class/block", filepath.Base(path)))
	if err != nil {
		return path
	}
	if _, err := os.Stat(filepath.Join(sys, "partition")); err != nil {
		return path
	}
	return filepath.Join("/dev", filepath.Base(filepath.Dir(sys)))
}

// lockDevice takes the advisory lock of a device, which udev respects and holds
// only for moments, until the file is closed.
func lockDevice(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		case time.Now().After(deadline):
			f.Close()
			return nil, fail.New(fail.Safety, "see who works on it: fuser -v "+path, "another program holds the lock of %s", path)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
