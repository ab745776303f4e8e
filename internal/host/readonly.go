package host

import (
	"errors"
	"fmt"
	"slices"
)

// ReadOnlyAt says which read-only filesystem holds path, or would hold it; empty
// when it can be written or that can't be told.
func ReadOnlyAt(v View, path string) (string, error) {
	if !v.Live() { // an image is built on a filesystem that says nothing of the host's
		return "", nil
	}
	f, err := v.Filesystem(path)
	if errors.Is(err, ErrUnobservable) {
		return "", nil
	}
	if err != nil || !f.ReadOnly {
		return "", err
	}
	if f.Sandboxed {
		return f.Target + " is read-only for nodeagent alone: the unit that runs it is sandboxed", nil
	}
	return fmt.Sprintf("%s (%s) is mounted read-only", f.Target, f.Type), nil
}

// sandboxed tells whether a mount that is read-only here isn't so for pid 1:
// ProtectSystem= and ReadOnlyPaths= of systemd.exec(5) do that, and the host is
// as it was.
func (l *Linux) sandboxed(m Mount, path string) bool {
	if !slices.Contains(m.Options, "ro") { // then it is the filesystem itself
		return false
	}
	b, err := l.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return false
	}
	first, ok := mountOf(parseMountinfo(b), path)
	return ok && first.Device == m.Device && !slices.Contains(first.Options, "ro")
}
