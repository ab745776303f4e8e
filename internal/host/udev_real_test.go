package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/fail"
)

// realUdev starts a udevd of the test's own, with a /dev, a /run and rules that
// nobody else sees, and returns the host and the directory of rules. It is to be
// called in namespaces only. NODEAGENT_TEST_UDEVADM names a udevadm that isn't
// installed.
func realUdev(t *testing.T, udevadm string) (Linked, string) {
	t.Helper()
	tmpfs := func(dir string) { require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"), dir) }
	dev := t.TempDir()
	tmpfs(dev)
	for _, n := range []string{"null", "zero", "urandom", "loop-control"} {
		require.NoError(t, os.WriteFile(filepath.Join(dev, n), nil, 0o600))
		require.NoError(t, unix.Mount("/dev/"+n, filepath.Join(dev, n), "", unix.MS_BIND, ""))
	}
	for i := range 64 {
		require.NoError(t, unix.Mknod(filepath.Join(dev, fmt.Sprintf("loop%d", i)), unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(i)))))
	}
	require.NoError(t, unix.Mount(dev, "/dev", "", unix.MS_MOVE, ""))
	tmpfs("/run")
	for _, dir := range []string{"/etc/udev/rules.d", "/usr/lib/udev/rules.d", "/usr/local/lib/udev/rules.d"} {
		if _, err := os.Stat(dir); err == nil {
			tmpfs(dir)
		}
	}
	rules := "/run/udev/rules.d"
	require.NoError(t, os.MkdirAll(rules, 0o755))
	tmpfs("/usr/local/sbin") // where programs are looked for first
	require.NoError(t, os.Symlink(udevadm, "/usr/local/sbin/udevadm"))
	daemon := ""
	for _, p := range []string{"/usr/lib/systemd/systemd-udevd", "/lib/systemd/systemd-udevd", "/usr/local/sbin/systemd-udevd"} {
		if _, err := os.Stat(p); err == nil {
			daemon = p
			break
		}
	}
	if daemon == "" { // one program with two names since systemd 242
		daemon = "/usr/local/sbin/systemd-udevd"
		require.NoError(t, os.Symlink(udevadm, daemon))
	}
	cmd := exec.Command(daemon, "--children-max=2")
	log, err := os.Create(filepath.Join(t.TempDir(), "udevd.log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Log(string(said))
		}
	})
	ok, err := watchLink(t.Context(), "/run/udev/control", 10*time.Second, func() bool { _, err := os.Stat("/run/udev/control"); return err == nil })
	require.NoError(t, err)
	require.True(t, ok, "udevd listens")
	return Linked{Linux: New(), Dir: "/dev/disk"}, rules
}

func TestRealUdevMakesMovesAndForgetsTheLinkOfARawDisk(t *testing.T) {
	udevadm := os.Getenv("NODEAGENT_TEST_UDEVADM")
	if udevadm == "" {
		var err error
		if udevadm, err = exec.LookPath("udevadm"); err != nil {
			t.Skip("program missing: udevadm; NODEAGENT_TEST_UDEVADM may name one")
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here: ", err)
	}
	if !inNamespaces(t) {
		return
	}
	l, rules := realUdev(t, udevadm)
	attach := func() string {
		image := filepath.Join(t.TempDir(), "disk.img")
		require.NoError(t, os.WriteFile(image, nil, 0o600))
		require.NoError(t, os.Truncate(image, 8<<20))
		out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
		require.NoError(t, err, "%s", out)
		device := strings.TrimSpace(string(out))
		t.Cleanup(func() { require.NoError(t, exec.Command("losetup", "--detach", device).Run()) })
		return device
	}
	a, b := attach(), attach()
	serials := map[string]string{a: `S4X 01,#'{}=;<>`, b: "OTHER"}
	text := ""
	for device, s := range serials {
		name := filepath.Base(device)
		text += `KERNEL=="` + name + `", ENV{ID_SERIAL_SHORT}="` + s + `", SYMLINK+="disk/by-id/scsi-` + name + `"` + "\n"
	}
	put(t, rules+"/60-test.rules", text)
	ours := rules + "/" + filepath.Base(udev.Path)
	const link = udev.Links + "/osd.1_a-b"
	rule := func(device string) udev.Link {
		return udev.Link{Name: "osd.1_a-b", Type: "disk", Key: udev.Env("ID_SERIAL_SHORT"), Value: serials[device]}
	}
	to := func(device string) change.LinkDisk {
		return change.LinkDisk{Disk: "osd.1_a-b", Link: link, Device: "/dev/disk/by-id/scsi-" + filepath.Base(device)}
	}
	leads := func() string {
		target, _ := filepath.EvalSymlinks(link)
		return target
	}
	ctx := t.Context()
	require.NoError(t, l.rereadRules(ctx))
	for _, d := range []string{a, b} { // as at boot
		require.NoError(t, l.trigger(ctx, d))
		ok, err := watchLink(ctx, to(d).Device, 10*time.Second, func() bool { _, err := os.Stat(to(d).Device); return err == nil })
		require.NoError(t, err)
		require.True(t, ok, to(d).Device)
	}

	// Without a rule nothing makes the link, and that is told.
	err := l.LinkDisk(ctx, to(a), 300*time.Millisecond)
	require.ErrorContains(t, err, "udev did not make "+link+" lead to "+a+" within 300ms: it doesn't exist")
	require.Equal(t, fail.Timeout, fail.KindOf(err))

	put(t, ours, udev.Text([]udev.Link{rule(a)}))
	require.NoError(t, l.Apply(ctx, to(a), nil))
	require.Equal(t, a, leads())
	require.NoError(t, l.Apply(ctx, to(a), nil), "once more is fine")

	properties, err := l.UdevProperties(ctx, BlockDevice{Path: a})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ID_SERIAL_SHORT": serials[a]}, properties)
	devices, err := l.Linux.BlockDevices(ctx, true)
	require.NoError(t, err)
	i := slices.IndexFunc(devices, func(d BlockDevice) bool { return d.Path == a })
	require.Equal(t, []string{link}, devices[i].ByCAPV)
	require.Equal(t, serials[a], devices[i].Serial)

	// Another disk gets the link: the one that has it gives it away.
	put(t, ours, udev.Text([]udev.Link{rule(b)}))
	move := to(b)
	move.Instead = to(a).Device
	require.NoError(t, l.Apply(ctx, move, nil))
	require.Equal(t, b, leads())

	// By a link that is a rule's key, and never a path of a multipath device.
	bySymlink := udev.Link{Name: "osd.1_a-b", Type: "disk", Key: udev.Symlink, Value: strings.TrimPrefix(to(a).Device, "/dev/")}
	put(t, ours, udev.Text([]udev.Link{bySymlink}))
	move = to(a)
	move.Instead = to(b).Device
	require.NoError(t, l.Apply(ctx, move, nil))
	require.Equal(t, a, leads())
	put(t, rules+"/62-multipath.rules", `ENV{DM_MULTIPATH_DEVICE_PATH}="1"`+"\n")
	require.ErrorContains(t, l.LinkDisk(ctx, to(a), 300*time.Millisecond), "did not make")
	require.Empty(t, leads())
	require.NoError(t, os.Remove(rules+"/62-multipath.rules"))
	require.NoError(t, l.Apply(ctx, to(a), nil))

	// A rule that is still there keeps the link; without it it goes.
	unlink := change.UnlinkDisk{Link: link, Device: to(a).Device}
	err = l.UnlinkDisk(ctx, unlink, 300*time.Millisecond)
	require.ErrorContains(t, err, link+" still leads to "+a)
	require.NoError(t, os.Remove(ours))
	require.NoError(t, l.Apply(ctx, unlink, nil))
	_, err = os.Lstat(link)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, l.Apply(ctx, unlink, nil), "what is gone is fine")
	require.FileExists(t, to(a).Device, "the other links stay")
}
