package swap

import (
	"strings"

	"nodeagent/internal/prereq/swap/area"
)

// disabledPrefix stands before a line of fstab that nodeagent has disabled.
// What follows is the line as it was, so taking the prefix away undoes it.
const disabledPrefix = "# disabled by nodeagent: "

// withoutSwap disables every swap entry of an fstab(5): those whose third
// field is "swap". Every other byte stays.
func withoutSwap(text string) (edited string, disabled int) {
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if _, ok := swapSpec(line); ok {
			b.WriteString(disabledPrefix)
			disabled++
		}
		b.WriteString(line)
	}
	return b.String(), disabled
}

// swapSpec is the first field of a swap entry; ok is false for every other
// line. Fields are separated by blanks and tabs.
func swapSpec(line string) (spec string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 3 || strings.HasPrefix(f[0], "#") || f[2] != "swap" {
		return "", false
	}
	return area.Unescape(f[0]), true
}

// fstabDevices are the devices and files of swap entries, those that nodeagent
// has disabled among them, by the names systemd-fstab-generator(8) gives them.
func fstabDevices(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if spec, ok := swapSpec(strings.TrimPrefix(line, disabledPrefix)); ok {
			out[devicePath(spec)] = true
		}
	}
	return out
}

// devicePath turns UUID=x and its like into udev's link.
func devicePath(spec string) string {
	for tag, dir := range map[string]string{"UUID=": "uuid", "LABEL=": "label", "PARTUUID=": "partuuid", "PARTLABEL=": "partlabel"} {
		if value, ok := strings.CutPrefix(spec, tag); ok {
			return "/dev/disk/by-" + dir + "/" + strings.Trim(value, `"'`)
		}
	}
	return spec
}
