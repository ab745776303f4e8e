package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/host"
	"nodeagent/internal/run/journal"
)

// needLoops skips where real devices can't be had, and says what is missing.
func needLoops(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: loop devices can't be attached")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here: ", err)
	}
	for _, p := range append([]string{"losetup", "lsblk", "blkid", "wipefs"}, programs...) {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("program missing: ", p)
		}
	}
}

// sh runs a command of the test itself.
func sh(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return strings.TrimSpace(string(out))
}

// bench is a host whose only disks are loop devices of the test.
type bench struct {
	host.Linked
	slots   map[string]string // device → image
	journal []byte
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{Linked: host.Linked{Linux: host.New(), Dir: t.TempDir()}, slots: map[string]string{}}
}

// restart is another process: it remembers nothing.
func (b *bench) restart() { b.Linux = host.New() }

// insert attaches an image as a loop device and gives it a place.
func (b *bench) insert(t *testing.T, image string, options ...string) (device string) {
	t.Helper()
	device = sh(t, "losetup", append(append([]string{"--find", "--show"}, options...), image)...)
	t.Cleanup(func() { sh(t, "losetup", "--detach", device) })
	b.slots[device] = image
	b.link(t, "by-path", fmt.Sprintf("slot-%d", len(b.slots)), device)
	return device
}

// disk inserts a sparse image.
func (b *bench) disk(t *testing.T, size int64) (device string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	return b.insert(t, image)
}

func (b *bench) link(t *testing.T, kind, name, device string) {
	t.Helper()
	dir := filepath.Join(b.Dir, kind)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	require.NoError(t, os.Symlink(device, path))
}

// place is the stable link of a device.
func (b *bench) place(t *testing.T, device string) string {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(b.Dir, "by-path"))
	require.NoError(t, err)
	for _, n := range names {
		link := filepath.Join(b.Dir, "by-path", n.Name())
		if target, _ := os.Readlink(link); target == device {
			return link
		}
	}
	t.Fatalf("%s has no place", device)
	return ""
}

// sum is the SHA-256 of all data of a device, with its offsets; holes of the
// image are zeros.
func (b *bench) sum(t *testing.T, device string) string {
	t.Helper()
	sh(t, "sync", device)
	f, err := os.Open(b.slots[device])
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	for block, offset := make([]byte, 64<<10), int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		require.NoError(t, err)
		data -= data % int64(len(block))
		n, err := f.ReadAt(block, data)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
		}
		if slices.ContainsFunc(block[:n], func(c byte) bool { return c != 0 }) {
			fmt.Fprintf(h, "%d:", data)
			h.Write(block[:n])
		}
		offset = data + int64(len(block))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// playUdev makes the by-label link after a while, as udev does.
func (b *bench) playUdev(t *testing.T, label, device string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(100 * time.Millisecond)
		dir := filepath.Join(b.Dir, "by-label")
		_ = os.MkdirAll(dir, 0o755)
		_ = os.Remove(filepath.Join(dir, label))
		_ = os.Symlink(device, filepath.Join(dir, label))
	}()
	t.Cleanup(func() { <-done })
}

// BlockDevices shows the test's loop devices as whole disks and nothing else.
func (b *bench) BlockDevices(ctx context.Context, settle bool) ([]host.BlockDevice, error) {
	all, err := b.Linked.BlockDevices(ctx, settle)
	var out []host.BlockDevice
	for _, d := range all {
		if _, mine := b.slots[d.Path]; mine {
			d.Type = "disk"
			out = append(out, d)
		} else if slices.ContainsFunc(out, func(o host.BlockDevice) bool { return o.Name == d.Parent }) {
			out = append(out, d)
		}
	}
	return out, err
}

// Units are unknown: the test's machine need not have systemd.
func (b *bench) Units(context.Context, []string) (map[string]host.Unit, error) {
	return nil, host.ErrUnobservable
}

// System has a machine id of its own.
func (b *bench) System() (host.System, error) {
	return host.System{MachineID: "4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b", SELinux: "disabled"}, nil
}

// ReadFile has a journal of its own.
func (b *bench) ReadFile(path string) ([]byte, error) {
	switch {
	case path != journal.Path:
		return b.Linux.ReadFile(path)
	case b.journal == nil:
		return nil, os.ErrNotExist
	}
	return b.journal, nil
}
