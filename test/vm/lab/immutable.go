package lab

import (
	"context"
	"os"
	"path/filepath"
)

// stateDirs are what can be written on an immutable host: directories of the
// root, and where their content lies on the state disk.
var stateDirs = map[string]string{"var": "var", "root": "root", "home": "home", "opt": "opt", "srv": "srv", "usr/local": "usr-local"}

// splitState moves what can be written out of DIR/rootfs into DIR/state.img.
// The initrd puts it together again, with an overlay on /etc: see immutable.sh.
func splitState(ctx context.Context, dir string) error {
	root, state := filepath.Join(dir, "rootfs"), filepath.Join(dir, "state")
	for _, d := range []string{"etc-upper", "etc-work"} {
		if err := os.MkdirAll(filepath.Join(state, d), 0o755); err != nil {
			return err
		}
	}
	for from, to := range stateDirs {
		from, to = filepath.Join(root, from), filepath.Join(state, to)
		if err := os.Rename(from, to); err != nil {
			return err
		}
		if err := os.Mkdir(from, 0o755); err != nil { // the mount point
			return err
		}
	}
	if err := (File{Path: "/usr/lib/lab/immutable"}).writeBelow(root); err != nil {
		return err
	}
	if err := mkimage(ctx, state, "state", filepath.Join(dir, "state.img")); err != nil {
		return err
	}
	return os.RemoveAll(state)
}
