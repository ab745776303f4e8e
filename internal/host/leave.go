package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyUnmountVolumes unmounts what is mounted at the targets, deepest first,
// each as often as something is mounted there. A link is never followed.
func (l *Linux) applyUnmountVolumes(_ context.Context, c change.UnmountVolumes, progress func(string)) error {
	for _, target := range c.Targets {
		for {
			mounts, err := l.Mounts()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == target }) {
				break
			}
			progress("unmounting " + target)
			if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
				return fail.Wrap(fail.Step, err, "see what still uses it, end that, then run again: fuser -vm "+target, "%s can't be unmounted", target)
			}
		}
	}
	return nil
}

// applyRemoveState removes files and directory trees. Nothing is followed: no
// link, no mount, not even a bind mount of the same filesystem. A tree that has
// one is refused before anything in it is removed.
func (l *Linux) applyRemoveState(_ context.Context, c change.RemoveState, progress func(string)) error {
	mounts, err := l.Mounts()
	if err != nil {
		return err
	}
	for _, p := range c.Paths {
		for _, m := range mounts {
			if m.Target == p || strings.HasPrefix(m.Target, p+"/") {
				return fail.New(fail.Safety, "unmount it yourself and run again: umount "+m.Target, "%s holds a mount, and nothing is deleted across a mount: %s (%s)", p, m.Target, m.Source)
			}
		}
	}
	for _, p := range c.Paths {
		progress("removing " + p)
		if err := removeTree(p); err != nil {
			return err
		}
	}
	return removeDirs(filepath.Dir(c.Paths[0]), c.Dirs)
}

// noCrossing keeps openat2(2) from leaving the directory it starts in by a
// mount, bind mounts among them, or by a link.
const noCrossing = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS

// removeTree removes path and all below it. The directories above path may be
// mounts or links of the administrator's choice; from there on nothing is
// crossed.
func removeTree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(parent)
	return removeAt(parent, filepath.Base(path), path)
}

// removeAt removes one name in a directory; path is for messages.
func removeAt(dir int, name, path string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// POSIX says EPERM for a directory, Linux EISDIR.
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	fd, openErr := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: noCrossing})
	switch {
	case errors.Is(openErr, unix.EXDEV):
		return fail.New(fail.Safety, "unmount it yourself and run again: umount "+path, "%s is a mount, and nothing is deleted across a mount", path)
	case openErr != nil:
		return &fs.PathError{Op: "remove", Path: path, Err: errors.Join(err, openErr)}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	for _, n := range names {
		if err := removeAt(fd, n, filepath.Join(path, n)); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}
