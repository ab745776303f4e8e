package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisksAreSelectedInExactlyOneWayThatCanBe(t *testing.T) {
	for _, c := range []struct{ sel, want string }{
		{"{}", "spec.disks[0].select: names no device"},
		{"{scsiUnit: 7}", "spec.disks[0].select.scsiUnit: 7 is no unit of a disk"},
		{"{scsiUnit: -1}", "-1 is no unit of a disk"},
		{"{scsiUnit: 65}", "65 is no unit of a disk"},
		{"{scsiUnit: 0, serial: x}", "names the device in 2 ways: serial, scsiUnit"},
		{"{diskUUID: 6000C29d}", `spec.disks[0].select.diskUUID: "6000C29d" is no UUID of a disk`},
		{"{diskUUID: 6000c29d-1f24-7b0c-9a36-5d2e8f4b1c7g}", "is no UUID of a disk"},
	} {
		_, err := load(t, smallest+"  disks: [{name: a, mountPath: /a, select: "+c.sel+"}]\n")
		require.ErrorContains(t, err, c.want, c.sel)
	}
	_, err := load(t, smallest+"  disks: [{name: a/b, mountPath: /a, wipeOnce: true, select: {label: a}}]\n")
	require.ErrorContains(t, err, `"a/b" can't name a file`)
	for _, sel := range []string{"{scsiUnit: 0}", "{scsiUnit: 64}", "{diskUUID: 6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70}", "{diskUUID: 6000C29D 1F247B0C 9A365D2E 8F4B1C70}"} {
		_, err := load(t, smallest+"  disks: [{name: a, mountPath: /a, select: "+sel+"}]\n")
		require.NoError(t, err, sel)
	}
}
