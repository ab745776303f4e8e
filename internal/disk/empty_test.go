package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

func TestADiskWithWipeOnceIsEmptiedAfterItIsMountedAndNeverAgain(t *testing.T) {
	d := kubeletDisk(config.DiskSelect{Label: "kubelet"})
	d.WipeOnce = true
	f := facts(holding(blankDisk("vdb", 4), "xfs", "kubelet"))
	p := plan(f, d)
	require.Empty(t, p.Blocked)
	last := p.Changes[len(p.Changes)-1].(change.EmptyFilesystem)
	require.Equal(t, change.EmptyFilesystem{Disk: "kubelet", UUID: "11111111-2222-3333-4444-555555555555", Target: "/var/lib/kubelet", Marker: "/var/lib/nodeagent/emptied/kubelet"}, last)
	require.Equal(t, change.Destructive, last.Class())
	require.Empty(t, formats(p), "it isn't formatted")

	f.Emptied = map[string]bool{"kubelet": true}
	require.NotContains(t, ids(plan(f, d)), "empty:")
	f.Emptied = nil
	d.WipeOnce = false
	require.NotContains(t, ids(plan(f, d)), "empty:")
}

func TestAFormattedDiskCountsAsEmptied(t *testing.T) {
	d := kubeletDisk(anyBlank())
	d.WipeOnce = true
	p := plan(facts(blankDisk("vdb", 4)), d)
	require.Contains(t, ids(p), "empty:/var/lib/kubelet")
	require.Equal(t, p.Changes[0].(change.MakeFilesystem).UUID, p.Changes[len(p.Changes)-1].(change.EmptyFilesystem).UUID)
}

func TestNothingIsEmptiedOnAHostThatHasJoinedOrUnderAService(t *testing.T) {
	d := kubeletDisk(config.DiskSelect{Label: "kubelet"})
	d.WipeOnce = true
	x := holding(blankDisk("vdb", 4), "xfs", "kubelet")
	f := facts(x)
	f.Joined = true
	refused(t, plan(f, d), "wipeOnce would delete what is on /var/lib/kubelet, and this host belongs to a cluster already")

	x.Mounts = []string{"/var/lib/kubelet"}
	f = facts(x)
	f.Mounts = []host.Mount{{Source: x.Path, Target: "/var/lib/kubelet", Type: "xfs", Root: "/", Device: x.Device}}
	f.Units["kubelet.service"] = host.Unit{LoadState: "loaded", ActiveState: "active"}
	refused(t, plan(f, d), "while kubelet.service runs on it")
}
