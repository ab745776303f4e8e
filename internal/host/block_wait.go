package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// waitLabel waits, at most for limit, until a by-label link leads to device. An event that udev missed is asked for again after a tenth of
// that time.
func (l *Linux) waitLabel(ctx context.Context, link, device string, limit time.Duration) error {
	there := func() bool {
		target, err := filepath.EvalSymlinks(link)
		return err == nil && target == device
	}
	start := time.Now()
	ok, err := watchLink(ctx, link, limit/10, there)
	if err == nil && !ok {
		if _, lookErr := l.LookPath("udevadm"); lookErr == nil {
			_, err = l.exec(ctx, program{name: "udevadm", args: []string{"trigger", "--action=change", "--name-match=" + device}})
		}
		if err == nil {
			ok, err = watchLink(ctx, link, limit-time.Since(start), there)
		}
	}
	if err != nil || ok {
		return err
	}
	why := "it doesn't exist"
	if target, err := filepath.EvalSymlinks(link); err == nil {
		why = "it leads to " + target
	} else if !errors.Is(err, fs.ErrNotExist) {
		why = err.Error()
	}
	hint := "see what udev does: udevadm info " + device
	if _, err := os.Stat("/run/udev"); err != nil {
		hint = "udev doesn't run here; without it nothing can be mounted by label"
	}
	return fail.New(fail.Timeout, hint, "%s has its filesystem, but %s did not lead to it within %s: %s", device, link, limit, why)
}

// watchLink returns true as soon as there() does, and false after limit. It is
// woken by the kernel when anything changes in the nearest existing directory
// of the link: by-label itself may not exist yet.
func watchLink(ctx context.Context, link string, limit time.Duration, there func() bool) (bool, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false, fmt.Errorf("inotify: %w", err)
	}
	defer unix.Close(fd)
	deadline := time.Now().Add(limit)
	watched := ""
	for {
		// A watch first, then the look: nothing is missed between them.
		dir := filepath.Dir(link)
		for dir != "/" {
			if _, err := os.Stat(dir); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		if dir != watched {
			if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE|unix.IN_DELETE_SELF); err != nil && !errors.Is(err, unix.ENOENT) {
				return false, fmt.Errorf("watching %s: %w", dir, err)
			}
			watched = dir
			continue // the directory may have grown meanwhile
		}
		if there() {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		// Woken at least once a second for ctx and for links that are changed
		// without an event of their directory.
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(min(left, time.Second)/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("waiting for %s: %w", link, err)
		}
		drain(fd)
		if _, err := os.Stat(watched); err != nil {
			watched = ""
		}
	}
}

// drain empties a non-blocking descriptor.
func drain(fd int) {
	buf := make([]byte, 4096)
	for {
		if n, err := unix.Read(fd, buf); n <= 0 || err != nil {
			return
		}
	}
}
