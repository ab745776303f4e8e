package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/prereq/network/netfile"
)

// daemon runs a program until the test ends.
func daemon(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", name, b)
		}
	})
}

// routed makes eth0 with a router at its other end, and hides what of this
// machine's network managers could be seen or changed.
func routed(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/run", "/etc/NetworkManager", "/var/lib/NetworkManager", "/etc/systemd/network"} {
		if _, err := os.Stat(dir); err == nil {
			require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
		}
	}
	// That of this network namespace; where it is read-only nobody waits for udev.
	require.NoError(t, unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""))
	ipRun(t, "netns add router")
	ipRun(t, "link add eth0 type veth peer name lan0 netns router")
	ipRun(t, "-n router link set lan0 up")
	ipRun(t, "-n router addr add 192.0.2.1/24 dev lan0")
	ipRun(t, "link set lo up")
	ipRun(t, "link set eth0 up")
}

const busConfig = `<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/><allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/><allow receive_type="signal"/></policy></busconfig>`

func bus(t *testing.T) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "bus.conf")
	put(t, conf, busConfig)
	require.NoError(t, os.MkdirAll("/run/dbus", 0o755))
	daemon(t, "dbus-daemon", "--config-file="+conf, "--nofork", "--nopidfile")
	eventually(t, "the bus", func() bool { _, err := os.Stat(systemBus); return err == nil })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

func connection(id, uuid, address, gateway string) string {
	return netfile.Head + "a test\n[connection]\nid=" + id + "\nuuid=" + uuid + "\ntype=ethernet\ninterface-name=eth0\n\n[ipv4]\nmethod=manual\naddress1=" + address + "," + gateway + "\n\n[ipv6]\nmethod=disabled\n"
}

// NetworkManager itself, in namespaces of its own, from a profile of somebody
// else's to nodeagent's and back.
func TestNetworkManagerForReal(t *testing.T) {
	for _, p := range []string{"NetworkManager", "dbus-daemon", "ip"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is missing: install network-manager, dbus and iproute2 on a throw-away machine; NetworkManager need not run", p)
		}
	}
	if !inNamespaces(t) {
		return
	}
	routed(t)
	bus(t)
	const theirs, theirUUID = "/etc/NetworkManager/system-connections/theirs.nmconnection", "11111111-2222-4333-8444-555555555555"
	put(t, theirs, connection("theirs", theirUUID, "192.0.2.50/24", "192.0.2.1"))
	put(t, "/etc/NetworkManager/NetworkManager.conf", "[main]\nplugins=keyfile\ndns=none\nno-auto-default=*\n[device-all]\nmatch-device=*\nmanaged=1\n")
	daemon(t, "NetworkManager", "--debug", "--log-level=INFO")

	ctx := context.Background()
	owner := func() NetworkOwner {
		o, err := New().NetworkOwner(ctx, "eth0")
		require.NoError(t, err)
		return o
	}
	has := func(address string) bool {
		n, err := New().Network()
		require.NoError(t, err)
		return len(n.Addresses) == 1 && n.Addresses[0] == Address{Interface: "eth0", IP: address, Prefix: 24}
	}
	eventually(t, "their profile", func() bool { return has("192.0.2.50") && owner().UUID == theirUUID })
	require.Equal(t, NetworkOwner{Manager: netfile.NetworkManager, Profile: "theirs", UUID: theirUUID, File: theirs}, owner())

	path, mode := netfile.Path(netfile.NetworkManager, "eth0")
	set := func(address, gateway string, before *change.Saved) change.SetInterface {
		return change.SetInterface{Interface: "eth0", Manager: netfile.NetworkManager, Path: path, Mode: mode, Before: before,
			Content: connection("nodeagent-eth0", netfile.UUID("eth0"), address, gateway), Addresses: []string{address}, Gateway: gateway}
	}
	good := set("192.0.2.10/24", "192.0.2.1", nil)

	// A gateway that doesn't answer: theirs is active again, and nothing is left.
	require.ErrorContains(t, New().Apply(ctx, set("192.0.2.10/24", "192.0.2.254", nil), nil), "the gateway 192.0.2.254 does not answer on eth0")
	require.NoFileExists(t, path)
	eventually(t, "theirs again", func() bool { return has("192.0.2.50") && owner().UUID == theirUUID })
	require.False(t, owner().Pending)

	// A run that is killed before it confirms: NetworkManager goes back.
	killed := func(limit time.Duration) {
		nm, err := nmBus(ctx)
		require.NoError(t, err)
		defer nm.Close()
		s := nm.setting(good, func(ctx context.Context) error { return New().writeNetwork(ctx, path, mode, good.Content) }, nil)
		s.limit = limit
		require.NoError(t, s.begin(ctx))
		require.NoError(t, s.activate(ctx))
		eventually(t, "ours", func() bool { return has("192.0.2.10") })
		require.True(t, owner().Pending)
	}
	killed(2 * time.Second)
	eventually(t, "theirs by itself", func() bool { return has("192.0.2.50") && owner().UUID == theirUUID })
	require.NoFileExists(t, path)

	// And when the next run comes sooner, it does it all over.
	killed(10 * time.Minute)
	require.NoError(t, New().Apply(ctx, good, nil))
	require.True(t, has("192.0.2.10"))
	require.Equal(t, NetworkOwner{Manager: netfile.NetworkManager, Profile: "nodeagent-eth0", UUID: netfile.UUID("eth0"), File: path}, owner())

	// Somebody else's checkpoint is no reason to do anything, and in the way of
	// a change.
	nm, err := nmBus(ctx)
	require.NoError(t, err)
	defer nm.Close()
	require.NoError(t, exec.Command("nmcli", "connection", "up", "uuid", theirUUID).Run())
	require.NoError(t, os.Remove(path))
	device, err := nm.device(ctx, "eth0")
	require.NoError(t, err)
	var foreign dbus.ObjectPath
	require.NoError(t, nm.call(ctx, nmPath, nmName+".CheckpointCreate", []any{&foreign}, []dbus.ObjectPath{device}, uint32(600), uint32(0)))
	require.False(t, owner().Pending)
	require.ErrorContains(t, New().Apply(ctx, good, nil), "another program is changing the configuration of eth0")
	require.NoError(t, nm.call(ctx, nmPath, nmName+".CheckpointDestroy", nil, foreign))
	require.NoError(t, New().Apply(ctx, good, nil))

	// Another configuration that fails leaves the one before.
	bad := set("192.0.2.11/24", "192.0.2.254", &change.Saved{Mode: mode, Owner: "root:root", Content: good.Content})
	require.Error(t, New().Apply(ctx, bad, nil))
	eventually(t, "the one before", func() bool { return has("192.0.2.10") })
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, good.Content, string(b))
	require.False(t, owner().Pending)

	reset := change.ResetInterface{Interface: "eth0", Manager: netfile.NetworkManager, Path: path, Profile: "theirs", UUID: theirUUID}
	require.NoError(t, New().Apply(ctx, reset, nil))
	require.True(t, has("192.0.2.50"))
	require.NoFileExists(t, path)
	require.Equal(t, theirUUID, owner().UUID)
	out, err := exec.Command("nmcli", "-t", "-f", "UUID", "connection", "show").CombinedOutput()
	require.NoError(t, err)
	require.False(t, strings.Contains(string(out), netfile.UUID("eth0")), "%s", out)
}
