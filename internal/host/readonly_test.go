package host

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// As ProtectSystem= makes it: /usr is read-only in this mount namespace only.
func TestASandboxIsToldFromAReadOnlyHost(t *testing.T) {
	const inside = "NODEAGENT_TEST_SANDBOX"
	if os.Getenv(inside) == "" {
		if os.Geteuid() != 0 {
			t.Skip("needs root: mounts in a mount namespace")
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		require.Contains(t, string(out), "--- PASS")
		return
	}
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
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
