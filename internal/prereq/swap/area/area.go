// Package area reads the kernel's list of swap areas in use.
package area

import (
	"strconv"
	"strings"
)

// Area is one line of /proc/swaps (proc(5)).
type Area struct {
	Path    string `json:"path"`              // device or file, unescaped
	Kind    string `json:"kind"`              // partition, file
	SizeKiB int64  `json:"sizeKiB,omitempty"` // as the kernel counts
	UsedKiB int64  `json:"usedKiB,omitempty"`
	// Deleted is set for a file that is swap although it has been removed: no
	// path leads to it any more.
	Deleted bool `json:"deleted,omitempty"`
}

// deleted is what the kernel appends to the path of a removed file.
const deleted = " (deleted)"

// Parse reads /proc/swaps. Its first line is a heading.
func Parse(text string) []Area {
	var out []Area
	first := true
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if first || len(f) < 2 {
			first = false
			continue
		}
		a := Area{Path: Unescape(f[0]), Kind: f[1]}
		if len(f) >= 4 {
			a.SizeKiB, _ = strconv.ParseInt(f[2], 10, 64) // not a number: not known
			a.UsedKiB, _ = strconv.ParseInt(f[3], 10, 64)
		}
		a.Path, a.Deleted = strings.CutSuffix(a.Path, deleted)
		out = append(out, a)
	}
	return out
}

// Unescape undoes the octal escapes that the kernel and fstab(5) use for
// blanks in paths: \040.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
