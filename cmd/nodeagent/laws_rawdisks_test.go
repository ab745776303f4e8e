package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/reset"
	"nodeagent/internal/run"
)

// withRawDisks plugs four more disks in: one that is new, one that holds
// somebody's filesystem, one in a slot of a SCSI controller of its own, and one
// that is reached by two paths.
func withRawDisks(world func() *hosttest.World) func() *hosttest.World {
	return func() *hosttest.World {
		w := world()
		disk := func(name, place string) host.BlockDevice {
			return host.BlockDevice{Name: name, Path: "/dev/" + name, Type: "disk", Size: 200 << 30, ByPath: []string{"/dev/disk/by-path/" + place}}
		}
		fresh, used, slot := disk("sdp", "pci-0000:0a:00.0"), disk("sdq", "pci-0000:0b:00.0"), disk("sdr", "pci-0000:13:00.0-scsi-0:0:5:0")
		fresh.Serial, fresh.ByID = "RAW-1", []string{"/dev/disk/by-id/scsi-RAW-1"}
		used.WWN, used.ByID = "0x5000c500a1b2c3d4", []string{"/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"}
		used.FSType, used.Label, used.FSUUID, used.Signatures, used.NonZero = "ext4", "theirs", "77", []string{"ext4@0x438"}, true
		const uuid = "6000c29d1f247b0c9a365d2e8f4b1c70"
		a, b := disk("sds", "pci-0000:14:00.0-fc-1-lun-0"), disk("sdt", "pci-0000:15:00.0-fc-1-lun-0")
		for _, path := range []*host.BlockDevice{&a, &b} {
			path.WWN, path.FSType, path.Children = "0x"+uuid, "mpath_member", []string{"dm-9"}
		}
		above := host.BlockDevice{Name: "dm-9", Path: "/dev/dm-9", Type: "mpath", Size: 200 << 30, ByID: []string{"/dev/disk/by-id/dm-uuid-mpath-3" + uuid}}
		w.Disks = append(w.Disks, fresh, used, slot, a, b, above)
		return w
	}
}

// linking asks for those as raw disks.
func linking(spec config.Spec) config.Spec {
	unit := 5
	spec.Disks = append(append([]config.Disk{}, spec.Disks...),
		config.Disk{Name: "osd-new", Select: config.DiskSelect{Serial: "RAW-1"}},
		config.Disk{Name: "osd-used", Select: config.DiskSelect{WWN: "naa.5000c500a1b2c3d4"}},
		config.Disk{Name: "osd-slot", Select: config.DiskSelect{SCSIUnit: &unit}},
		config.Disk{Name: "osd-paths", Select: config.DiskSelect{DiskUUID: "6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70"}})
	return spec
}

func TestRawDisksGetTheirLinksAndNothingElse(t *testing.T) {
	cases := lawCases(t)
	for name, world := range map[string]func() *hosttest.World{"rocky9": hosttest.Rocky9, "photon5": hosttest.Photon5, "alauda": hosttest.Alauda} {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			c.spec = linking(c.spec)
			w := withRawDisks(world)()
			before := map[string]host.BlockDevice{}
			for _, d := range w.Disks {
				before[d.Name] = d
			}
			_, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			links := map[string]string{}
			for _, d := range w.Disks {
				for _, l := range d.ByCAPV {
					links[l] = d.Name
					d.ByCAPV = nil
					require.Equal(t, before[d.Name], d)
				}
			}
			require.Equal(t, map[string]string{"/dev/disk/by-capv/osd-new": "sdp", "/dev/disk/by-capv/osd-used": "sdq", "/dev/disk/by-capv/osd-slot": "sdr", "/dev/disk/by-capv/osd-paths": "dm-9"}, links)
			for _, m := range w.MountTable {
				require.NotContains(t, []string{"/dev/sdp", "/dev/sdq", "/dev/sdr", "/dev/dm-9"}, m.Source)
			}

			// The new disk in another slot, under another name, at the next boot.
			for i := range w.Disks {
				if w.Disks[i].Name == "sdp" {
					w.Disks[i].Name, w.Disks[i].Path, w.Disks[i].ByPath = "sdz", "/dev/sdz", []string{"/dev/disk/by-path/pci-0000:1f:00.0"}
				}
			}
			w.Reboot()
			last, err := up(w, c.spec)
			require.NoError(t, err, "%s", run.Describe(err))
			for _, s := range last.Steps {
				if s.Name == "disks" {
					require.Empty(t, s.Changes)
				}
			}
			require.Contains(t, w.String(), "devlink /dev/disk/by-capv/osd-new -> /dev/sdz\n")
		})
	}
}

// What the configuration names no more, loses its link; the last takes the file
// of rules with it.
func TestARawDiskThatIsNoLongerAskedForLosesItsLink(t *testing.T) {
	c := lawCases(t)["rocky9, raw disks"]
	w := c.world()
	_, err := up(w, c.spec)
	require.NoError(t, err, "%s", run.Describe(err))
	n := len(c.spec.Disks)
	for _, left := range []struct{ disks, links int }{{n - 1, 3}, {n - 4, 0}, {0, 0}} {
		spec := c.spec
		spec.Disks = spec.Disks[:left.disks]
		_, err = up(w, spec)
		require.NoError(t, err, "%s", run.Describe(err))
		require.Equal(t, left.links, strings.Count(w.String(), "devlink "), w.String())
		require.Equal(t, left.links > 0, w.Files[udev.Path].Content != "")
		second, err := up(w, spec)
		require.NoError(t, err, "%s", run.Describe(err))
		require.Zero(t, second.Changes)
	}
	last, err := resetWorld(w, reset.Options{})
	require.NoError(t, err, "%s", run.Describe(err))
	require.NotZero(t, last.Changes)
	require.NotContains(t, w.String(), "by-capv")
}

// A rule that somebody has added to the file is theirs, and a reset leaves it
// with the links that it makes.
func TestAResetLeavesRulesThatOthersChanged(t *testing.T) {
	c := lawCases(t)["rocky9, raw disks"]
	w := c.world()
	_, err := up(w, c.spec)
	require.NoError(t, err, "%s", run.Describe(err))
	f := w.Files[udev.Path]
	f.Content += "KERNEL==\"sdx\", SYMLINK+=\"mine\"\n"
	w.Files[udev.Path] = f
	last, err := resetWorld(w, reset.Options{ForgetDisks: true})
	require.NoError(t, err, "%s", run.Describe(err))
	require.Contains(t, strings.Join(last.Warnings, "\n"), udev.Path+" was changed since")
	require.Equal(t, f, w.Files[udev.Path])
	require.Equal(t, 4, strings.Count(w.String(), "devlink "))
}

// The plan says what is on a raw disk, and how the link would lead elsewhere.
func TestAPlanTellsWhatIsOnARawDisk(t *testing.T) {
	c := lawCases(t)["rocky9, raw disks"]
	p := text(t, run.Make(context.Background(), c.world(), c.spec, steps))
	require.Contains(t, p, `link /dev/disk/by-capv/osd-used to /dev/disk/by-id/wwn-0x5000c500a1b2c3d4 (200.0 GiB, raw); what is on it stays: ext4 labelled \"theirs\"`)
	require.Contains(t, p, "link /dev/disk/by-capv/osd-new to /dev/disk/by-id/scsi-RAW-1 (200.0 GiB, raw)\"")
}
