package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mountinfo = `22 1 253:1 / / rw,relatime shared:1 - xfs /dev/vda1 rw,attr2,inode64
23 22 0:21 / /proc rw,nosuid shared:12 - proc proc rw
88 22 253:16 / /var/lib/kubelet rw,noatime shared:40 master:2 - xfs /dev/vdb rw
90 88 253:16 /sub /var/lib/kubelet/pods/with\040blank ro,relatime shared:40 - xfs /dev/vdb rw
91 22 0:45 / /mnt rw - tmpfs  rw
garbage
92 22 0:46 /@/var /var/log rw shared:2 - btrfs /dev/mapper/root rw,subvol=/@/var
`

func TestMountinfoIsReadWithItsOptionalFieldsAndEscapes(t *testing.T) {
	got := parseMountinfo([]byte(mountinfo))
	require.Len(t, got, 6)
	require.Equal(t, Mount{Source: "/dev/vdb", Target: "/var/lib/kubelet", Type: "xfs", Root: "/", Device: "253:16", Options: []string{"rw", "noatime"}}, got[2])
	require.Equal(t, "/var/lib/kubelet/pods/with blank", got[3].Target)
	require.Equal(t, "/sub", got[3].Root)
	require.Equal(t, "tmpfs", got[4].Type)
}

func TestTheMountOfAPathIsTheLastOfTheLongestTarget(t *testing.T) {
	mounts := parseMountinfo([]byte(mountinfo + "99 22 253:32 / /var/lib/kubelet rw - ext4 /dev/vdc rw\n"))
	for path, want := range map[string]string{"/": "/dev/vda1", "/var/lib/kubelet2": "/dev/vda1", "/var/lib/kubelet/x": "/dev/vdc", "/var/log/pods": "/dev/mapper/root"} {
		m, ok := mountOf(mounts, path)
		require.True(t, ok)
		require.Equal(t, want, m.Source, path)
	}
}

func TestTheFilesystemOfAPathThatDoesNotExistIsThatOfItsParent(t *testing.T) {
	l := New()
	proc, err := l.Filesystem("/proc/self/no/such/path")
	require.NoError(t, err)
	require.Equal(t, "proc", proc.Type)
	dir, err := l.Filesystem(t.TempDir() + "/a/b")
	require.NoError(t, err)
	require.NotEmpty(t, dir.Type)
	require.NotZero(t, dir.FreeBytes)
}

func TestATreeOfFilesTellsItsMountsOnlyWhenItCarriesThem(t *testing.T) {
	_, err := At(t.TempDir()).Mounts()
	require.ErrorIs(t, err, ErrUnobservable)
	_, err = At(t.TempDir()).BlockDevices(t.Context(), true)
	require.ErrorIs(t, err, ErrUnobservable)
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add([]byte(mountinfo))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range parseMountinfo(b) {
			if m.Type == "" || m.Target == "" && !strings.Contains(string(b), `\`) {
				t.Fatalf("%+v", m)
			}
		}
	})
}
