package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Mounts is the parsed mountinfo of this process, or the one a tree of files
// carries.
func (l *Linux) Mounts() ([]Mount, error) {
	b, err := l.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) && !l.Live() {
		return nil, ErrUnobservable
	}
	if err != nil {
		return nil, err
	}
	return parseMountinfo(b), nil
}

// Filesystem describes the filesystem under path or its nearest existing
// parent. In a tree of files the free space isn't known and zero.
func (l *Linux) Filesystem(path string) (Filesystem, error) {
	mounts, err := l.Mounts()
	if err != nil {
		return Filesystem{}, err
	}
	if !l.Live() {
		m, ok := mountOf(mounts, filepath.Clean(path))
		if !ok {
			return Filesystem{}, ErrUnobservable
		}
		return Filesystem{Type: m.Type, Source: m.Source, Target: m.Target, ReadOnly: slices.Contains(m.Options, "ro")}, nil
	}
	path = filepath.Clean(path)
	for {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = resolved
			break
		}
		if path == "/" || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return Filesystem{}, err
		}
		path = filepath.Dir(path)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Filesystem{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	const readOnly = 1 // ST_RDONLY, statfs(2)
	out := Filesystem{FreeBytes: st.Bavail * uint64(st.Bsize), ReadOnly: st.Flags&readOnly != 0}
	if m, ok := mountOf(mounts, path); ok {
		out.Type, out.Source, out.Target = m.Type, m.Source, m.Target
		out.Sandboxed = out.ReadOnly && l.sandboxed(m, path)
	}
	return out, nil
}
