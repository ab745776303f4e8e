package reset

import (
	"path"
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
)

// rawDisk tells whether a deed is about the links of raw disks. They hold no
// data and nothing is mounted by them, so that they go with every reset; what is
// on the disks is nobody's business here.
func rawDisk(d Deed) bool {
	switch c := d.Records[len(d.Records)-1].Change.(type) {
	case change.LinkDisk, change.UnlinkDisk:
		return true
	case change.WriteFile:
		return c.Path == udev.Path
	case change.RemoveFile:
		return c.Path == udev.Path
	}
	return false
}

// undoLink lets udev forget a link, once the rules are as they were before.
func (p *planner) undoLink(link string) verdict {
	at := slices.IndexFunc(p.f.Devices, func(x host.BlockDevice) bool { return slices.Contains(x.ByCAPV, link) })
	if at < 0 || udev.Made(p.f.Rules, path.Base(link)) {
		return verdict{} // it is gone, or somebody else's rule makes it
	}
	// What makes it now is left when the file of rules is.
	for _, d := range p.f.Deeds {
		if d.IDs[0] == "file:"+udev.Path && p.undoFile(d, udev.Path).stands {
			return kept("kept: the link %s, since its rule in %s is left", link, udev.Path)
		}
	}
	device := p.f.Devices[at]
	c := change.UnlinkDisk{Link: link, Device: device.Path}
	if names := slices.Concat(device.ByID, device.ByPath); len(names) > 0 {
		c.Device = names[0]
	}
	var v verdict
	v.add(3, c)
	return v
}
