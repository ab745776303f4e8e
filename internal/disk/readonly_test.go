package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMountPointThatCantBeMadeIsToldBeforehand(t *testing.T) {
	f := facts(blankDisk("sdb", 1))
	d := kubeletDisk(anyBlank())
	f.Targets = map[string]Target{d.MountPath: {ReadOnly: "/ (btrfs) is mounted read-only"}}
	p := plan(f, d)
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], d.MountPath+" isn't there and can't be made: / (btrfs) is mounted read-only")
	require.Empty(t, formats(p))
}
