package host

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"nodeagent/internal/prereq/archive"
)

// unpack writes the entries of a tar archive below a directory. The whole
// archive is read and checked first, so that a bad one changes nothing. All
// writing goes through os.Root: no link on the way, in the archive or already
// there, can lead out of the directory. What all files hold is at most limit
// bytes.
func unpack(f *os.File, zipped bool, into string, limit int64) ([]archive.File, error) {
	if err := eachEntry(f, zipped, checker(limit)); err != nil {
		return nil, err
	}
	dir, err := openDir(into, false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := within(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	u := &unpacker{root: root, into: into, dirs: map[string]bool{".": true}}
	if err := eachEntry(f, zipped, u.entry); err != nil {
		return nil, err
	}
	for dir := range u.dirs {
		if err := syncDir(filepath.Join(into, dir)); err != nil {
			return nil, err
		}
	}
	return u.files()
}

// eachEntry calls do for every entry, from the beginning.
func eachEntry(f *os.File, zipped bool, do func(h *tar.Header, name string, r io.Reader) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var r io.Reader = bufio.NewReaderSize(f, 1<<20)
	if zipped {
		z, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		defer z.Close()
		r = z
	}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := archive.Check(h)
		if err != nil {
			return err
		}
		if err := do(h, name, t); err != nil {
			return err
		}
	}
}

// checker reads every entry to its end and counts.
func checker(limit int64) func(*tar.Header, string, io.Reader) error {
	var entries, size int64
	return func(h *tar.Header, _ string, r io.Reader) error {
		entries++
		n, err := io.Copy(io.Discard, io.LimitReader(r, limit+1))
		size += n
		switch {
		case err != nil:
			return fmt.Errorf("reading %q in the archive: %w", h.Name, err)
		case entries > archive.MaxEntries:
			return fmt.Errorf("more than %d entries", archive.MaxEntries)
		case size > limit:
			return fmt.Errorf("more than %d bytes when unpacked", limit)
		}
		return nil
	}
}

type unpacker struct {
	root  *os.Root
	into  string
	dirs  map[string]bool // that entries were put into
	names []string        // of files and links, in order
}

func (u *unpacker) entry(h *tar.Header, name string, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return u.mkdir(name)
	}
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	u.names = append(u.names, name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		return u.swap(name, func(tmp string) error { return u.root.Symlink(h.Linkname, tmp) })
	case tar.TypeLink:
		return u.swap(name, func(tmp string) error { return u.root.Link(path.Clean(h.Linkname), tmp) })
	}
	// Others may not write what root runs, and nothing gets set-id bits.
	return place(u.root, name, r, h.FileInfo().Mode().Perm()&^0o022)
}

// mkdir makes a directory and its parents with mode 0755, whatever the umask;
// those that are there stay as they are.
func (u *unpacker) mkdir(name string) error {
	if u.dirs[name] {
		return nil
	}
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	u.dirs[name] = true
	err := u.root.Mkdir(name, 0o755)
	if err == nil {
		return u.root.Chmod(name, 0o755)
	}
	if info, statErr := u.root.Stat(name); statErr == nil && info.IsDir() {
		return nil
	}
	return err
}

// swap makes something under a temporary name and renames it.
func (u *unpacker) swap(name string, do func(tmp string) error) error {
	tmp := temporary(name)
	if err := discard(u.root, tmp); err != nil {
		return err
	}
	if err := do(tmp); err != nil {
		return err
	}
	return u.root.Rename(tmp, name)
}

// files describes what was placed, each path once.
func (u *unpacker) files() ([]archive.File, error) {
	slices.Sort(u.names)
	out := []archive.File{}
	for _, name := range slices.Compact(u.names) {
		f, err := placed(u.root, name, u.into)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// placed describes one file as it was left.
func placed(root *os.Root, name, into string) (archive.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return archive.File{}, err
	}
	f := archive.File{Path: filepath.Join(into, name), Size: info.Size(), Modified: info.ModTime().UnixMicro()}
	if info.Mode()&fs.ModeSymlink != 0 {
		f.Link, err = root.Readlink(name)
	}
	return f, err
}

// place writes one file under a temporary name in its own directory, so that it
// gets that directory's SELinux type, and renames it. A program that runs
// keeps its old content.
func place(root *os.Root, name string, r io.Reader, mode fs.FileMode) error {
	tmp := temporary(name)
	if err := discard(root, tmp); err != nil {
		return err
	}
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	for _, do := range []func() error{
		func() error { return f.Chown(0, 0) },
		func() error { return f.Chmod(mode) },
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
		return errors.Join(fmt.Errorf("writing %s: %w", name, err), discard(root, tmp))
	}
	return nil
}

// temporary is the name a file has until it is whole. It is the same each time,
// so that a run that was cut off leaves no more than one behind, which the next
// one replaces.
func temporary(name string) string {
	return path.Join(path.Dir(name), ".nodeagent-"+path.Base(name))
}

// discard removes a leftover.
func discard(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
