package disk

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// smallest is the least size mkfs accepts: mkfs.xfs(8) since xfsprogs 5.19.
var smallest = map[string]int64{"xfs": 300 << 20, "ext4": 16 << 20}

// decide is the one place where adopting, formatting and refusing part. It
// returns nil, nil to adopt what is there.
func decide(d config.Disk, x host.BlockDevice, f Facts) (*change.MakeFilesystem, error) {
	if f.mounted(d, x) && x.Label == d.Filesystem.Label {
		return nil, nil
	}
	refuse := func(hint, format string, a ...any) error {
		return fail.New(fail.Safety, hint, "disk %s: %s: %s", d.Name, describe(x), fmt.Sprintf(format, a...))
	}
	const mine = "nothing was changed; select another device, or describe what is there"
	if why := unfit(x, f.Devices); why != "" {
		return nil, refuse(mine, "%s", why)
	}
	if !usable(d.Select, x.Type) {
		return nil, refuse("select a disk or a partition", "it is of type %s, which %s doesn't take", x.Type, selector(d.Select))
	}
	if x.HalfMade(d.Filesystem.Type, fsUUID(f.MachineID, d)) {
		return resume(d, x, f)
	}
	right := x.FSType == d.Filesystem.Type && x.Label == d.Filesystem.Label && x.PTType == "" && !x.Ambivalent && x.Unreadable == ""
	switch {
	case right && len(x.Mounts) > 0:
		return nil, refuse("unmount it first, or take that as mountPath", "it is mounted on %s, not on %s", strings.Join(some(x.Mounts), ", "), d.MountPath)
	case right && len(x.Children) > 0:
		// Busy alone is no reason: a leftover of the mount in another namespace
		// lets it be mounted again.
		return nil, refuse("see what uses it: lsblk, dmsetup ls, cat /proc/mdstat", "it is in use: %s is on it", strings.Join(x.Children, ", "))
	case right && x.Unfinished:
		return resume(d, x, f)
	case right:
		return nil, nil
	}
	if why := x.NotBlank(); len(why) > 0 {
		if d.Keep || x.FSType != "" {
			why = append(why, fmt.Sprintf("wanted is %s labelled %q", d.Filesystem.Type, d.Filesystem.Label))
		}
		return nil, refuse(mine+"; if its data may go, make the filesystem with that label by hand, which is adopted, or write zeros over the whole disk", "%s", strings.Join(why, "; "))
	}
	if d.Keep {
		return nil, refuse("attach the disk that holds the data; only without keep a blank disk is formatted", "it is blank, but keep says that it holds data")
	}
	return makeFilesystem(d, x, f)
}

// usable tells which types of device a selector may mean. What is stacked on
// disks (LVM, RAID, multipath, crypt) and loop devices can be adopted by what
// identifies the filesystem itself.
func usable(s config.DiskSelect, kind string) bool {
	switch {
	case kind == "disk" || kind == "part":
		return true
	case kind == "loop":
		return s.Label != "" || s.FSUUID != ""
	}
	return s.Blank == nil
}

// makeFilesystem plans the format of a provably blank device.
func makeFilesystem(d config.Disk, x host.BlockDevice, f Facts) (*change.MakeFilesystem, error) {
	refuse := func(hint, why string) error {
		return fail.New(fail.Safety, hint, "disk %s: %s can't be formatted: %s", d.Name, describe(x), why)
	}
	link := d.Select.Path
	if link == "" {
		link = stableLink(x)
	}
	switch {
	case x.Type != "disk" && x.Type != "part":
		return nil, refuse("make the filesystem by hand; it is adopted then", "only whole disks and partitions are formatted, and it is of type "+x.Type)
	case link == "":
		return nil, refuse("see what udev makes of it: udevadm info "+x.Path, "it has no link below /dev/disk/by-id or by-path, and kernel names change between boots")
	case x.Size < smallest[d.Filesystem.Type]:
		return nil, refuse("attach a larger one", "it is too small for "+d.Filesystem.Type+", which needs "+size(smallest[d.Filesystem.Type]))
	case f.MachineID == "":
		return nil, fail.New(fail.Step, "make one: systemd-machine-id-setup", "disk %s: this host has no machine id, from which the filesystem's UUID is made", d.Name)
	}
	return &change.MakeFilesystem{Disk: d.Name, Device: link, Size: x.Size, Serial: x.Serial, WWN: x.WWN,
		Type: d.Filesystem.Type, Label: d.Filesystem.Label, UUID: fsUUID(f.MachineID, d), Options: d.Filesystem.Options}, nil
}

// resume plans a format again that was cut off: only with a journalled intent
// for the same device and the same filesystem, whose beginning is all that is
// there.
func resume(d config.Disk, x host.BlockDevice, f Facts) (*change.MakeFilesystem, error) {
	c, err := makeFilesystem(d, x, f)
	if err != nil {
		return nil, err
	}
	was, ok := f.Unfinished[c.ID()]
	if !ok || !x.HalfMade(c.Type, c.UUID) || was.UUID != c.UUID || was.Type != c.Type || was.Label != c.Label || !sameDevice(was, x) || d.Keep {
		return nil, fail.New(fail.Safety, "see what made it; if it holds nothing, empty it by hand", "disk %s: %s: it holds a half-made filesystem (uuid %s), and the journal has no unfinished format of ours for it", d.Name, describe(x), x.FSUUID+x.Claim)
	}
	c.Resume = true
	return c, nil
}

// some keeps messages short.
func some(list []string) []string {
	if len(list) > 3 {
		return append(slices.Clone(list[:3]), "…")
	}
	return list
}

func size(n int64) string { return change.Size(n) }
