package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// State is where a run keeps what outlives it. It is apart from Apply because
// none of it changes what the host does.
type State interface {
	// Lock takes the lock of all runs or returns a Held.
	Lock(path string) (Lock, error)
	// Append adds one line to a file and returns when it is on disk. A torn
	// last line left by a crash is closed first.
	Append(path string, line []byte) error
	// Save replaces a file atomically, mode 0600.
	Save(path string, data []byte) error
	// Scratch removes files of an earlier run that must not outlive it.
	Scratch(paths ...string) error
}

// Lock is the held lock of all runs.
type Lock interface {
	// Note leaves a line for other runs and for `status`: what goes on now.
	Note(line string) error
	Release() error
}

// Held is the error of a lock that another process holds.
type Held struct {
	Path string
	Note string // what the holder noted last
}

// Error names the lock.
func (h Held) Error() string { return "another run holds " + h.Path }

type flock struct{ f *os.File }

// Lock uses flock(2), which the kernel drops when the holder dies, so there is
// no stale lock.
func (l *Linux) Lock(path string) (Lock, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, explain(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		b := make([]byte, 512)
		n, _ := f.ReadAt(b, 0)
		return nil, Held{Path: path, Note: string(bytes.TrimSpace(b[:n]))}
	}
	return &flock{f}, nil
}

func (k *flock) Note(line string) error {
	if err := k.f.Truncate(0); err != nil {
		return err
	}
	_, err := k.f.WriteAt([]byte(line+"\n"), 0)
	return err
}

func (k *flock) Release() error {
	if err := k.f.Truncate(0); err != nil {
		return err
	}
	return k.f.Close()
}

// Append adds one fsynced line.
func (l *Linux) Append(path string, line []byte) error {
	return explain(appendLine(path, line))
}

func appendLine(path string, line []byte) error {
	_, statErr := os.Lstat(path)
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	defer f.Close()
	end := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if _, err := f.ReadAt(end, info.Size()-1); err == nil && end[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if errors.Is(statErr, fs.ErrNotExist) {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// Save replaces a file atomically. What is saved tells of changes, so these are
// on the disks before it: programs and services of others don't sync their files.
func (l *Linux) Save(path string, data []byte) error {
	l.mu.Lock()
	if l.unsynced {
		unix.Sync()
		l.unsynced = false
	}
	l.mu.Unlock()
	return explain(replace(path, true, data, 0o600, 0, 0))
}

// openOwn opens a file of ours in a directory of ours. A link or a file of
// somebody else in its place is refused.
func openOwn(path string, flags int) (*os.File, error) {
	dir, name, err := openParent(path, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !ours(st.Uid) || st.Nlink != 1 {
		f.Close()
		return nil, fail.New(fail.Safety, "find out who made it (stat "+path+"), and remove it", "%s is not a file that nodeagent made: it has another owner, another name, or is no plain file", path)
	}
	return f, nil
}

// Scratch removes leftovers; missing ones are fine.
func (l *Linux) Scratch(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
