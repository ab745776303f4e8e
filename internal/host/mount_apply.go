package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyMount enables the mount unit, loads and starts it, then looks in
// mountinfo whether the right device is there. What has no device is looked at
// by the step that asked for it.
func (l *Linux) applyMount(ctx context.Context, c change.Mount, progress func(string)) error {
	if c.Source != "" {
		return l.startMount(ctx, c, progress)
	}
	device, err := filepath.EvalSymlinks(diskLinks.label(c.Label))
	if err != nil {
		// Most often just not there yet: the device has been formatted a moment
		// ago by a run that was killed, or has just been attached.
		if err := l.settle(ctx); err != nil {
			return err
		}
		if device, err = filepath.EvalSymlinks(diskLinks.label(c.Label)); err != nil {
			return fail.Wrap(fail.Step, err, "see whether it is attached and what udev made of it: lsblk -f; udevadm info DEVICE", "there is no device labelled %s", c.Label)
		}
	}
	if err := l.startMount(ctx, c, progress); err != nil {
		return err
	}
	return l.verifyMount(c, device)
}

// startMount enables a mount unit and starts it.
func (l *Linux) startMount(ctx context.Context, c change.Mount, progress func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	if !c.Foreign {
		if _, _, err := m.EnableUnitFilesContext(ctx, []string{c.Unit}, false, true); err != nil {
			return fmt.Errorf("enabling %s: %w", c.Unit, err)
		}
	}
	// Without a reload between the new file and the mount, systemd may unmount
	// what it believes not to be wanted.
	if err := m.ReloadContext(ctx); err != nil {
		return fmt.Errorf("systemd daemon-reload: %w", err)
	}
	progress("starting " + c.Unit)
	if err := l.job(ctx, m.StartUnitContext, c.Unit, "start"); err != nil {
		why := ""
		if last := l.lastJournal(ctx, c.Unit); last != "" {
			why = "; " + c.Unit + " says: " + last
		}
		return fail.Wrap(fail.Step, err, "see: journalctl -u "+c.Unit, "%s could not be mounted%s", c.Target, why)
	}
	return nil
}

// verifyMount compares what is mounted with what was asked: device, type and
// the whole of the filesystem, not a part of it.
func (l *Linux) verifyMount(c change.Mount, device string) error {
	mounts, err := l.Mounts()
	if err != nil {
		return err
	}
	m, ok := mountOf(mounts, c.Target)
	const hint = "see: findmnt; systemctl status"
	if !ok || m.Target != c.Target {
		return fail.New(fail.Step, hint+" "+c.Unit, "%s was started, but nothing is mounted on %s", c.Unit, c.Target)
	}
	number, err := deviceNumber(device)
	if err != nil {
		return err
	}
	if m.Device != number && realName(m.Source) != filepath.Base(device) || m.Root != "/" {
		return fail.New(fail.Step, hint+" "+c.Unit, "%s is mounted from %s (%s, %s of it), not from %s (%s), which is labelled %s", c.Target, m.Source, m.Device, m.Root, device, number, c.Label)
	}
	if m.Type != c.Type {
		return fail.New(fail.Step, hint+" "+c.Unit, "%s is mounted as %s, not as %s", c.Target, m.Type, c.Type)
	}
	if c.UUID != "" {
		byUUID, err := filepath.EvalSymlinks(filepath.Join(string(diskLinks), "by-uuid", c.UUID))
		if err == nil && byUUID != device {
			return fail.New(fail.Step, hint+" "+c.Unit, "label %s leads to %s, but the filesystem with uuid %s is on %s", c.Label, device, c.UUID, byUUID)
		}
	}
	return nil
}

// deviceNumber returns major:minor of a device node as mountinfo writes it.
func deviceNumber(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no device number", path)
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
}

// applyRelabel restores labels on a filesystem that has none. One that has
// keeps them: those of container files are made at run time and not in the
// policy.
func (l *Linux) applyRelabel(ctx context.Context, c change.Relabel, progress func(string)) error {
	info, err := l.Stat(c.Path)
	if err != nil {
		return err
	}
	if !info.Exists {
		return fail.New(fail.Step, "look at: nodeagent plan", "%s, which was to be relabelled, is not there", c.Path)
	}
	if Labelled(info.SELinux) {
		return nil
	}
	progress("restorecon -RF " + c.Path)
	if _, err := l.must(ctx, program{name: "restorecon", args: []string{"-RF", c.Path}, timeout: 30 * time.Minute}); err != nil {
		return fail.Wrap(fail.Step, err, "install policycoreutils and container-selinux and run again", "SELinux labels below %s could not be restored", c.Path)
	}
	if info, err = l.Stat(c.Path); err != nil {
		return err
	}
	if !Labelled(info.SELinux) {
		return fail.New(fail.Step, "see whether the policy knows it: matchpathcon "+c.Path, "%s still has no SELinux label after restorecon", c.Path)
	}
	return nil
}

// Labelled tells whether an SELinux context is a real one. Files of a
// filesystem made without SELinux show as unlabeled_t.
func Labelled(context string) bool {
	return context != "" && !strings.Contains(context, ":unlabeled_t:")
}
