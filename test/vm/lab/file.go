package lab

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// File is a file (or, with Link, a symbolic link) that the lab puts into a guest
// or a package.
type File struct {
	Path    string      // absolute
	Mode    os.FileMode // default 0644
	Content string
	From    string // take the content from this file of the lab machine
	Link    string // target of a symbolic link
}

func (f File) mode() os.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}

func (f File) bytes() ([]byte, error) {
	if f.From != "" {
		return os.ReadFile(f.From)
	}
	return []byte(f.Content), nil
}

// writeBelow creates the file below root, with its parents.
func (f File) writeBelow(root string) error {
	path := filepath.Join(root, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if f.Link != "" {
		return os.Symlink(f.Link, path)
	}
	b, err := f.bytes()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b, f.mode()); err != nil {
		return err
	}
	return os.Chmod(path, f.mode()) // whatever the umask is
}

// writeTar writes files as a tar stream that unpacks at a root directory.
func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(f.mode()), Typeflag: tar.TypeReg}
		var b []byte
		if f.Link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		} else {
			var err error
			if b, err = f.bytes(); err != nil {
				return err
			}
			h.Size = int64(len(b))
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return t.Close()
}
