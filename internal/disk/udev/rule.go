// Package udev writes and reads the rules of udev that give raw disks their
// links: udev(7).
package udev

import (
	"regexp"
	"strings"
)

// Path is the file of nodeagent's rules. It is read after
// 60-persistent-storage.rules and 62-multipath.rules, which learn what a disk
// is, so that there is something to match.
const Path = "/etc/udev/rules.d/69-nodeagent-disks.rules"

// Links is the directory of the links of raw disks; Cluster API's provider for
// vSphere has named it.
const Links = "/dev/disk/by-capv"

// Header is the first line of the file and says whose it is.
const Header = "# Written by nodeagent from its configuration; changes made here are lost.\n"

// The keys by which a rule knows a device. Serial numbers and the like are
// ENV{PROPERTY}.
const (
	Symlink   = "SYMLINK"      // another link of the device, without /dev/
	Multipath = "ENV{DM_UUID}" // a multipath device
)

// Link is one rule: the device of a type for which Key is Value gets the link
// Name.
type Link struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // the kernel's DEVTYPE: disk, partition
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Env is the key of a property of udev's.
func Env(property string) string { return "ENV{" + property + "}" }

// Quotable tells whether a value in a rule matches itself and nothing else.
// udev takes * ? [ ] | for patterns and has no way to escape them; a quote ends
// the value, and what a backslash means depends on what follows.
func Quotable(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`*?[]|"\`, r) })
}

// notAPath keeps the link off the paths of a multipath device, on which nothing
// may be written beside it; 62-multipath.rules marks them. A rule that matches
// the multipath device itself needs no link_priority to be preferred to them.
const notAPath = `, ENV{DM_MULTIPATH_DEVICE_PATH}!="1"`

// Line is the rule as udev reads it. Its values must be Quotable.
func (l Link) Line() string {
	except := notAPath
	if l.Key == Multipath {
		except = ""
	}
	return `ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="` + l.Type + `", ` + l.Key + `=="` + l.Value + `"` + except + `, SYMLINK+="disk/by-capv/` + l.Name + `"`
}

// Text is the whole file, a line for each link.
func Text(links []Link) string {
	var b strings.Builder
	b.WriteString(Header)
	for _, l := range links {
		b.WriteString(l.Line() + "\n")
	}
	return b.String()
}

// Ours tells whether nodeagent wrote a file of rules.
func Ours(text string) bool { return strings.HasPrefix(text, Header) }

var ourLine = regexp.MustCompile(`^ACTION!="remove", SUBSYSTEM=="block", ENV\{DEVTYPE\}=="(disk|partition)", (SYMLINK|ENV\{[A-Z0-9_]+\})=="([^"]*)"(?:, ENV\{DM_MULTIPATH_DEVICE_PATH\}!="1")?, SYMLINK\+="disk/by-capv/([^"]+)"$`)

// Parse reads the links of a file that Text wrote. Lines that Text doesn't
// write are left out.
func Parse(text string) []Link {
	var out []Link
	for line := range strings.Lines(text) {
		m := ourLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		if l := (Link{Type: m[1], Key: m[2], Value: m[3], Name: m[4]}); l.Line() == m[0] && Quotable(l.Value) {
			out = append(out, l)
		}
	}
	return out
}
