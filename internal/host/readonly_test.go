package host

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// As ProtectSystem= makes it: /usr is read-only in this mount namespace only.
func TestASandboxIsToldFromAReadOnlyHost(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	h := New()
	before, err := h.Filesystem("/usr/bin")
	require.NoError(t, err)
	require.False(t, before.ReadOnly, "the test wants a host whose /usr can be written")
	require.NoError(t, unix.Mount("/usr", "/usr", "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	f, err := h.Filesystem("/usr/local/nosuch/directory")
	require.NoError(t, err)
	require.True(t, f.ReadOnly)
	require.True(t, f.Sandboxed)
	require.Equal(t, "/usr", f.Target)
	why, err := ReadOnlyAt(h, "/usr/x")
	require.NoError(t, err)
	require.Contains(t, why, "sandboxed")

	// A filesystem that can't be written by anybody.
	require.NoError(t, unix.Mount("ro", "/mnt", "tmpfs", unix.MS_RDONLY, ""))
	why, err = ReadOnlyAt(h, "/mnt/x")
	require.NoError(t, err)
	require.Contains(t, why, "/mnt (tmpfs) is mounted read-only")
	why, err = ReadOnlyAt(h, "/etc/x")
	require.NoError(t, err)
	require.Empty(t, why)
}
