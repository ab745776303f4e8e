package host

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/prereq/network/netfile"
)

// systemd-networkd itself, under a systemd that can hold the way back ready. It
// changes the machine's network configuration, so it wants a machine that
// nobody needs: a container of systemd's with CAP_NET_ADMIN will do.
func TestNetworkdForReal(t *testing.T) {
	if os.Getenv("NODEAGENT_TEST_NETWORKD") == "" {
		t.Skip("set NODEAGENT_TEST_NETWORKD=1 on a throw-away machine that systemd has booted and on which systemd-networkd runs")
	}
	ipRun(t, "netns add router")
	ipRun(t, "link add eth9 type veth peer name lan9 netns router")
	ipRun(t, "-n router link set lan9 up")
	ipRun(t, "-n router addr add 192.0.2.1/24 dev lan9")
	t.Cleanup(func() { ipRun(t, "netns del router") })
	const theirs = "/etc/systemd/network/50-theirs.network"
	require.NoError(t, os.WriteFile(theirs, []byte("[Match]\nName=eth9\n[Network]\nAddress=192.0.2.50/24\nGateway=192.0.2.1\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"), 0o644))
	ctx := context.Background()
	path, mode := netfile.Path(netfile.Networkd, "eth9")
	t.Cleanup(func() { _, _ = os.Remove(theirs), os.Remove(path) })
	require.NoError(t, exec.Command("networkctl", "reload").Run())
	ipRun(t, "link set eth9 up")
	owner := func() NetworkOwner {
		o, err := New().NetworkOwner(ctx, "eth9")
		require.NoError(t, err)
		return o
	}
	has := func(address string) bool {
		n, err := New().Network()
		require.NoError(t, err)
		got := []Address{}
		for _, a := range n.Addresses {
			if a.Interface == "eth9" {
				got = append(got, a)
			}
		}
		return len(got) == 1 && got[0] == Address{Interface: "eth9", IP: address, Prefix: 24}
	}
	eventually(t, "their file", func() bool { return has("192.0.2.50") && owner().File == theirs })
	require.Equal(t, NetworkOwner{Manager: netfile.Networkd, Profile: "50-theirs.network", File: theirs}, owner())

	set := func(address, gateway string, before *change.Saved) change.SetInterface {
		return change.SetInterface{Interface: "eth9", Manager: netfile.Networkd, Path: path, Mode: mode, Before: before, Addresses: []string{address}, Gateway: gateway,
			Content: netfile.Head + "a test\n[Match]\nName=eth9\n[Network]\nAddress=" + address + "\nGateway=" + gateway + "\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"}
	}
	good := set("192.0.2.10/24", "192.0.2.1", nil)

	require.ErrorContains(t, New().Apply(ctx, set("192.0.2.10/24", "192.0.2.254", nil), nil), "the gateway 192.0.2.254 does not answer on eth9")
	require.NoFileExists(t, path)
	eventually(t, "theirs again", func() bool { return has("192.0.2.50") && owner().File == theirs })
	require.False(t, owner().Pending)

	killed := func(limit time.Duration, c change.SetInterface) {
		s := &networkdSwitch{l: New(), link: "eth9", path: path, limit: limit, change: func(ctx context.Context) error { return New().writeNetwork(ctx, path, mode, c.Content) }}
		require.NoError(t, s.begin(ctx))
		require.NoError(t, s.activate(ctx))
		eventually(t, "ours", func() bool { return has(c.Addresses[0][:len(c.Addresses[0])-3]) })
		require.True(t, owner().Pending)
	}
	killed(3*time.Second, good)
	eventually(t, "theirs by itself", func() bool { return has("192.0.2.50") && owner().File == theirs })
	require.NoFileExists(t, path)

	killed(10*time.Minute, good)
	require.NoError(t, New().Apply(ctx, good, nil))
	require.True(t, has("192.0.2.10"))
	require.Equal(t, NetworkOwner{Manager: netfile.Networkd, Profile: "10-nodeagent-eth9.network", File: path}, owner())

	// The one before is put back from its copy, by the timer and at once.
	killed(3*time.Second, set("192.0.2.12/24", "192.0.2.1", nil))
	eventually(t, "ours by itself", func() bool { return has("192.0.2.10") })
	require.Error(t, New().Apply(ctx, set("192.0.2.11/24", "192.0.2.254", &change.Saved{Mode: mode, Owner: "root:root", Content: good.Content}), nil))
	eventually(t, "ours again", func() bool { return has("192.0.2.10") })
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, good.Content, string(b))
	require.False(t, owner().Pending)

	require.NoError(t, New().Apply(ctx, change.ResetInterface{Interface: "eth9", Manager: netfile.Networkd, Path: path, Profile: "50-theirs.network"}, nil))
	eventually(t, "theirs at the end", func() bool { return has("192.0.2.50") && owner().File == theirs })
	require.NoFileExists(t, path)
	require.False(t, owner().Pending)
}
