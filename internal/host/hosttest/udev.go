package hosttest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
)

// UdevProperties is what udev would say of a disk with that serial and WWN.
func (w *World) UdevProperties(_ context.Context, d host.BlockDevice) (map[string]string, error) {
	return properties(d), nil
}

func properties(d host.BlockDevice) map[string]string {
	out := map[string]string{}
	if d.Serial != "" {
		out["ID_SERIAL_SHORT"] = d.Serial
	}
	if d.WWN != "" {
		out["ID_WWN"] = d.WWN
	}
	for _, l := range d.ByID {
		if id, ok := strings.CutPrefix(l, "/dev/disk/by-id/dm-uuid-"); ok {
			out["DM_UUID"] = id
		}
	}
	return out
}

// devices lets udev look at devices again, by the rules as they are: each gets
// the links of the rules that match it and no other. A link that another device
// has is taken from it.
func (w *World) devices(which func(host.BlockDevice) bool) {
	rules := udev.Parse(w.Files[udev.Path].Content)
	for i := range w.Disks {
		d := &w.Disks[i]
		if !which(*d) {
			continue
		}
		d.ByCAPV = nil
		for _, r := range rules {
			if matches(r, *d) {
				link := udev.Links + "/" + r.Name
				for j := range w.Disks {
					w.Disks[j].ByCAPV = slices.DeleteFunc(slices.Clone(w.Disks[j].ByCAPV), func(l string) bool { return l == link })
				}
				d.ByCAPV = append(d.ByCAPV, link)
			}
		}
	}
}

func matches(r udev.Link, d host.BlockDevice) bool {
	kind := "disk"
	if d.Type == "part" {
		kind = "partition"
	}
	if r.Type != kind || d.FSType == "mpath_member" && r.Key != udev.Multipath {
		return false
	}
	if r.Key == udev.Symlink {
		return slices.Contains(slices.Concat(d.ByID, d.ByPath), "/dev/"+r.Value)
	}
	for k, v := range properties(d) {
		if udev.Env(k) == r.Key && v == r.Value {
			return true
		}
	}
	return false
}

func (w *World) linkDisk(c change.LinkDisk) error {
	d := w.disk(c.Device)
	if d == nil {
		return fmt.Errorf("%s is not there", c.Device)
	}
	other := w.disk(c.Instead)
	w.devices(func(x host.BlockDevice) bool { return x.Name == d.Name || other != nil && x.Name == other.Name })
	if !slices.Contains(w.disk(c.Device).ByCAPV, c.Link) {
		return fmt.Errorf("no rule makes %s lead to %s", c.Link, c.Device)
	}
	return nil
}

func (w *World) unlinkDisk(c change.UnlinkDisk) error {
	w.devices(func(x host.BlockDevice) bool { return slices.Contains(x.ByCAPV, c.Link) })
	for _, d := range w.Disks {
		if slices.Contains(d.ByCAPV, c.Link) {
			return fmt.Errorf("a rule still makes %s", c.Link)
		}
	}
	return nil
}
