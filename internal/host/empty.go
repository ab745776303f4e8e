package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyEmptyFilesystem deletes what is below a mount point, across no further
// mount and no link, and notes it. The note comes last: a run that is killed
// goes on where it was.
func (l *Linux) applyEmptyFilesystem(_ context.Context, c change.EmptyFilesystem, progress func(string)) error {
	return l.emptyFilesystem(diskLinks, c, progress)
}

func (l *Linux) emptyFilesystem(links linkDir, c change.EmptyFilesystem, progress func(string)) error {
	device, err := filepath.EvalSymlinks(filepath.Join(string(links), "by-uuid", c.UUID))
	if err != nil {
		return fail.Wrap(fail.Step, err, "see: lsblk -f", "there is no device with the filesystem %s", c.UUID)
	}
	number, err := deviceNumber(device)
	if err != nil {
		return err
	}
	mounts, err := l.Mounts()
	if err != nil {
		return err
	}
	m, ok := mountOf(mounts, c.Target)
	if !ok || m.Target != c.Target || m.Root != "/" || m.Device != number && realName(m.Source) != filepath.Base(device) {
		return fail.New(fail.Safety, "see: findmnt "+c.Target, "%s is not where the filesystem %s is mounted: nothing was deleted", c.Target, c.UUID)
	}
	dir, err := unix.Open(c.Target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.Target, Err: err}
	}
	f := os.NewFile(uintptr(dir), c.Target)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Target, err)
	}
	progress(fmt.Sprintf("deleting %d entries below %s", len(names), c.Target))
	for _, n := range names {
		if n == "lost+found" { // fsck's, and empty where all is well
			continue
		}
		if err := removeAt(dir, n, filepath.Join(c.Target, n)); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(dir); err != nil {
		return fmt.Errorf("sync of %s: %w", c.Target, err)
	}
	return l.Save(c.Marker, []byte(c.UUID+"\n"))
}
