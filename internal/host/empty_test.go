package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

func TestAFilesystemIsEmptiedAcrossNoMountAndNoLink(t *testing.T) {
	needLoops(t, "mkfs.ext4")
	b := newBench(t)
	const uuid = "0c4e8b1a-9d2f-4a3b-8c5d-6e7f8a9b0c1d"
	device := b.disk(t, 64<<20)
	sh(t, "mkfs.ext4", "-q", "-U", uuid, device)
	b.link(t, "by-uuid", uuid, device)
	target, outside := t.TempDir(), t.TempDir()
	c := change.EmptyFilesystem{Disk: "data", UUID: uuid, Target: target, Marker: filepath.Join(t.TempDir(), "emptied", "data")}
	write := func(path string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("data"), 0o600))
	}

	write(target + "/precious")
	err := b.EmptyFilesystem(c)
	require.ErrorContains(t, err, "is not where the filesystem "+uuid+" is mounted: nothing was deleted")
	require.Equal(t, fail.Safety, fail.KindOf(err))
	require.FileExists(t, target+"/precious")

	require.NoError(t, unix.Mount(device, target, "ext4", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, unix.MNT_DETACH)) })
	write(target + "/a/b/c")
	write(target + "/.hidden")
	write(outside + "/kept")
	require.NoError(t, os.Symlink(outside, target+"/link"))
	require.NoError(t, os.Mkdir(target+"/mounted", 0o755))
	require.NoError(t, unix.Mount(outside, target+"/mounted", "", unix.MS_BIND, ""))
	require.ErrorContains(t, b.EmptyFilesystem(c), "is a mount, and nothing is deleted across a mount")
	require.FileExists(t, outside+"/kept")
	require.NoFileExists(t, c.Marker, "it isn't done")

	require.NoError(t, unix.Unmount(target+"/mounted", 0))
	require.NoError(t, b.EmptyFilesystem(c))
	left, err := os.ReadDir(target)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "lost+found", left[0].Name())
	require.FileExists(t, outside+"/kept", "a link was not followed")
	note, err := os.ReadFile(c.Marker)
	require.NoError(t, err)
	require.Equal(t, uuid+"\n", string(note))
}
