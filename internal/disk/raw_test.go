package disk

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func rawDisk(name string, s config.DiskSelect) config.Disk {
	return config.Disk{Name: name, Select: s}
}

// scsiDisk is a disk of which udev knows serial and WWN.
func scsiDisk(name, serial, wwn string) host.BlockDevice {
	return host.BlockDevice{Name: name, Path: "/dev/" + name, Type: "disk", Size: 100 * gib, Serial: serial, WWN: wwn,
		ByID: []string{"/dev/disk/by-id/scsi-3" + serial, "/dev/disk/by-id/wwn-" + wwn}, ByPath: []string{"/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0"}}
}

// known is those facts with what udev says of a device.
func known(f Facts, device string, properties map[string]string) Facts {
	f.Udev = map[string]map[string]string{device: properties}
	return f
}

// linkedBy is the match of the one rule of a plan, and its links.
func linkedBy(t *testing.T, p change.Plan) (string, []change.LinkDisk) {
	t.Helper()
	require.Empty(t, p.Blocked, ids(p))
	rule, links := "", []change.LinkDisk(nil)
	for _, c := range p.Changes {
		switch c := c.(type) {
		case change.WriteFile:
			require.Equal(t, udev.Path, c.Path)
			require.Equal(t, "0644 root:root", c.Mode+" "+c.Owner)
			require.Empty(t, links, "the rules come first")
			for _, l := range udev.Parse(c.Content) {
				rule += l.Type + " " + l.Key + " " + l.Value + "\n"
			}
		case change.LinkDisk:
			links = append(links, c)
		default:
			require.Fail(t, "a raw disk gets nothing else", "%s", ids(p))
		}
	}
	return strings.TrimSuffix(rule, "\n"), links
}

func TestARuleKnowsTheDiskByWhatItIsSelectedBy(t *testing.T) {
	unit := 1
	x := scsiDisk("sdb", "S4X01", "0x5000c500a1b2c3d4")
	part := host.BlockDevice{Name: "sdb2", Path: "/dev/sdb2", Type: "part", Parent: "sdb", Size: gib, ByID: []string{"/dev/disk/by-id/wwn-0x5-part2"}}
	vmware := vmdk("sdb", 3, 1, uuidA)
	nvme := host.BlockDevice{Name: "nvme0n1", Path: "/dev/nvme0n1", Type: "disk", Size: gib, Serial: "N1", ByID: []string{"/dev/disk/by-id/nvme-MODEL_N1", "/dev/disk/by-id/nvme-eui.0025"}}
	for name, c := range map[string]struct {
		device     host.BlockDevice
		sel        config.DiskSelect
		properties map[string]string
		want       string
	}{
		"serial":                    {x, config.DiskSelect{Serial: "S4X01"}, map[string]string{"ID_SERIAL": "3S4X01", "ID_SERIAL_SHORT": "S4X01"}, "disk ENV{ID_SERIAL_SHORT} S4X01"},
		"serial of virtio":          {x, config.DiskSelect{Serial: "S4X01"}, map[string]string{"ID_SERIAL": "S4X01"}, "disk ENV{ID_SERIAL} S4X01"},
		"serial of sg3_utils":       {x, config.DiskSelect{Serial: "S4X01"}, map[string]string{"ID_SERIAL_SHORT": "35000", "SCSI_IDENT_SERIAL": " S4X01"}, "disk ENV{SCSI_IDENT_SERIAL}  S4X01"},
		"serial of a controller":    {nvme, config.DiskSelect{Serial: "N1"}, map[string]string{"ID_SERIAL_SHORT": "N1", "ID_WWN": "eui.0025"}, "disk ENV{ID_WWN} eui.0025"},
		"a link made of it":         {nvme, config.DiskSelect{Path: nvme.ByID[0]}, map[string]string{"ID_WWN": "eui.0025"}, "disk ENV{ID_WWN} eui.0025"},
		"the same without a wwn":    {nvme, config.DiskSelect{Serial: "N1"}, map[string]string{"ID_SERIAL_SHORT": "N1"}, "disk SYMLINK disk/by-id/nvme-eui.0025"},
		"wwn":                       {x, config.DiskSelect{WWN: "naa.5000C500A1B2C3D4"}, map[string]string{"ID_WWN": "0x5000c500a1b2c3d4"}, "disk ENV{ID_WWN} 0x5000c500a1b2c3d4"},
		"wwn with an extension":     {x, config.DiskSelect{WWN: "0x5000c500a1b2c3d4"}, map[string]string{"ID_WWN": "0x5000c500a1b2c3d4", "ID_WWN_WITH_EXTENSION": "0x5000c500a1b2c3d4"}, "disk ENV{ID_WWN_WITH_EXTENSION} 0x5000c500a1b2c3d4"},
		"uuid":                      {vmware, config.DiskSelect{DiskUUID: "6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70"}, map[string]string{"ID_SERIAL": "3" + uuidA, "ID_WWN_WITH_EXTENSION": "0x" + uuidA}, "disk ENV{ID_WWN_WITH_EXTENSION} 0x" + uuidA},
		"uuid in a link only":       {vmware, config.DiskSelect{DiskUUID: uuidA}, nil, "disk SYMLINK disk/by-id/scsi-3" + uuidA},
		"unit, as the whole path":   {x, config.DiskSelect{SCSIUnit: &unit}, map[string]string{"ID_SERIAL": "3S4X01"}, "disk SYMLINK disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0"},
		"path by-path":              {x, config.DiskSelect{Path: x.ByPath[0]}, nil, "disk SYMLINK disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0"},
		"path by-id":                {x, config.DiskSelect{Path: x.ByID[0]}, map[string]string{"ID_SERIAL": "3S4X01"}, "disk SYMLINK disk/by-id/scsi-3S4X01"},
		"path by-id of a partition": {part, config.DiskSelect{Path: part.ByID[0]}, map[string]string{"ID_SERIAL": "3S4X01"}, "partition SYMLINK disk/by-id/wwn-0x5-part2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := known(facts(c.device), c.device.Name, c.properties)
			rule, links := linkedBy(t, plan(f, rawDisk("osd", c.sel)))
			require.Equal(t, c.want, rule)
			require.Equal(t, []change.LinkDisk{{Disk: "osd", Link: "/dev/disk/by-capv/osd", Device: stableLink(c.device), Size: c.device.Size}}, links)
		})
	}
}

func TestAMultipathDeviceIsLinkedAndNoneOfItsPaths(t *testing.T) {
	a, b := scsiDisk("sdb", "LUN", "0x6001"), scsiDisk("sdc", "LUN", "0x6001")
	a.ByID, b.ByID = nil, nil
	above := host.BlockDevice{Name: "dm-3", Path: "/dev/dm-3", Type: "mpath", Size: 100 * gib, ByID: []string{"/dev/disk/by-id/dm-uuid-mpath-36001", "/dev/disk/by-id/wwn-0x6001"}}
	one, two := a, b
	one.Children, two.Children = []string{"dm-3"}, []string{"dm-3"}
	for _, s := range []config.DiskSelect{{Serial: "LUN"}, {WWN: "0x6001"}, {Path: "/dev/disk/by-id/wwn-0x6001"}, {Path: a.ByPath[0]}} {
		rule, links := linkedBy(t, plan(known(facts(one, two, above), "dm-3", map[string]string{"DM_UUID": "mpath-36001"}), rawDisk("osd", s)))
		require.Equal(t, "disk ENV{DM_UUID} mpath-36001", rule)
		require.Len(t, links, 1)
		require.Equal(t, "/dev/disk/by-id/wwn-0x6001", links[0].Device)
	}
	// Two paths that nothing binds together are two devices.
	refused(t, plan(facts(a, b), rawDisk("osd", config.DiskSelect{Serial: "LUN"})), "serial LUN is true of 2 devices")
	refused(t, plan(known(facts(one, two, above), "dm-3", nil), rawDisk("osd", config.DiskSelect{Serial: "LUN"})), "nothing in udev's database says so", "it says: nothing")
}

func TestWhichRawDisksAreRefused(t *testing.T) {
	x := scsiDisk("sdb", "S4X01", "0x5000")
	twin := scsiDisk("sdc", "S4X01", "0x5001")
	by := func(s config.DiskSelect) config.Disk { return rawDisk("osd", s) }
	serial := by(config.DiskSelect{Serial: "S4X01"})
	is := map[string]string{"ID_SERIAL_SHORT": "S4X01"}
	change := func(x host.BlockDevice, how func(*host.BlockDevice)) host.BlockDevice { how(&x); return x }
	data := kubeletDisk(config.DiskSelect{WWN: "0x5000"})
	for name, c := range map[string]struct {
		f     Facts
		disks []config.Disk
		want  string
	}{
		"two of them":                        {facts(x, twin), []config.Disk{serial}, "serial S4X01 is true of 2 devices"},
		"the system's":                       {facts(), []config.Disk{by(config.DiskSelect{Serial: "SYS"})}, "it holds the running system"},
		"read-only":                          {known(facts(change(x, func(x *host.BlockDevice) { x.ReadOnly = true })), "sdb", is), []config.Disk{serial}, "it is read-only"},
		"two paths without multipath":        {facts(x, scsiDisk("sdc", "S", "0x5000")), []config.Disk{serial}, "sdc has the same WWN: they are two paths to one disk"},
		"a logical volume":                   {facts(host.BlockDevice{Name: "dm-1", Path: "/dev/dm-1", Type: "lvm", ByID: []string{"/dev/disk/by-id/dm-name-vg-lv"}}), []config.Disk{by(config.DiskSelect{Path: "/dev/disk/by-id/dm-name-vg-lv"})}, "it is of type lvm"},
		"no stable link":                     {known(facts(change(x, func(x *host.BlockDevice) { x.ByID, x.ByPath = nil, nil })), "sdb", is), []config.Disk{serial}, "kernel names change between boots"},
		"a serial that udev doesn't know":    {known(facts(x), "sdb", map[string]string{"ID_SERIAL": "other"}), []config.Disk{serial}, `says so, by which a rule could know the disk; it says: ID_SERIAL="other"`},
		"a serial of a controller alone":     {known(facts(host.BlockDevice{Name: "nvme0n1", Path: "/dev/nvme0n1", Type: "disk", Size: gib, Serial: "S4X01", ByID: []string{"/dev/disk/by-id/nvme-MODEL_S4X01"}}), "nvme0n1", is), []config.Disk{serial}, "nothing in udev's database says so"},
		"a value that is a pattern":          {known(facts(vmdk("sdb", 3, 1, uuidA)), "sdb", map[string]string{"ID_SERIAL": "a*" + uuidA}), []config.Disk{by(config.DiskSelect{DiskUUID: uuidA})}, "can't stand in a rule of udev's"},
		"raw twice":                          {known(facts(x), "sdb", is), []config.Disk{serial, rawDisk("other", config.DiskSelect{WWN: "0x5000"})}, "disks osd and other both mean /dev/disk/by-id/wwn-0x5000"},
		"raw and mounted":                    {known(facts(x), "sdb", is), []config.Disk{serial, data}, "disks osd and kubelet both mean /dev/disk/by-id/wwn-0x5000"},
		"mounted and raw":                    {known(facts(x), "sdb", is), []config.Disk{data, serial}, "disks osd and kubelet both mean /dev/disk/by-id/wwn-0x5000"},
		"mounted by its label and raw":       {known(facts(holding(x, "xfs", "kubelet")), "sdb", is), []config.Disk{kubeletDisk(config.DiskSelect{Label: "kubelet"}), serial}, "both mean"},
		"mounted from its partition and raw": {known(facts(change(x, func(x *host.BlockDevice) { x.Children = []string{"sdb1"} }), holding(host.BlockDevice{Name: "sdb1", Path: "/dev/sdb1", Type: "part", Parent: "sdb", Size: gib, Probed: true}, "xfs", "kubelet")), "sdb", is), []config.Disk{kubeletDisk(config.DiskSelect{Label: "kubelet"}), serial}, "both mean"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(c.f, c.disks...)
			refused(t, p, c.want)
			require.NotContains(t, ids(p), udev.Path)
			require.NotContains(t, ids(p), "link:")
		})
	}
	p := plan(known(facts(x), "sdb", is), data, serial)
	require.Len(t, p.Blocked, 1, "one sentence for both")
}

func TestABlankDiskThatIsRawIsNeverTakenForAnother(t *testing.T) {
	raw, free := blankDisk("vdb", 4), blankDisk("vdc", 5)
	raw.Serial, raw.ByID = "RAW", []string{"/dev/disk/by-id/virtio-RAW"}
	f := known(facts(raw, free), "vdb", map[string]string{"ID_SERIAL": "RAW"})
	osd := rawDisk("osd", config.DiskSelect{Serial: "RAW"})
	require.Equal(t, map[string]string{"kubelet": "/dev/disk/by-path/pci-0000:00:05.0"}, formats(plan(f, kubeletDisk(anyBlank()), osd)))

	f = known(facts(raw), "vdb", map[string]string{"ID_SERIAL": "RAW"})
	p := plan(f, kubeletDisk(anyBlank()), osd)
	require.Empty(t, formats(p))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "there is no other whole disk of that size")
}

func TestAMissingRawDiskIsAwaitedAndNotReplaced(t *testing.T) {
	p := plan(facts(blankDisk("vdb", 4)), rawDisk("osd", config.DiskSelect{Serial: "GONE"}))
	require.Empty(t, p.Changes)
	require.Len(t, p.Blocked, 1)
	require.Equal(t, fail.Step, fail.KindOf(p.Blocked[0]), "the service tries again")
	require.ErrorContains(t, p.Blocked[0], "disk osd: no device has serial GONE")
}

func TestWhatIsOnARawDiskIsToldAndLeft(t *testing.T) {
	x := holding(scsiDisk("sdb", "S4X01", "0x5000"), "ext4", "theirs")
	x.PTType, x.Children, x.Mounts, x.Swap = "gpt", []string{"sdb1"}, []string{"/mnt/a"}, true
	_, links := linkedBy(t, plan(known(facts(x), "sdb", map[string]string{"ID_SERIAL": "S4X01"}), rawDisk("osd", config.DiskSelect{Serial: "S4X01"})))
	require.Equal(t, `ext4 labelled "theirs", a gpt partition table, sdb1, mounted on /mnt/a, in use as swap`, links[0].Holds)
}

// right are facts of a host on which everything is as it shall be.
func right(x host.BlockDevice) Facts {
	x.ByCAPV = []string{"/dev/disk/by-capv/osd"}
	f := known(facts(x), x.Name, map[string]string{"ID_SERIAL": x.Serial})
	f.Files[udev.Path] = host.Text{Exists: true, Mode: "0644", Owner: "root:root", Content: udev.Text([]udev.Link{{Name: "osd", Type: "disk", Key: "ENV{ID_SERIAL}", Value: x.Serial}})}
	return f
}

func TestALinkThatIsWrongIsMadeAgainAndARightOneLeft(t *testing.T) {
	x, y := scsiDisk("sdb", "S4X01", "0x5000"), scsiDisk("sdc", "S4X02", "0x5001")
	osd := rawDisk("osd", config.DiskSelect{Serial: "S4X01"})
	require.Equal(t, "", ids(plan(right(x), osd)))

	absent := right(x)
	absent.Devices[len(absent.Devices)-1].ByCAPV = nil
	require.Equal(t, "link:/dev/disk/by-capv/osd", ids(plan(absent, osd)))

	away := right(x)
	away.Devices[len(away.Devices)-1].ByCAPV = nil
	y.ByCAPV = []string{"/dev/disk/by-capv/osd"}
	away.Devices = append(away.Devices, y)
	_, links := linkedBy(t, plan(away, osd))
	require.Len(t, links, 1)
	require.Equal(t, "/dev/disk/by-id/wwn-0x5001", links[0].Instead)
	require.Equal(t, "link /dev/disk/by-capv/osd to /dev/disk/by-id/wwn-0x5000 (100.0 GiB, raw) and no more to /dev/disk/by-id/wwn-0x5001", links[0].Summary())

	// Another disk takes the name: the rule is another, and the link moves.
	moved := right(x)
	moved.Devices = append(moved.Devices, scsiDisk("sdc", "S4X02", "0x5001"))
	moved.Udev = map[string]map[string]string{"sdc": {"ID_SERIAL": "S4X02"}}
	rule, links := linkedBy(t, plan(moved, rawDisk("osd", config.DiskSelect{Serial: "S4X02"})))
	require.Equal(t, "disk ENV{ID_SERIAL} S4X02", rule)
	require.Equal(t, "/dev/disk/by-id/wwn-0x5000", links[0].Instead)

	// Right by chance, without a rule: udev shall make it at the next boot too.
	chance := right(x)
	chance.Files = map[string]host.Text{}
	require.Equal(t, "file:"+udev.Path+"\nlink:/dev/disk/by-capv/osd", ids(plan(chance, osd)))
}

func TestARuleOfOthersThatOwnsTheNameIsKeptOrRefused(t *testing.T) {
	x := scsiDisk("sdb", "S4X01", "0x5000")
	osd := rawDisk("osd", config.DiskSelect{Serial: "S4X01"})
	theirs := udev.Rule{Path: "/etc/udev/rules.d/70-site.rules", Line: 3, Text: `KERNEL=="sdb", SYMLINK+="disk/by-capv/osd"`}
	dynamic := udev.Rule{Path: "/usr/lib/udev/rules.d/70-capv.rules", Line: 1, Text: `SYMLINK+="disk/by-capv/$env{CAPV}"`}

	f := right(x)
	f.Files, f.Rules = map[string]host.Text{}, []udev.Rule{theirs}
	p := plan(f, osd)
	require.Equal(t, "", ids(p), "it does what is asked for")
	require.Contains(t, strings.Join(p.Notes, ""), "line 3 of /etc/udev/rules.d/70-site.rules")

	f.Devices[len(f.Devices)-1].ByCAPV = nil
	refused(t, plan(f, osd), "disk osd: /dev/disk/by-capv/osd isn't there", "line 3 of /etc/udev/rules.d/70-site.rules: KERNEL==\"sdb\"", "remove that rule")

	other := scsiDisk("sdc", "S4X02", "0x5001")
	other.ByCAPV = []string{"/dev/disk/by-capv/osd"}
	f.Devices = append(f.Devices, other)
	f.Rules = []udev.Rule{dynamic}
	refused(t, plan(f, osd), "leads to /dev/disk/by-id/wwn-0x5001", "not to /dev/disk/by-id/wwn-0x5000", "line 1 of /usr/lib/udev/rules.d/70-capv.rules")

	f.Devices = f.Devices[:len(f.Devices)-1]
	require.Equal(t, "file:"+udev.Path+"\nlink:/dev/disk/by-capv/osd", ids(plan(f, osd)), "a rule for other names is in nobody's way")

	f.Rules, f.Files[udev.Path] = nil, host.Text{Exists: true, Content: "KERNEL==\"sdb\", SYMLINK+=\"mine\"\n"}
	refused(t, plan(f, osd), udev.Path+" isn't nodeagent's")
}

func TestObservingARawDiskOpensNoDevice(t *testing.T) {
	w := &noProbe{World: hosttest.Rocky9()}
	w.Disks = append(w.Disks, scsiDisk("sdb", "S4X01", "0x5000"))
	f, err := Observe(t.Context(), w, config.Spec{Disks: []config.Disk{rawDisk("osd", config.DiskSelect{Serial: "S4X01"})}})
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]string{"sdb": {"ID_SERIAL_SHORT": "S4X01", "ID_WWN": "0x5000"}}, f.Udev)
	require.False(t, w.settled, "it is there")
	_, err = Observe(t.Context(), w, config.Spec{Disks: []config.Disk{rawDisk("osd", config.DiskSelect{Serial: "LATE"})}})
	require.NoError(t, err)
	require.True(t, w.settled, "perhaps it has only just appeared")
}

// noProbe is a world in which nothing may be opened.
type noProbe struct {
	*hosttest.World
	settled bool
}

func (w *noProbe) Probe(_ context.Context, d host.BlockDevice) (host.BlockDevice, error) {
	return d, fmt.Errorf("%s was opened", d.Path)
}

func (w *noProbe) BlockDevices(ctx context.Context, settle bool) ([]host.BlockDevice, error) {
	w.settled = w.settled || settle
	return w.World.BlockDevices(ctx, settle)
}
