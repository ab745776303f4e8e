package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/disk/label"
	"nodeagent/internal/disk/udev"
)

var diskUUID = regexp.MustCompile(`^[0-9A-Fa-f]{32}$`)

// diskName is what a file can be named.
var diskName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// disks checks what facts about no host are needed for.
func (k *checker) disks(s *Spec) {
	names, mounts, labels := map[string]bool{}, map[string]bool{}, map[string]bool{}
	once := func(seen map[string]bool, at, what, value string) {
		if value != "" && seen[value] {
			k.bad(at, "", "%s %s is given twice", what, value)
		}
		seen[value] = true
	}
	for i, d := range s.Disks {
		at := fmt.Sprintf("spec.disks[%d]", i)
		if d.Name == "" {
			k.bad(at+".name", "", "missing")
		}
		once(names, at+".name", "disk", d.Name)
		if d.WipeOnce && !diskName.MatchString(d.Name) {
			k.bad(at+".name", "with wipeOnce it names a file: letters, digits, dots, dashes, underscores", "%q can't name a file", d.Name)
		}
		k.selector(at+".select", d.Select)
		if d.Raw() {
			k.raw(at, d)
			continue
		}
		if d.MountPath == "" {
			k.bad(at+".mountPath", "say where the filesystem is mounted; a raw disk, which gets only a link by its name, has no filesystem either", "missing")
		} else {
			k.absolute(at+".mountPath", d.MountPath)
		}
		if d.MountPath == "/" || slices.Contains([]string{"/etc", "/usr", "/boot", "/dev", "/proc", "/sys", "/run"}, d.MountPath) {
			k.bad(at+".mountPath", "", "%s belongs to the system", d.MountPath)
		}
		once(mounts, at+".mountPath", "mount path", d.MountPath)
		once(labels, at+".filesystem.label", "label", d.Filesystem.Label)
		name := d.Filesystem.Label
		if limit := label.Limit(d.Filesystem.Type); len(name) > limit {
			k.bad(at+".filesystem.label", fmt.Sprintf("%s labels have %d bytes at most", d.Filesystem.Type, limit), "%q has %d bytes", name, len(name))
		}
		if strings.ContainsAny(name, "/\\\" \t\n'") {
			k.bad(at+".filesystem.label", "letters, digits, dots, dashes, underscores", "%q can't be mounted by label", name)
		}
		if d.Select.Label != "" && d.Select.Label != name {
			k.bad(at+".filesystem.label", "leave filesystem.label away", "%q differs from select.label %q", name, d.Select.Label)
		}
		for j, o := range d.MountOptions {
			if o == "" || strings.ContainsAny(o, " \t\n,") {
				k.bad(fmt.Sprintf("%s.mountOptions[%d]", at, j), "one option an entry", "%q is not a mount option", o)
			}
		}
		for j, o := range d.Filesystem.Options {
			if o == "-f" || o == "-F" || o == "-ff" || strings.HasPrefix(o, "/dev/") {
				k.bad(fmt.Sprintf("%s.filesystem.options[%d]", at, j), "a device that holds anything is never formatted", "%q is not allowed", o)
			}
		}
	}
}

// longestLink leaves room for what udev puts before a link's name where it
// notes who claims it, in a file name of 255 bytes.
const longestLink = 200

// raw checks a disk that gets only its link. The link is made at every boot, so
// the disk must be known by what stays with it: a blank disk isn't blank for
// long, and labels and UUIDs of filesystems are content.
func (k *checker) raw(at string, d Disk) {
	const only = "it has neither mountPath nor filesystem and so is raw: a link by its name is all that it gets"
	if d.Name != "" && (!diskName.MatchString(d.Name) || len(d.Name) > longestLink) {
		k.bad(at+".name", fmt.Sprintf("a raw disk's link is /dev/disk/by-capv/NAME: letters, digits, dots, dashes, underscores, %d at most", longestLink), "%q can't name a link", d.Name)
	}
	s := d.Select
	for _, x := range []struct {
		given bool
		name  string
	}{{s.Label != "", "label"}, {s.FSUUID != "", "fsUUID"}, {s.PartLabel != "", "partLabel"}, {s.Blank != nil, "blank"}} {
		if x.given {
			k.bad(at+".select."+x.name, "give the disk a mountPath; or, if it is to be raw, select it by serial, wwn, diskUUID, scsiUnit or path", "it may mean another device later, and the disk has no mountPath and no filesystem: the link of a raw disk must always lead to the same one")
		}
	}
	if d.WipeOnce {
		k.bad(at+".wipeOnce", "take wipeOnce away, or give the disk a mountPath", "%s", only)
	}
	if len(d.MountOptions) > 0 {
		k.bad(at+".mountOptions", "take mountOptions away, or give the disk a mountPath", "%s", only)
	}
	for _, v := range []struct{ name, value string }{{"serial", s.Serial}, {"wwn", s.WWN}, {"path", s.Path}} {
		if v.value != "" && !udev.Quotable(v.value) {
			k.bad(at+".select."+v.name, "select the disk by another of wwn, serial, diskUUID, scsiUnit, path", "%q can't stand in a rule of udev's, which would take some of its characters for a pattern", v.value)
		}
	}
}

func (k *checker) selector(at string, s DiskSelect) {
	var given []string
	for _, x := range [][2]string{{"label", s.Label}, {"partLabel", s.PartLabel}, {"fsUUID", s.FSUUID}, {"serial", s.Serial}, {"wwn", s.WWN}, {"diskUUID", s.DiskUUID}, {"path", s.Path}} {
		if x[1] != "" {
			given = append(given, x[0])
		}
	}
	if s.SCSIUnit != nil {
		given = append(given, "scsiUnit")
		if n := *s.SCSIUnit; n < 0 || n > 64 || n == 7 {
			k.bad(at+".scsiUnit", "0 to 64; 7 is the controller itself", "%d is no unit of a disk", n)
		}
	}
	if u := s.DiskUUID; u != "" && !diskUUID.MatchString(strings.NewReplacer("-", "", " ", "").Replace(u)) {
		k.bad(at+".diskUUID", "32 hexadecimal digits, such as 6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70", "%q is no UUID of a disk", u)
	}
	if s.Blank != nil {
		given = append(given, "blank")
		for _, x := range [][2]string{{"minSize", s.Blank.MinSize}, {"maxSize", s.Blank.MaxSize}} {
			if _, err := ParseSize(x[1]); x[1] != "" && err != nil {
				k.bad(at+".blank."+x[0], "such as 90GiB", "%q is not a size", x[1])
			}
		}
	}
	switch {
	case len(given) == 0:
		k.bad(at, "one of label, partLabel, fsUUID, serial, wwn, diskUUID, scsiUnit, path, blank", "names no device")
	case len(given) > 1:
		k.bad(at, "keep one", "names the device in %d ways: %s", len(given), strings.Join(given, ", "))
	}
	if p := s.Path; p != "" && !strings.HasPrefix(p, "/dev/disk/by-id/") && !strings.HasPrefix(p, "/dev/disk/by-path/") {
		k.bad(at+".path", "kernel names change between boots; see which links mean it: ls -l /dev/disk/by-id /dev/disk/by-path", "%s is not an identity", p)
	}
}
