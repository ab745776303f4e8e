package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

const nobody = 65534

// theirs makes a directory of another user, which only root can.
func theirs(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes directories of another user")
	}
	dir := filepath.Join(t.TempDir(), "theirs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	return dir
}

func write(path string) error {
	return New().Apply(context.Background(), change.WriteFile{Path: path, Mode: "0644", Owner: "0:0", Content: "x"}, nil)
}

func TestNothingIsWrittenThroughALinkOfAnotherUser(t *testing.T) {
	dir, victim := theirs(t), t.TempDir()
	require.NoError(t, makeFile(filepath.Join(victim, "keep"), 0))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "sub")))
	require.NoError(t, os.Lchown(filepath.Join(dir, "sub"), nobody, nobody))
	require.NoError(t, os.Symlink(filepath.Join(victim, "f"), filepath.Join(dir, "f"))) // even root's own: they could have renamed it
	for _, path := range []string{"sub/f", "sub/new/f", "f"} {
		err := write(filepath.Join(dir, path))
		require.Equal(t, fail.Safety, fail.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "is a link that another user could have made")
	}
	require.Error(t, New().Apply(t.Context(), change.RemoveFile{Path: filepath.Join(dir, "sub/keep")}, nil))
	names, err := os.ReadDir(victim)
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.Equal(t, "keep", names[0].Name())
	require.NoError(t, write(filepath.Join(dir, "real/f")), "their own directories may be written to")
}

func TestLinksOfRootAreFollowed(t *testing.T) {
	dir := t.TempDir()
	for _, link := range []string{"real", filepath.Join(dir, "real"), "../" + filepath.Base(dir) + "/real"} {
		require.NoError(t, os.Symlink(link, filepath.Join(dir, "link")))
		require.NoError(t, write(filepath.Join(dir, "link/deep/f")))
		require.FileExists(t, filepath.Join(dir, "real/deep/f"))
		require.NoError(t, os.Symlink("real/deep/g", filepath.Join(dir, "g")))
		require.NoError(t, write(filepath.Join(dir, "g")))
		require.FileExists(t, filepath.Join(dir, "real/deep/g"))
		for _, gone := range []string{"link", "g", "real"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, gone)))
		}
	}
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.ErrorIs(t, write(filepath.Join(dir, "loop/f")), syscall.ELOOP)
	require.ErrorIs(t, write(filepath.Join(dir, "loop")), syscall.ELOOP)
}

// Somebody exchanges a directory and a link for each other all the time while
// root writes: nothing may ever arrive behind the link.
func TestADirectoryThatTurnsIntoALinkWhileRootWritesLeadsNowhere(t *testing.T) {
	dir, victim := theirs(t), t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.Mkdir(a, 0o777))
	require.NoError(t, os.Symlink(victim, b))
	require.NoError(t, os.Lchown(b, nobody, nobody))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	written, refused := 0, 0
	for i := range 2000 {
		if err := write(filepath.Join(a, fmt.Sprint("f", i))); err != nil {
			refused++
		} else {
			written++
		}
	}
	close(stop)
	<-stopped
	t.Logf("%d written, %d refused", written, refused)
	names, err := os.ReadDir(victim)
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestDirectoriesAndFilesOfOursThatAreSomebodyElsesAreRefused(t *testing.T) {
	theirs(t)
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string) error
		want    string
	}{
		"another owner":    {func(_ *testing.T, dir string) error { return os.Chown(dir, nobody, nobody) }, "belongs to user 65534, not to root"},
		"others may write": {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777) }, "can be written by others (mode 0777)"},
		"a link":           {func(t *testing.T, dir string) error { return os.Symlink(filepath.Join(t.TempDir(), "x"), dir+"/file") }, "too many levels of symbolic links"},
		"a pipe":           {func(_ *testing.T, dir string) error { return syscall.Mkfifo(dir+"/file", 0o600) }, "is not a file that nodeagent made"},
		"another's file":   {func(_ *testing.T, dir string) error { return makeFile(dir+"/file", nobody) }, "is not a file that nodeagent made"},
		"a second hard link": {func(_ *testing.T, dir string) error {
			return os.Link(must(os.Create(dir+"/other")).Name(), dir+"/file")
		}, "is not a file that nodeagent made"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ours")
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.NoError(t, c.prepare(t, dir))
			_, err := New().Lock(dir + "/file")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, New().Append(dir+"/file", []byte("x")), c.want)
		})
	}
}

func makeFile(path string, uid int) error {
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return err
	}
	return os.Chown(path, uid, uid)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// On a filesystem of 64 KiB of its own, in a mount namespace of its own.
func TestAFullOrReadOnlyFilesystemIsOneSentenceAndLosesNothing(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("small", dir, "tmpfs", 0, "size=64k,mode=755"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }) // it can't be emptied once it is read-only
	h, journal, file := New(), dir+"/journal", dir+"/file"
	line := []byte(strings.Repeat("x", 1000))
	keep := change.WriteFile{Path: file, Mode: "0644", Owner: "0:0", Content: "as it was"}
	require.NoError(t, h.Apply(t.Context(), keep, nil))
	require.NoError(t, h.Append(journal, line))
	filler := dir + "/filler"
	require.Error(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600))

	const hint = "make room"
	var err error
	for range 10 { // what is left of the last block fills up
		if err = h.Append(journal, line); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "a filesystem is full: write "+journal)
	require.Contains(t, fail.HintOf(err), hint)
	bigger := keep
	bigger.Content = strings.Repeat("y", 1<<16)
	err = h.Apply(t.Context(), bigger, nil)
	require.ErrorContains(t, err, "a filesystem is full: writing "+file)
	require.Contains(t, fail.HintOf(err), hint)
	require.Equal(t, "as it was", string(must(os.ReadFile(file))))

	require.NoError(t, os.Remove(filler))
	require.NoError(t, h.Append(journal, []byte("last")))
	lines := strings.Split(strings.TrimSpace(string(must(os.ReadFile(journal)))), "\n")
	require.Equal(t, "last", lines[len(lines)-1], "a torn line doesn't swallow the next")
	bigger.Content = "new"
	require.NoError(t, h.Apply(t.Context(), bigger, nil))
	require.Len(t, must(os.ReadDir(dir)), 2, "nothing temporary is left")

	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for _, err := range []error{h.Append(journal, line), h.Save(file, line), h.Apply(t.Context(), keep, nil), h.Apply(t.Context(), change.RemoveFile{Path: file}, nil)} {
		require.ErrorContains(t, err, "a filesystem is read-only: ")
		require.Contains(t, fail.HintOf(err), "findmnt")
	}
	_, err = h.Lock(dir + "/lock")
	require.ErrorContains(t, err, "a filesystem is read-only: ")
	require.Equal(t, "new", string(must(os.ReadFile(file))))
}
