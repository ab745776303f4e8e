package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/config/sshkey"
	"nodeagent/internal/fail"
)

// The home directory is the user's, who can put anything there and exchange it
// at any moment. So root reads and writes nothing of it by its path: each
// directory is opened without following links, the file that is read must be
// the user's own under no second name, and what is written replaces it.

// maxKeys bounds an authorized_keys file, in bytes.
const maxKeys = 1 << 20

func (l *Linux) applyAuthorizeKeys(ctx context.Context, c change.AuthorizeKeys, _ func(string)) error {
	uid, gid, err := ownerIDs(c.User + ":" + c.Group)
	if err != nil {
		return err
	}
	home, made, err := ownedDir(c.Home, 0o700, uid, gid, false)
	if err != nil {
		return err
	}
	home.Close()
	if made {
		if err := l.restoreLabel(ctx, c.Home); err != nil {
			return err
		}
	}
	file := c.Path()
	dir, _, err := ownedDir(path.Dir(file), 0o700, uid, gid, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	// What is made in a directory inherits its type, so the directory comes first.
	if err := l.restoreLabel(ctx, path.Dir(file)); err != nil {
		return err
	}
	content, _, err := ownedText(dir, file, uid)
	if err != nil {
		return err
	}
	return replace(file, false, []byte(sshkey.Add(content, c.Keys)), 0o600, uid, gid)
}

func (l *Linux) applyRevokeKeys(_ context.Context, c change.RevokeKeys, _ func(string)) error {
	uid, gid, err := ownerIDs(c.User + ":" + c.Group)
	if err != nil {
		return err
	}
	file := change.KeysPath(c.Home)
	if _, err := os.Lstat(path.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return removeDirs(path.Dir(file), c.Dirs)
	}
	dir, _, err := ownedDir(path.Dir(file), 0o700, uid, gid, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	content, mode, err := ownedText(dir, file, uid)
	if err != nil {
		return err
	}
	left := sshkey.Without(content, c.Keys)
	if left == "" && c.Made {
		if err := unlink(file); err != nil {
			return err
		}
		return removeDirs(path.Dir(file), c.Dirs)
	}
	if left == content {
		return nil
	}
	return replace(file, false, []byte(left), mode, uid, gid)
}

// ownedDir opens a directory of a user's, or makes it. One that is there must
// be the user's, or root's; mend gives it to the user with this mode. made
// tells that it was made, now or by a run that was cut off.
func ownedDir(file string, mode uint32, uid, gid int, mend bool) (dir *os.File, made bool, err error) {
	above, err := openDir(path.Dir(file), false)
	if err != nil {
		return nil, false, err
	}
	defer above.Close()
	name := path.Base(file)
	err = unix.Mkdirat(int(above.Fd()), name, mode)
	if err != nil && err != unix.EEXIST {
		return nil, false, &fs.PathError{Op: "mkdir", Path: file, Err: err}
	}
	made = err == nil
	fd, err := unix.Openat(int(above.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		dir = os.NewFile(uintptr(fd), file)
	case err != unix.ENOTDIR && err != unix.ELOOP:
		return nil, false, &fs.PathError{Op: "open", Path: file, Err: err}
	case mend:
		return nil, false, fail.New(fail.Safety, "look at what it is (ls -ld "+file+"), and put a directory there", "%s is no directory but a link or a file: no key is written through it", file)
	default: // root's own link is followed, as /root is one on some systems
		if dir, err = openDir(file, false); err != nil {
			return nil, false, err
		}
	}
	fd = int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		dir.Close()
		return nil, false, &fs.PathError{Op: "stat", Path: file, Err: err}
	}
	if int(st.Uid) != uid && !ours(st.Uid) {
		dir.Close()
		return nil, false, fail.New(fail.Safety, "find out whose it is, then give it to the user: chown", "%s belongs to user %d and not to user %d, whose keys are to go there", file, st.Uid, uid)
	}
	if int(st.Uid) != uid {
		// Root's own may have been moved here by the user, even in place of what
		// was made just now. What the user can't see into is only given away when
		// it is empty, as a new one is.
		empty, err := holdsNothing(dir)
		made = false
		switch shut := st.Mode&0o005 != 0o005; {
		case err != nil:
			dir.Close()
			return nil, false, err
		case shut && empty:
			made = true
		case shut:
			dir.Close()
			return nil, false, fail.New(fail.Safety, "look at what is in it, then give it to the user or move it away", "%s is root's, holds something, and is shut to user %d, whose keys are to go there", file, uid)
		}
	}
	if made || mend && (int(st.Uid) != uid || st.Mode&0o7777 != mode) {
		if err := errors.Join(dir.Chown(uid, gid), unix.Fchmod(fd, mode), syncFile(above, path.Dir(file))); err != nil {
			dir.Close()
			return nil, false, err
		}
	}
	return dir, made, nil
}

func holdsNothing(dir *os.File) (bool, error) {
	names, err := dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(names) == 0, err
}

// ownedText reads a user's own file in a directory that is open, or root's that
// everybody can read: the user could have moved any other one here. A missing one
// is empty.
func ownedText(dir *os.File, file string, uid int) (content string, mode os.FileMode, err error) {
	fd, err := unix.Openat(int(dir.Fd()), path.Base(file), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return "", 0o600, nil
	}
	var st unix.Stat_t
	if err == nil {
		f := os.NewFile(uintptr(fd), file)
		defer f.Close()
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (int(st.Uid) == uid || ours(st.Uid) && st.Mode&0o004 != 0) && st.Nlink == 1 {
			b, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
			if err == nil && len(b) > maxKeys {
				err = fmt.Errorf("%s is larger than %s", file, change.Size(maxKeys))
			}
			return string(b), os.FileMode(st.Mode & 0o777), err
		}
	}
	if err != nil && err != unix.ELOOP {
		return "", 0, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	return "", 0, fail.New(fail.Safety, "find out what it is (ls -l "+file+"), and move it away", "%s is a link, has a second name, or isn't the user's own file: it is neither read nor written", file)
}

// restoreLabel gives a directory the SELinux label of the policy, without force:
// whatever stands there meanwhile gets no label that it can't have by itself.
func (l *Linux) restoreLabel(ctx context.Context, dir string) error {
	s, err := l.System()
	if err != nil || s.SELinux == "disabled" {
		return err
	}
	if _, err := l.LookPath("restorecon"); errors.Is(err, fs.ErrNotExist) { // a kernel with SELinux, and no policy
		return nil
	}
	if _, err := l.must(ctx, program{name: "restorecon", args: []string{"--", dir}}); err != nil {
		return fail.Wrap(fail.Step, err, "run it by hand and see what the policy lacks: restorecon -v "+dir, "the SELinux label of %s could not be restored", dir)
	}
	return nil
}
