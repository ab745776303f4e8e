package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// debs is the directory of downloaded Debian packages.
type debs struct {
	dir     string
	scratch string // where they are unpacked
}

// files unpacks the named packages and returns those files that keep accepts,
// at the paths of a merged /usr.
func (d debs) files(ctx context.Context, keep func(path string) bool, names ...string) ([]File, error) {
	var out []File
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(d.dir, name+"_*.deb"))
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%d packages %s in %s", len(found), name, d.dir)
		}
		root := filepath.Join(d.scratch, name)
		if _, err := os.Stat(root); err != nil {
			if _, err := run(ctx, "dpkg-deb", "-x", found[0], root); err != nil {
				return nil, err
			}
		}
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			f := File{Path: mergedUsr(strings.TrimPrefix(path, root))}
			if !keep(f.Path) {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				f.Link, err = os.Readlink(path)
			} else {
				f.From, f.Mode = path, info.Mode().Perm()
			}
			out = append(out, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mergedUsr moves a path of /bin, /sbin or /lib to where it really lies.
func mergedUsr(path string) string {
	for _, d := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(path, d) {
			return "/usr" + path
		}
	}
	return path
}

// programs accepts executables and the libraries they load.
func programs(path string) bool {
	for _, d := range []string{"/usr/bin/", "/usr/sbin/"} {
		if strings.HasPrefix(path, d) {
			return true
		}
	}
	return strings.HasPrefix(path, "/usr/lib/x86_64-linux-gnu/") && strings.Contains(path, ".so")
}
