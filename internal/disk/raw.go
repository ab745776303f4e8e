package disk

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// A raw disk is never opened, formatted or mounted: udev makes a link to it, by
// a rule that knows the disk by what stays with it.

// apart returns the disks that are mounted, and those that are raw.
func apart(disks []config.Disk) (mounted, raw []config.Disk) {
	for _, d := range disks {
		if d.Raw() {
			raw = append(raw, d)
		} else {
			mounted = append(mounted, d)
		}
	}
	return mounted, raw
}

// linkOf is the link of a raw disk.
func linkOf(name string) string { return udev.Links + "/" + name }

// rawCandidates are the devices that a raw disk's selector means. A multipath
// device stands for its paths, also where only they show serial and WWN.
func rawCandidates(d config.Disk, devices []host.BlockDevice) []host.BlockDevice {
	var out []host.BlockDevice
	for _, x := range devices {
		if !selects(d.Select, x) {
			continue
		}
		if i := slices.IndexFunc(devices, func(m host.BlockDevice) bool { return m.Type == "mpath" && slices.Contains(x.Children, m.Name) }); i >= 0 {
			x = devices[i]
		}
		if !slices.ContainsFunc(out, func(y host.BlockDevice) bool { return y.Name == x.Name }) {
			out = append(out, x)
		}
	}
	return out
}

// reserved are the kernel names of what raw disks could mean, with what lies on
// it and below it, each with the name of the disk.
func reserved(raw []config.Disk, devices []host.BlockDevice) map[string]string {
	out := map[string]string{}
	for _, d := range raw {
		for _, x := range rawCandidates(d, devices) {
			for _, y := range devices {
				if related(x, y) {
					out[y.Name] = d.Name
				}
			}
		}
	}
	return out
}

// rawDevice returns the one device of a raw disk.
func rawDevice(d config.Disk, f Facts) (host.BlockDevice, error) {
	found := rawCandidates(d, f.Devices)
	switch len(found) {
	case 0:
		return host.BlockDevice{}, fail.New(fail.Step, "attach it, or "+look, "disk %s: no device has %s", d.Name, selector(d.Select))
	case 1:
	default:
		return host.BlockDevice{}, fail.New(fail.Safety, "select it by something that only one device has", "disk %s: %s is true of %d devices: %s", d.Name, selector(d.Select), len(found), describeAll(found))
	}
	x := found[0]
	refuse := func(hint, why string) error {
		return fail.New(fail.Safety, hint, "disk %s: %s: %s", d.Name, describe(x), why)
	}
	switch why := unfit(x, f.Devices); {
	case why != "":
		return x, refuse("nothing was changed; select another device", why)
	case x.Type != "disk" && x.Type != "part" && x.Type != "mpath":
		return x, refuse("select a disk, a partition or a multipath device", "it is of type "+x.Type+", which needs no link of nodeagent's: what made it names it, too")
	case stableLink(x) == "":
		return x, refuse("see what udev makes of it: udevadm info "+x.Path, "it has no link below /dev/disk/by-id or by-path, and kernel names change between boots")
	}
	return x, nil
}

// rawChoice is what becomes of one raw disk: a rule, or a link of somebody
// else's that is right, or why neither.
type rawChoice struct {
	disk   config.Disk
	device host.BlockDevice
	rule   udev.Link
	theirs *udev.Rule
	err    error
}

// chooseRaw finds the devices of the raw disks and the rules for them. others is
// what became of the disks that are mounted.
func chooseRaw(raw []config.Disk, others []choice, f Facts) []rawChoice {
	out := make([]rawChoice, len(raw))
	for i, d := range raw {
		c := rawChoice{disk: d}
		c.device, c.err = rawDevice(d, f)
		if c.err == nil {
			c.err = shared(c, out[:i], others)
		}
		if c.err == nil {
			c.theirs, c.err = f.ruleOfOthers(d.Name, c.device)
		}
		if c.err == nil && c.theirs == nil {
			c.rule, c.err = rule(d, c.device, f.Udev[c.device.Name])
		}
		out[i] = c
	}
	return out
}

// shared refuses a raw disk of which another disk of the configuration takes a
// part, too: what is written through the link would destroy that.
func shared(c rawChoice, raws []rawChoice, others []choice) error {
	refuse := func(a, b string) error {
		return fail.New(fail.Safety, look, "disks %s and %s both mean %s", a, b, describe(c.device))
	}
	for _, o := range raws {
		if o.device.Name != "" && related(o.device, c.device) {
			return refuse(o.disk.Name, c.disk.Name)
		}
	}
	for _, o := range others {
		if selects(o.disk.Select, c.device) || o.device.Name != "" && related(o.device, c.device) {
			return refuse(c.disk.Name, o.disk.Name)
		}
	}
	return nil
}

// related tells whether two devices are one, or one lies on the other.
func related(x, y host.BlockDevice) bool {
	return x.Name == y.Name || slices.Contains(x.Children, y.Name) || slices.Contains(y.Children, x.Name)
}

// ruleOfOthers returns a rule of somebody else's by which the link is there and
// right. One that makes the link lead elsewhere is refused.
func (f Facts) ruleOfOthers(name string, x host.BlockDevice) (*udev.Rule, error) {
	now := f.linked(name)
	refuse := func(r udev.Rule) error {
		is := "isn't there"
		if now.Name != "" {
			is = "leads to " + describe(now)
		}
		return fail.New(fail.Safety, "remove that rule if it isn't wanted any more, or give the disk another name", "disk %s: %s %s, not to %s, and somebody else's rule makes it: %s", name, linkOf(name), is, describe(x), r)
	}
	known := slices.ContainsFunc(f.ourLinks(), func(l udev.Link) bool { return l.Name == name })
	for _, r := range f.Rules {
		switch {
		case r.Makes(name) && now.Name == x.Name:
			return &r, nil
		case r.Makes(name), r.MayMake() && now.Name != "" && now.Name != x.Name && !known:
			return nil, refuse(r)
		}
	}
	return nil, nil
}

// linked is the device that the link of a raw disk leads to; none when there is
// no link.
func (f Facts) linked(name string) host.BlockDevice {
	for _, x := range f.Devices {
		if slices.Contains(x.ByCAPV, linkOf(name)) {
			return x
		}
	}
	return host.BlockDevice{}
}

// ourLinks are those of the rules that are there.
func (f Facts) ourLinks() []udev.Link {
	if t := f.Files[udev.Path]; t.Exists && udev.Ours(t.Content) {
		return udev.Parse(t.Content)
	}
	return nil
}

// rule is how udev knows the device: by the property that holds what the disk is
// selected by, or by a link that says it. A multipath device has an id of its
// own, and its paths' properties aren't its.
func rule(d config.Disk, x host.BlockDevice, properties map[string]string) (udev.Link, error) {
	l := udev.Link{Name: d.Name, Type: "disk"}
	if x.Type == "part" {
		l.Type = "partition"
	}
	s := d.Select
	by := func(want func(string) bool, keys ...string) {
		for _, k := range keys {
			if v := properties[k]; l.Key == "" && v != "" && want(v) {
				l.Key, l.Value = udev.Env(k), v
			}
		}
	}
	link := func(links []string, want func(string) bool) {
		if i := slices.IndexFunc(links, want); i >= 0 && l.Key == "" {
			l.Key, l.Value = udev.Symlink, strings.TrimPrefix(links[i], "/dev/")
		}
	}
	switch {
	case x.Type == "mpath":
		by(func(v string) bool { return strings.HasPrefix(v, "mpath-") }, "DM_UUID")
	case strings.HasPrefix(x.Name, "nvme") && x.Type == "disk" && (s.Serial != "" || strings.HasPrefix(s.Path, "/dev/disk/by-id/")):
		// The serial is the controller's, and so are links that are made of it: a
		// namespace that is made later has them, too, and must not get this link.
		// The kernel's wwid is the namespace's.
		by(func(string) bool { return true }, "ID_WWN")
		link(x.ByID, isWWID)
	case s.Serial != "":
		by(func(v string) bool { return strings.TrimSpace(v) == s.Serial }, "ID_SERIAL_SHORT", "ID_SERIAL", "ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL")
	case s.WWN != "":
		by(func(v string) bool { return plainWWN(v) == plainWWN(s.WWN) }, "ID_WWN_WITH_EXTENSION", "ID_WWN")
	case s.DiskUUID != "":
		uuid := plainUUID(s.DiskUUID)
		by(func(v string) bool { return strings.HasSuffix(plainUUID(v), uuid) }, host.UdevIdentity...)
		link(x.ByID, func(l string) bool { return strings.HasSuffix(plainUUID(l), uuid) })
	case s.SCSIUnit != nil:
		// The whole path and not the unit alone: a disk that appears at that unit
		// of another controller later must not get the link.
		link(x.ByPath, func(l string) bool { return isUnit(l, *s.SCSIUnit) })
	case s.Path != "":
		link(slices.Concat(x.ByID, x.ByPath), func(l string) bool { return l == s.Path })
	}
	switch {
	case l.Key == "":
		return l, fail.New(fail.Safety, "see what udev knows of it: udevadm info "+x.Path+"; and select the disk by that, or by path", "disk %s: %s has %s, but nothing in udev's database says so, by which a rule could know the disk; it says: %s", d.Name, describe(x), selector(s), said(properties))
	case !udev.Quotable(l.Value):
		return l, fail.New(fail.Safety, "select the disk by another of wwn, serial, diskUUID, scsiUnit, path", "disk %s: %s: %q can't stand in a rule of udev's, which would take some of its characters for a pattern", d.Name, describe(x), l.Value)
	}
	return l, nil
}

// isWWID tells whether a by-id link is of the kernel's wwid of an NVMe
// namespace: nvme_ns_wwid_show in drivers/nvme/host.
func isWWID(link string) bool {
	id, ok := strings.CutPrefix(link, "/dev/disk/by-id/nvme-")
	return ok && (strings.HasPrefix(id, "eui.") || strings.HasPrefix(id, "uuid.") || strings.HasPrefix(id, "nvme."))
}

func said(properties map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, fmt.Sprintf("%s=%q", k, properties[k]))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// holds tells what is on a raw disk, as far as that is known without opening it.
func holds(x host.BlockDevice) string {
	var out []string
	if x.FSType != "" {
		out = append(out, x.Content())
	}
	if x.PTType != "" {
		out = append(out, "a "+x.PTType+" partition table")
	}
	if len(x.Children) > 0 {
		out = append(out, strings.Join(some(x.Children), ", "))
	}
	if len(x.Mounts) > 0 {
		out = append(out, "mounted on "+strings.Join(some(x.Mounts), ", "))
	}
	if x.Swap {
		out = append(out, "in use as swap")
	}
	return strings.Join(out, ", ")
}

// planRaw writes the rules and lets udev make the links, and forget those of
// disks that are no longer asked for.
func planRaw(p *change.Plan, raw []config.Disk, others []choice, f Facts) {
	file := f.Files[udev.Path]
	ours := file.Exists && udev.Ours(file.Content)
	if !f.Observed || len(raw) == 0 && !ours {
		return
	}
	if file.Exists && !ours {
		p.Blocked = append(p.Blocked, fail.New(fail.Safety, "move it away", "%s isn't nodeagent's, which has its rules for raw disks there", udev.Path))
		return
	}
	var rules []udev.Link
	var links, gone []change.Change
	had := f.ourLinks()
	blocked := false
	for _, c := range chooseRaw(raw, others, f) {
		if c.err != nil {
			blocked = true
			if !slices.ContainsFunc(p.Blocked, func(e error) bool { return e.Error() == c.err.Error() }) {
				p.Blocked = append(p.Blocked, c.err)
			}
			continue
		}
		if c.theirs != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("disk %s: its link is made by somebody else's rule: %s", c.disk.Name, c.theirs))
			continue
		}
		rules = append(rules, c.rule)
		now := f.linked(c.disk.Name)
		if now.Name == c.device.Name && slices.Contains(had, c.rule) {
			continue
		}
		l := change.LinkDisk{Disk: c.disk.Name, Link: linkOf(c.disk.Name), Device: stableLink(c.device), Size: c.device.Size, Holds: holds(c.device)}
		if now.Name != "" && now.Name != c.device.Name {
			l.Instead = anyName(now)
		}
		links = append(links, l)
	}
	if blocked {
		return
	}
	for _, l := range had {
		if x := f.linked(l.Name); x.Name != "" && !slices.ContainsFunc(raw, func(d config.Disk) bool { return d.Name == l.Name }) && !udev.Made(f.Rules, l.Name) {
			gone = append(gone, change.UnlinkDisk{Link: linkOf(l.Name), Device: anyName(x)})
		}
	}
	if len(rules) == 0 {
		if ours {
			p.Changes = append(p.Changes, change.RemoveFile{Path: udev.Path, Before: &change.Saved{Mode: file.Mode, Owner: file.Owner, Content: file.Content}, What: "remove the rules for raw disks, of which there are none"})
		}
	} else if w, ok := file.Write(udev.Path, "0644", "root:root", udev.Text(rules), "write the rules by which udev links raw disks"); ok {
		p.Changes = append(p.Changes, w)
	}
	p.Changes = append(append(p.Changes, gone...), links...)
}

// anyName is a device's stable link, or its node where it has none.
func anyName(x host.BlockDevice) string {
	if l := stableLink(x); l != "" {
		return l
	}
	return x.Path
}
