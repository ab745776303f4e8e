package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// openDir opens a directory by walking there from /, one component at a time
// and never through a link that somebody else could have put there: a link
// counts only if root made it in a directory that nobody else can write to.
// What has been opened stays what it is, whatever is renamed meanwhile. Missing
// directories are made with mode 0755, whatever the umask is, and fsynced.
//
// own says that the directory and the way there must be root's alone, as those
// are that keep the lock, the journal and the join's files.
func openDir(dir string, own bool) (*os.File, error) {
	links := 0
restart:
	at := "/"
	here, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	rest := strings.Split(strings.Trim(filepath.Clean("/"+dir), "/"), "/")
	for i, name := range rest {
		if name == "" {
			break
		}
		next, err := step(here, at, name)
		var link linked
		if errors.As(err, &link) {
			here.Close()
			if links++; links > 40 {
				return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ELOOP}
			}
			dir = filepath.Join(append([]string{string(link)}, rest[i+1:]...)...)
			goto restart
		}
		if err == nil && own {
			err = mine(next, filepath.Join(at, name))
		}
		here.Close()
		if err != nil {
			if next != nil {
				next.Close()
			}
			return nil, err
		}
		here, at = next, filepath.Join(at, name)
	}
	return here, nil
}

// linked is the error of a component that is a link that may be followed: the
// absolute path it leads to.
type linked string

func (l linked) Error() string { return "a link to " + string(l) }

// step opens, or makes, the directory name in the directory here.
func step(here *os.File, at, name string) (*os.File, error) {
	path := filepath.Join(at, name)
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(here.Fd()), name, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdirat(int(here.Fd()), name, 0o755); err != nil && err != unix.EEXIST {
			return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
		made := err == nil
		if fd, err = unix.Openat(int(here.Fd()), name, flags, 0); err == nil && made {
			if err = errors.Join(unix.Fchmod(fd, 0o755), syncFile(here, at)); err != nil {
				unix.Close(fd)
				return nil, err
			}
		}
	}
	if err == nil {
		return os.NewFile(uintptr(fd), path), nil
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		target, found, refused := follow(here, at, name)
		if refused != nil {
			return nil, refused
		}
		if found {
			return nil, linked(target)
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

// follow returns where the link name in the directory here leads; found is
// false when it is no link. A link that another user could have made is
// refused.
func follow(here *os.File, at, name string) (target string, found bool, err error) {
	path := filepath.Join(at, name)
	var st, dir unix.Stat_t
	if err := unix.Fstatat(int(here.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false, nil
	}
	if err := unix.Fstat(int(here.Fd()), &dir); err != nil {
		return "", false, &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	if !ours(st.Uid) || !ours(dir.Uid) || dir.Mode&0o022 != 0 && dir.Mode&unix.S_ISVTX == 0 {
		return "", false, fail.New(fail.Safety, "find out who made it and where it leads (ls -l "+path+"), and remove it",
			"%s is a link that another user could have made, so nothing is written through it", path)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(here.Fd()), name, buf)
	if err != nil {
		return "", false, &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	target = string(buf[:n])
	if !filepath.IsAbs(target) {
		target = filepath.Join(at, target)
	}
	return target, true, nil
}

// mine refuses a directory that others own or can write to.
func mine(dir *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case !ours(st.Uid):
		return fail.New(fail.Safety, "find out why it is theirs, then remove it: nodeagent makes its own anew", "%s belongs to user %d, not to root", path, st.Uid)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fail.New(fail.Safety, fmt.Sprintf("look at what is in it, then: chmod go-w %s", path), "%s can be written by others (mode %s)", path, Octal(st.Mode&0o7777))
	}
	return nil
}

// ours tells root, and whoever runs this, which is root but in tests.
func ours(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// openParent opens the directory of a file and returns the file's name in it.
// A link in the file's place is followed when it can be trusted, as
// /etc/sysctl.d/99-sysctl.conf is one on some systems. A file of our own is never
// a link.
func openParent(path string, own bool) (dir *os.File, name string, err error) {
	path = filepath.Clean("/" + path)
	for links := 0; ; links++ {
		if dir, err = openDir(filepath.Dir(path), own); err != nil {
			return nil, "", err
		}
		name = filepath.Base(path)
		target, found, err := follow(dir, filepath.Dir(path), name)
		if err == nil && !found {
			return dir, name, nil
		}
		if err == nil && (own || links > 40) {
			err = &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		dir.Close()
		if err != nil {
			return nil, "", err
		}
		path = filepath.Clean(target)
	}
}

func syncFile(f *os.File, path string) error {
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some filesystems can't
		return fmt.Errorf("fsync of %s: %w", path, err)
	}
	return nil
}

// within is a directory that is open already as an os.Root.
func within(dir *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
}
