package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

func TestARawDiskHasANameASelectorOfIdentityAndNothingElse(t *testing.T) {
	for _, c := range []struct{ disk, want, hint string }{
		{"{name: osd, select: {blank: {minSize: 90GiB}}}", "spec.disks[0].select.blank: it may mean another device later", "give the disk a mountPath; or, if it is to be raw"},
		{"{name: osd, select: {label: osd}}", "spec.disks[0].select.label: it may mean another device later", "serial, wwn, diskUUID, scsiUnit or path"},
		{"{name: osd, select: {fsUUID: 5b1f}}", "spec.disks[0].select.fsUUID: it may mean another device later", ""},
		{"{name: osd, select: {partLabel: osd}}", "spec.disks[0].select.partLabel: it may mean another device later", ""},
		{"{name: osd, select: {serial: x}, wipeOnce: true}", "spec.disks[0].wipeOnce: it has neither mountPath nor filesystem and so is raw", "take wipeOnce away"},
		{"{name: osd, select: {serial: x}, mountOptions: [noatime]}", "spec.disks[0].mountOptions: it has neither mountPath nor filesystem and so is raw", "take mountOptions away"},
		{"{name: osd, select: {serial: x}, filesystem: {label: osd}}", "spec.disks[0].mountPath: missing", "a raw disk, which gets only a link by its name, has no filesystem either"},
		{"{name: osd, select: {serial: x}, filesystem: {type: xfs}}", "spec.disks[0].mountPath: missing", ""},
		{"{name: osd/1, select: {serial: x}}", `spec.disks[0].name: "osd/1" can't name a link`, "/dev/disk/by-capv/NAME"},
		{"{name: .., select: {serial: x}}", `spec.disks[0].name: ".." can't name a link`, ""},
		{"{name: \"o s d\", select: {serial: x}}", `spec.disks[0].name: "o s d" can't name a link`, ""},
		{"{name: $env, select: {serial: x}}", `spec.disks[0].name: "$env" can't name a link`, ""},
		{"{name: " + strings.Repeat("a", 201) + ", select: {serial: x}}", "can't name a link", "200 at most"},
		{"{select: {serial: x}}", "spec.disks[0].name: missing", ""},
		{"{name: osd, select: {serial: \"S4*\"}}", `spec.disks[0].select.serial: "S4*" can't stand in a rule of udev's`, "select the disk by another of"},
		{"{name: osd, select: {path: \"/dev/disk/by-id/a|b\"}}", `spec.disks[0].select.path: "/dev/disk/by-id/a|b" can't stand in a rule`, ""},
		{`{name: osd, select: {wwn: "0x5\""}}`, `spec.disks[0].select.wwn: "0x5\"" can't stand in a rule`, ""},
		{"{name: osd, select: {path: /dev/sdb}}", "spec.disks[0].select.path: /dev/sdb is not an identity", ""},
		{"{name: osd, select: {serial: x, wwn: y}}", "names the device in 2 ways: serial, wwn", ""},
		{"{name: osd, select: {serial: x}}, {name: osd, select: {serial: y}}", "spec.disks[1].name: disk osd is given twice", ""},
		{"{name: osd, select: {serial: x}}, {name: osd, select: {label: osd}, mountPath: /a}", "spec.disks[1].name: disk osd is given twice", ""},
	} {
		_, err := load(t, smallest+"  disks: ["+c.disk+"]\n")
		require.ErrorContains(t, err, c.want, c.disk)
		require.Contains(t, fail.HintOf(err), c.hint, c.disk)
	}
}

func TestARawDiskKeepsNoDefaultsOfAFilesystem(t *testing.T) {
	for _, sel := range []string{"{serial: S4X 01}", "{wwn: naa.5000c500a1b2c3d4}", "{diskUUID: 6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70}", "{scsiUnit: 5}", "{path: /dev/disk/by-path/pci-0000:00:04.0}"} {
		c, err := load(t, smallest+"  disks: [{name: osd-1.a_B, keep: true, select: "+sel+"}, {name: data, mountPath: /data, select: {blank: {}}}]\n")
		require.NoError(t, err, sel)
		require.True(t, c.Spec.Disks[0].Raw())
		require.Zero(t, c.Spec.Disks[0].Filesystem)
		require.False(t, c.Spec.Disks[1].Raw())
		require.Equal(t, "xfs", c.Spec.Disks[1].Filesystem.Type)
	}
	// The longest names are those of links: no label is made of them.
	_, err := load(t, smallest+"  disks: [{name: "+strings.Repeat("a", 200)+", select: {serial: x}}]\n")
	require.NoError(t, err)
}
