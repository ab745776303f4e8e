package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
)

// path places an absolute path below the root, resolving every symbolic link
// on the way inside the root, so that a fixture's link to /usr/lib/os-release
// never leaves the fixture. The final element is resolved too.
func (l *Linux) path(p string) string {
	if l.root == "/" {
		return p
	}
	return l.resolve(p, true)
}

func (l *Linux) resolve(p string, final bool) string {
	rest := strings.Split(filepath.Clean("/"+p), "/")[1:]
	at := "/" // resolved so far, relative to the root
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name)
		if !final && len(rest) == 0 {
			at = next
			break
		}
		target, err := os.Readlink(filepath.Join(l.root, next))
		if err != nil || hops > 40 {
			at = next
			continue
		}
		hops++
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(filepath.Clean(target), "/"), rest...)
	}
	return filepath.Join(l.root, at)
}

// ReadFile returns a file's content, at most MaxFile bytes.
func (l *Linux) ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(l.path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.Join(err, syscall.EISDIR)}
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("%s is larger than %s", path, change.Size(MaxFile))
	}
	return b, err
}

// Stat describes a path without following a final link. Owner and mode of a
// link are those of its target, since that is what a write keeps.
func (l *Linux) Stat(path string) (FileInfo, error) {
	p := path
	if l.root != "/" {
		p = l.resolve(path, false)
	}
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return FileInfo{}, nil
	}
	if err != nil {
		return FileInfo{}, err
	}
	out := FileInfo{Exists: true}
	if info.Mode()&fs.ModeSymlink != 0 {
		if out.Link, err = os.Readlink(p); err != nil {
			return FileInfo{}, err
		}
		if info, err = os.Stat(l.path(path)); err != nil {
			return out, nil // dangling
		}
	}
	buf := make([]byte, 256)
	if n, err := syscall.Getxattr(l.path(path), "security.selinux", buf); err == nil && n > 0 {
		out.SELinux = strings.TrimRight(string(buf[:n]), "\x00")
	}
	st := info.Sys().(*syscall.Stat_t)
	out.Dir, out.Size, out.Mode = info.IsDir(), info.Size(), st.Mode&0o7777
	out.Modified = info.ModTime().UnixMicro()
	out.Owner = l.userName(st.Uid) + ":" + l.groupName(st.Gid)
	return out, nil
}

// ReadDir returns the sorted names in a directory.
func (l *Linux) ReadDir(path string) ([]string, error) {
	entries, err := os.ReadDir(l.path(path))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names, err
}

func (l *Linux) userName(uid uint32) string {
	if uid == 0 {
		return "root"
	}
	if l.root == "/" {
		if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
			return u.Username
		}
	}
	return strconv.Itoa(int(uid))
}

func (l *Linux) groupName(gid uint32) string {
	if gid == 0 {
		return "root"
	}
	if l.root == "/" {
		if g, err := user.LookupGroupId(strconv.Itoa(int(gid))); err == nil {
			return g.Name
		}
	}
	return strconv.Itoa(int(gid))
}

func ownerIDs(owner string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(owner, ":")
	if uid, err = strconv.Atoi(u); err != nil {
		found, err := user.Lookup(u)
		if err != nil {
			return 0, 0, err
		}
		uid, _ = strconv.Atoi(found.Uid)
	}
	if g == "" {
		g = u
	}
	if gid, err = strconv.Atoi(g); err != nil {
		found, err := user.LookupGroup(g)
		if err != nil {
			return 0, 0, err
		}
		gid, _ = strconv.Atoi(found.Gid)
	}
	return uid, gid, nil
}

// Octal writes permission bits the way people do: 0644.
func Octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

func (l *Linux) applyWriteFile(ctx context.Context, c change.WriteFile, _ func(string)) error {
	mode, err := strconv.ParseUint(c.Mode, 8, 12)
	if err != nil {
		return fmt.Errorf("mode %q of %s is not octal", c.Mode, c.Path)
	}
	uid, gid, err := ownerIDs(c.Owner)
	if err != nil {
		return fmt.Errorf("owner %q of %s: %w", c.Owner, c.Path, err)
	}
	if err := l.check(ctx, c); err != nil {
		return err
	}
	if c.Secret {
		if err := l.keep(ctx, c); err != nil {
			return fmt.Errorf("keeping %s as it is: %w", c.Path, err)
		}
	}
	if err := l.writeAtomic(ctx, c.Path, []byte(c.Content), os.FileMode(mode), uid, gid); err != nil || c.Reload == "" {
		return err
	}
	return l.reloadUnit(ctx, c.Reload)
}

// writeAtomic makes path hold data or leaves it as it was, whatever happens in
// between: a temporary file in the same directory, fsync, rename, fsync of the
// directory. A symbolic link is kept and its target replaced, if nobody else
// could have made the link.
func (l *Linux) writeAtomic(_ context.Context, path string, data []byte, mode os.FileMode, uid, gid int) error {
	return replace(path, false, data, mode, uid, gid)
}

// replace is writeAtomic; own is that of openDir.
func replace(path string, own bool, data []byte, mode os.FileMode, uid, gid int) error {
	dir, name, err := openParent(path, own)
	if err != nil {
		return err
	}
	defer dir.Close()
	root, err := within(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tmp := temporary(name)
	if err := discard(root, tmp); err != nil {
		return err
	}
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	for _, do := range []func() error{
		func() error { _, err := f.Write(data); return err },
		func() error { return f.Chown(uid, gid) },
		// After chown, which clears set-id bits.
		func() error { return syscall.Fchmod(int(f.Fd()), uint32(mode)) },
		func() error { copyLabel(filepath.Join(root.Name(), name), f); return nil },
		f.Sync,
	} {
		if err == nil {
			err = do()
		}
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), discard(root, tmp))
	}
	return syncFile(dir, filepath.Dir(path))
}

// copyLabel gives the new file the SELinux label of the one it replaces. A
// file that is new gets its directory's default label from the kernel. No link
// is followed: the directory may be a user's.
func copyLabel(from string, to *os.File) {
	buf := make([]byte, 256)
	if n, err := unix.Lgetxattr(from, "security.selinux", buf); err == nil && n > 0 {
		_ = unix.Fsetxattr(int(to.Fd()), "security.selinux", buf[:n], 0) // SELinux off: nothing to keep
	}
}

// makeDirs makes a directory and what is missing above it; see openDir.
func makeDirs(dir string) error {
	d, err := openDir(dir, false)
	if err != nil {
		return err
	}
	return d.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncFile(d, dir)
}

// applyRemoveFile removes a file, and directories that were made for it and are
// empty now.
func (l *Linux) applyRemoveFile(ctx context.Context, c change.RemoveFile, _ func(string)) error {
	if c.Shred {
		if err := shred(c.Path); err != nil {
			return err
		}
	}
	if err := unlink(c.Path); err != nil {
		return err
	}
	if err := removeDirs(filepath.Dir(c.Path), c.Dirs); err != nil || c.Reload == "" {
		return err
	}
	return l.reloadUnit(ctx, c.Reload)
}

// unlink removes a file, through no link that somebody else could have made;
// one that is missing is fine, as everything in a missing directory is.
func unlink(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	dir, err := openDir(filepath.Dir(path), false)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	err = unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == unix.EISDIR { // an empty one goes too
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	if err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// removeDirs removes directories that are empty, deepest last in the list, and
// returns when that and what was removed from dir is on disk.
func removeDirs(dir string, dirs []string) error {
	for _, d := range slices.Backward(dirs) {
		err := syscall.Rmdir(d)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			if dir == d || strings.HasPrefix(dir, d+"/") {
				dir = filepath.Dir(d)
			}
		case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ENOTDIR):
		default:
			return &fs.PathError{Op: "rmdir", Path: d, Err: err}
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return syncDir(dir)
}

// keep saves a file that others may not read before it is written for the first
// time, and notes what is written, so that a reset can tell and give it back.
func (l *Linux) keep(ctx context.Context, c change.WriteFile) error {
	path := change.KeepsakePath(c.Path)
	old, err := l.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var now *change.Content
	t, err := ReadText(l, c.Path)
	if err != nil {
		return err
	}
	if t.Exists {
		now = &change.Content{Mode: t.Mode, Owner: t.Owner, Data: []byte(t.Content)}
	}
	b, err := change.Keep(old, c.Path, now, c.Content)
	if err != nil {
		return err
	}
	return l.Save(path, b)
}

// applyRestoreFile puts a file back from its copy, which goes last: a run that
// is killed in between finds it again.
func (l *Linux) applyRestoreFile(ctx context.Context, c change.RestoreFile, _ func(string)) error {
	copied := change.KeepsakePath(c.Path)
	b, err := l.ReadFile(copied)
	if err != nil {
		return fmt.Errorf("the copy of %s: %w", c.Path, err)
	}
	var k change.Keepsake
	if err := json.Unmarshal(b, &k); err != nil || k.Path != c.Path || k.Before == nil {
		return fmt.Errorf("%s is not the copy of %s: %w", copied, c.Path, errors.Join(err, fs.ErrInvalid))
	}
	if err := l.applyWriteFile(ctx, change.WriteFile{Path: c.Path, Mode: k.Before.Mode, Owner: k.Before.Owner, Content: string(k.Before.Data)}, nil); err != nil {
		return err
	}
	return l.applyRemoveFile(ctx, change.RemoveFile{Path: copied, Dirs: []string{change.SavedDirectory}}, nil)
}
