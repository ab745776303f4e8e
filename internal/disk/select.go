package disk

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// selects tells whether a selector other than blank names the device, and
// names the selector for people. Serial and WWN are those of whole disks; a
// partition inherits them and isn't meant.
func selects(s config.DiskSelect, d host.BlockDevice) bool {
	whole := d.Type == "disk" || d.Type == "mpath"
	switch {
	case s.Label != "":
		return d.Label == s.Label
	case s.FSUUID != "":
		return strings.EqualFold(d.FSUUID, s.FSUUID)
	case s.PartLabel != "":
		return d.Type == "part" && d.PartLabel == s.PartLabel
	case s.Serial != "":
		return whole && d.Serial == s.Serial
	case s.WWN != "":
		return whole && d.WWN != "" && plainWWN(d.WWN) == plainWWN(s.WWN)
	case s.DiskUUID != "":
		return whole && hasDiskUUID(d, plainUUID(s.DiskUUID))
	case s.SCSIUnit != nil:
		return whole && slices.ContainsFunc(d.ByPath, func(link string) bool { return isUnit(link, *s.SCSIUnit) })
	case s.Path != "":
		return slices.Contains(d.ByID, s.Path) || slices.Contains(d.ByPath, s.Path)
	}
	return false
}

// isUnit tells whether a by-path link is of that unit on a SCSI controller.
func isUnit(link string, unit int) bool {
	return strings.HasSuffix(link, fmt.Sprintf("-scsi-0:0:%d:0", unit))
}

// plainUUID makes the spellings of a disk's UUID equal: VMware writes 6000C29d
// 1f24…, 6000C29d-1f24-… and wwn-0x6000c29d1f24….
func plainUUID(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(s))
}

// hasDiskUUID looks wherever udev shows what a hypervisor calls a disk: serial,
// WWN, and the links made of them. uuid is plain.
func hasDiskUUID(d host.BlockDevice, uuid string) bool {
	if plainUUID(d.Serial) == uuid || plainWWN(d.WWN) == uuid {
		return true
	}
	return slices.ContainsFunc(d.ByID, func(link string) bool {
		return strings.HasSuffix(plainUUID(link), uuid) // scsi-3UUID, wwn-0xUUID, dm-uuid-mpath-3UUID
	})
}

// abovePaths drops the paths of a multipath device that is selected as well: they are
// the same disk, and what is above them is what is used.
func abovePaths(selected []host.BlockDevice) []host.BlockDevice {
	return slices.DeleteFunc(slices.Clone(selected), func(path host.BlockDevice) bool {
		return slices.ContainsFunc(selected, func(x host.BlockDevice) bool { return x.Type == "mpath" && slices.Contains(path.Children, x.Name) })
	})
}

// selector writes the selector as people gave it.
func selector(s config.DiskSelect) string {
	for _, x := range [][2]string{{"label", s.Label}, {"fsUUID", s.FSUUID}, {"partLabel", s.PartLabel}, {"serial", s.Serial}, {"wwn", s.WWN}, {"diskUUID", s.DiskUUID}, {"path", s.Path}} {
		if x[1] != "" {
			return x[0] + " " + x[1]
		}
	}
	if s.SCSIUnit != nil {
		return fmt.Sprintf("scsiUnit %d", *s.SCSIUnit)
	}
	if s.Blank == nil {
		return "no selector"
	}
	var bounds []string
	if s.Blank.MinSize != "" {
		bounds = append(bounds, "at least "+s.Blank.MinSize)
	}
	if s.Blank.MaxSize != "" {
		bounds = append(bounds, "at most "+s.Blank.MaxSize)
	}
	if len(bounds) == 0 {
		return "blank"
	}
	return "blank and of " + strings.Join(bounds, " and ")
}

// plainWWN makes the spellings of a WWN equal: 0x5000…, wwn-0x5000…,
// naa.5000…, eui.0025….
func plainWWN(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	for _, prefix := range []string{"wwn-", "nvme-", "0x", "naa.", "eui.", "t10."} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

// inRange tells whether a size lies within blank's bounds. Bounds that can't
// be read were refused with the configuration; here they let nothing through.
func inRange(b *config.Blank, size int64) bool {
	if b == nil {
		return false
	}
	for _, bound := range []struct {
		text string
		ok   func(int64) bool
	}{{b.MinSize, func(n int64) bool { return size >= n }}, {b.MaxSize, func(n int64) bool { return size <= n }}} {
		if bound.text == "" {
			continue
		}
		if n, err := config.ParseSize(bound.text); err != nil || !bound.ok(n) {
			return false
		}
	}
	return true
}

// stableLink returns the link that identifies a device in plans and journal:
// by-id before by-path, and a WWN before a serial. Kernel names change between
// boots and are never used.
func stableLink(d host.BlockDevice) string {
	rank := func(link string) int {
		name := link[strings.LastIndexByte(link, '/')+1:]
		for i, prefix := range []string{"wwn-", "nvme-eui.", "nvme-uuid.", "scsi-", "virtio-", "nvme-", "ata-"} {
			if strings.HasPrefix(name, prefix) {
				return i
			}
		}
		return 99
	}
	best := ""
	for _, l := range d.ByID {
		if best == "" || rank(l) < rank(best) || rank(l) == rank(best) && l < best {
			best = l
		}
	}
	switch {
	case best != "":
		return best
	case len(d.ByPath) > 0:
		return d.ByPath[0]
	case d.Type == "part" && d.PartUUID != "":
		return "/dev/disk/by-partuuid/" + strings.ToLower(d.PartUUID)
	}
	return ""
}

// describe names a device with what identifies it and what is on it.
func describe(d host.BlockDevice) string {
	name := stableLink(d)
	if name == "" {
		name = d.Path
	}
	about := []string{d.Name, size(d.Size)}
	if d.Model != "" {
		about = append(about, d.Model)
	}
	if d.Serial != "" && d.Type == "disk" {
		about = append(about, "serial "+d.Serial)
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(about, ", "))
}

func describeAll(devices []host.BlockDevice) string {
	var out []string
	for _, d := range devices {
		out = append(out, describe(d)+" with "+d.Content())
	}
	return strings.Join(out, "; ")
}
