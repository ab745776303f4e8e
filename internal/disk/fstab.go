package disk

import (
	"path/filepath"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/disk/label"
	"nodeagent/internal/host"
)

// FstabEntry is a line of /etc/fstab that mounts something.
type FstabEntry struct {
	Line    int    // from 1
	Text    string // the line without its end
	Source  string
	Target  string
	Type    string
	Options []string
}

// ParseFstab reads fstab(5): three to six fields apart by blanks or tabs,
// comments, \040 for a blank. Lines that are none of this are skipped, as
// mount(8) does.
func ParseFstab(text string) []FstabEntry {
	var out []FstabEntry
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") {
			continue
		}
		e := FstabEntry{Line: n, Text: line, Source: host.DecodeOctal(f[0]), Target: host.DecodeOctal(f[1]), Type: f[2]}
		if strings.HasPrefix(e.Target, "/") {
			e.Target = filepath.Clean(e.Target)
		}
		if len(f) > 3 {
			e.Options = strings.Split(f[3], ",")
		}
		out = append(out, e)
	}
	return out
}

// means tells whether the first field of fstab, or What= of a unit, stands for
// the device of a disk; stable is false for kernel names, which may mean
// another device after the next boot. made is the UUID that a planned format
// gives, or "".
func means(source string, d config.Disk, x host.BlockDevice, made string) (same, stable bool) {
	if key, value, ok := strings.Cut(source, "="); ok && !strings.HasPrefix(source, "/") {
		value = strings.Trim(value, `"'`)
		switch strings.ToUpper(key) {
		case "LABEL":
			return value == d.Filesystem.Label, true
		case "UUID":
			return value != "" && (strings.EqualFold(value, x.FSUUID) || strings.EqualFold(value, made)), true
		case "PARTUUID":
			return value != "" && strings.EqualFold(value, x.PartUUID), true
		case "PARTLABEL":
			return value != "" && value == x.PartLabel, true
		}
		return false, true
	}
	dir, name := filepath.Split(source)
	switch dir {
	case "/dev/disk/by-label/":
		return name == label.Link(d.Filesystem.Label), true
	case "/dev/disk/by-uuid/":
		return strings.EqualFold(name, x.FSUUID) || strings.EqualFold(name, made), true
	case "/dev/disk/by-partuuid/":
		return x.PartUUID != "" && strings.EqualFold(name, x.PartUUID), true
	case "/dev/disk/by-partlabel/":
		return x.PartLabel != "" && name == label.Link(x.PartLabel), true
	case "/dev/mapper/":
		return slices.Contains(x.ByID, "/dev/disk/by-id/dm-name-"+name), true
	}
	if slices.Contains(x.ByID, source) || slices.Contains(x.ByPath, source) {
		return true, true
	}
	return source == x.Path, false
}
