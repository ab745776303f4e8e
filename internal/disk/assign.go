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

// choice is what becomes of one configured disk: a device that is adopted or
// formatted, or why not.
type choice struct {
	disk   config.Disk
	device host.BlockDevice
	format *change.MakeFilesystem // nil: the filesystem that is there is adopted
	err    error
}

const look = "compare the configuration with what is there: nodeagent facts, lsblk -f"

// assign finds the device of each disk that is mounted, in the order of the
// configuration. What raw disks have is taken before. The same facts always give
// the same answer.
func assign(disks, raw []config.Disk, f Facts) []choice {
	out := make([]choice, len(disks))
	taken := reserved(raw, f.Devices) // kernel name → name of the disk that has it or could have it
	var blank []int
	for i, d := range disks {
		dev, found, err := named(d, f.Devices)
		out[i] = choice{disk: d, device: dev, err: err}
		if err == nil && !found {
			blank = append(blank, i)
			continue
		}
		for _, x := range f.Devices {
			if selects(d.Select, x) || found && x.Name == dev.Name {
				if other, ok := taken[x.Name]; ok && found && x.Name == dev.Name {
					out[i].err = fail.New(fail.Safety, look, "disks %s and %s both mean %s", other, d.Name, describe(x))
				}
				taken[x.Name] = d.Name
			}
		}
		if out[i].err == nil {
			out[i].format, out[i].err = decide(d, dev, f)
		}
	}
	for _, i := range blank {
		out[i].device, out[i].err = pickBlank(disks[i], f, taken)
		if out[i].err != nil {
			continue
		}
		taken[out[i].device.Name] = disks[i].Name
		out[i].format, out[i].err = decide(disks[i], out[i].device, f)
	}
	return out
}

// named returns the one device a disk means by an identity or by its own
// label. found is false only for a blank selector whose label is nowhere yet.
func named(d config.Disk, devices []host.BlockDevice) (dev host.BlockDevice, found bool, err error) {
	var labelled, selected []host.BlockDevice
	for _, x := range devices {
		if x.Label == d.Filesystem.Label {
			labelled = append(labelled, x)
		}
		if selects(d.Select, x) {
			selected = append(selected, x)
		}
	}
	selected = abovePaths(selected)
	if p := d.Select.Path; p != "" && !strings.HasPrefix(p, "/dev/disk/by-id/") && !strings.HasPrefix(p, "/dev/disk/by-path/") {
		return dev, false, kernelName(d, devices)
	}
	if len(labelled) > 1 {
		return dev, false, fail.New(fail.Safety, "give one of them another label, or detach it", "disk %s: label %s is on %d devices: %s", d.Name, d.Filesystem.Label, len(labelled), describeAll(labelled))
	}
	if d.Select.Blank != nil {
		if len(labelled) == 0 {
			return dev, false, nil
		}
		return labelled[0], true, nil
	}
	switch len(selected) {
	case 1:
		if len(labelled) == 1 && labelled[0].Name != selected[0].Name {
			return dev, false, fail.New(fail.Safety, look, "disk %s: %s is %s with %s, but label %s is on %s", d.Name, selector(d.Select), describe(selected[0]), selected[0].Content(), d.Filesystem.Label, describe(labelled[0]))
		}
		return selected[0], true, nil
	case 0:
		also := ""
		if len(labelled) == 1 {
			also = fmt.Sprintf("; label %s is on %s", d.Filesystem.Label, describe(labelled[0]))
		}
		return dev, false, fail.New(fail.Step, "attach it, or "+look, "disk %s: no device has %s%s", d.Name, selector(d.Select), also)
	}
	return dev, false, fail.New(fail.Safety, "select it by something that only one device has", "disk %s: %s is true of %d devices: %s", d.Name, selector(d.Select), len(selected), describeAll(selected))
}

// kernelName refuses a name that another device may have after the next boot,
// and offers those that stay.
func kernelName(d config.Disk, devices []host.BlockDevice) error {
	for _, x := range devices {
		if x.Path == d.Select.Path {
			if links := append(append([]string{}, x.ByID...), x.ByPath...); len(links) > 0 {
				return fail.New(fail.Safety, "use one of its stable names: "+strings.Join(links, ", "), "disk %s: %s is a name that changes between boots", d.Name, d.Select.Path)
			}
		}
	}
	return fail.New(fail.Safety, "use a link below /dev/disk/by-id or /dev/disk/by-path", "disk %s: %s is a name that changes between boots", d.Name, d.Select.Path)
}

// listed is how many disks a message names.
const listed = 8

// pickBlank returns the first device in by-path order that is provably blank
// and nobody else's.
func pickBlank(d config.Disk, f Facts, taken map[string]string) (host.BlockDevice, error) {
	if d.Keep {
		return host.BlockDevice{}, fail.New(fail.Step, "attach the disk that holds it; with keep: true nothing is formatted", "disk %s: no device is labelled %s", d.Name, d.Filesystem.Label)
	}
	unit := unitDir + "/" + MountUnit(d.MountPath)
	if Ours(f.Files[unit]) {
		// Its disk is missing, not new. Another one in its place would come up
		// empty, and both would have the label when the first returns.
		return host.BlockDevice{}, fail.New(fail.Safety, "attach it; or remove "+unit+" to let a blank disk take its place", "disk %s was set up on this host before, but no device is labelled %s now", d.Name, d.Filesystem.Label)
	}
	for _, x := range f.Devices {
		if c, ok := f.Unfinished["mkfs:"+stableLink(x)]; ok && c.Disk == d.Name && taken[x.Name] == "" && sameDevice(c, x) {
			return x, nil
		}
	}
	var not []string
	harm := false
	for _, x := range f.Devices {
		if x.Type != "disk" || taken[x.Name] != "" || !inRange(d.Select.Blank, x.Size) {
			continue
		}
		why := x.NotBlank()
		if u := unfit(x, f.Devices); u != "" {
			why = append([]string{u}, why...)
		}
		if stableLink(x) == "" {
			why = append(why, "it has no link below /dev/disk/by-id or by-path")
		}
		if len(why) == 0 {
			return x, nil
		}
		harm = true
		not = append(not, describe(x)+": "+strings.Join(why, ", "))
	}
	kind, seen := fail.Step, "there is no other whole disk of that size"
	if harm {
		if more := len(not) - listed; more > 1 {
			not = append(not[:listed], fmt.Sprintf("and %d more", more))
		}
		kind, seen = fail.Safety, strings.Join(not, "; ")
	}
	return host.BlockDevice{}, fail.New(kind, "attach a blank disk, or select the right one by label, serial, wwn or path; nothing is ever formatted that holds anything", "disk %s: no device is labelled %s, and no disk is provably %s: %s", d.Name, d.Filesystem.Label, selector(d.Select), seen)
}

// systemMounts are where a running system lives.
var systemMounts = []string{"/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/etc", "/sysroot"}

// unfit says why a device is never used for data, whatever is on it.
func unfit(x host.BlockDevice, all []host.BlockDevice) string {
	switch {
	case holdsSystem(x, all, 0):
		return "it holds the running system"
	case x.ReadOnly:
		return "it is read-only"
	case x.Removable:
		return "it is removable"
	}
	for _, y := range all {
		if y.Name != x.Name && x.Type == "disk" && y.Type == "disk" && x.WWN != "" && plainWWN(x.WWN) == plainWWN(y.WWN) {
			return fmt.Sprintf("%s has the same WWN: they are two paths to one disk", y.Name)
		}
	}
	return ""
}

// holdsSystem tells whether the running system is mounted from a device or
// anything stacked on it.
func holdsSystem(x host.BlockDevice, all []host.BlockDevice, depth int) bool {
	if slices.ContainsFunc(x.Mounts, func(m string) bool { return slices.Contains(systemMounts, m) }) {
		return true
	}
	for _, y := range all {
		if depth < 8 && slices.Contains(x.Children, y.Name) && holdsSystem(y, all, depth+1) {
			return true
		}
	}
	return false
}

// sameDevice tells whether a journalled format was of this very device.
func sameDevice(c change.MakeFilesystem, x host.BlockDevice) bool {
	return c.Size == x.Size && c.Serial == x.Serial && c.WWN == x.WWN
}
