package disk

import (
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// emptiedMarker says on the system disk that a disk was emptied once.
func emptiedMarker(name string) string { return "/var/lib/nodeagent/emptied/" + name }

// readEmptied looks for the markers of disks with wipeOnce, and whether it is
// too late to empty any.
func (f *Facts) readEmptied(v host.View, disks []config.Disk) error {
	for _, d := range disks {
		if !d.WipeOnce {
			continue
		}
		info, err := v.Stat(emptiedMarker(d.Name))
		if err != nil {
			return err
		}
		if f.Emptied == nil {
			f.Emptied = map[string]bool{}
		}
		f.Emptied[d.Name] = info.Exists
		if info, err = v.Stat(host.KubeletConf); err != nil {
			return err
		}
		f.Joined = f.Joined || info.Exists
	}
	return nil
}

// empty plans that a disk with wipeOnce is emptied, after it is mounted. A disk
// that is formatted in this run is noted as well: what is written to it later
// stays.
func empty(d config.Disk, c choice, f Facts) (*change.EmptyFilesystem, error) {
	if !d.WipeOnce || f.Emptied[d.Name] {
		return nil, nil
	}
	if f.Joined {
		return nil, fail.New(fail.Safety, "take wipeOnce away; or nodeagent reset first, which keeps the disk",
			"disk %s: wipeOnce would delete what is on %s, and this host belongs to a cluster already", d.Name, d.MountPath)
	}
	for _, service := range services {
		if f.mounted(d, c.device) && f.Units[service].ActiveState == "active" && slices.Contains(needs(service, []config.Disk{d}), d.MountPath) {
			return nil, fail.New(fail.Safety, "systemctl stop "+service, "disk %s: wipeOnce would delete what is on %s while %s runs on it", d.Name, d.MountPath, service)
		}
	}
	uuid := c.device.FSUUID
	if c.format != nil {
		uuid = c.format.UUID
	}
	return &change.EmptyFilesystem{Disk: d.Name, UUID: uuid, Target: d.MountPath, Marker: emptiedMarker(d.Name)}, nil
}
