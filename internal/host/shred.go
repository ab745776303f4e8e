package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// shred overwrites a file's bytes in place, so that whoever reads the disk
// beneath the filesystem later finds zeros. On a filesystem that never writes
// in place, or on flash, old blocks may stay: nothing above them can help that.
// A missing file is fine; a link, or a file of several names, is left and told.
func shred(path string) error {
	dir, err := openDir(filepath.Dir(path), false)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return fail.New(fail.Safety, "remove it by hand (ls -li "+path+")", "%s is not a plain file with this name alone, so it is not overwritten", path)
	}
	if _, err := io.CopyN(f, zeros{}, st.Size); err != nil {
		return err
	}
	return f.Sync()
}

// zeros is an endless source of them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
