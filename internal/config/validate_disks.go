package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/disk/label"
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
		k.absolute(at+".mountPath", d.MountPath)
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
