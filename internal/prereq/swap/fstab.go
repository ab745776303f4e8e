// Package swap turns swap off now and after every boot, whatever made it.
package swap

import "strings"

// mark begins a line that nodeagent has taken out of fstab, so that a person
// and `reset` see whose it is.
const mark = "# disabled by nodeagent: "

// disable comments out the swap entries of an fstab (fstab(5): the type is
// field 3, fields are parted by blanks or tabs). Every other byte stays. It
// returns the new text and how many entries it took out.
func disable(fstab string) (string, int) {
	n := 0
	var out strings.Builder
	for line := range strings.Lines(fstab) {
		if f := strings.Fields(line); len(f) >= 3 && !strings.HasPrefix(f[0], "#") && f[2] == "swap" {
			out.WriteString(mark)
			n++
		}
		out.WriteString(line)
	}
	return out.String(), n
}
