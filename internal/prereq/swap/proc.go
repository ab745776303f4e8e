package swap

import (
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
)

// Area is one active swap area of /proc/swaps.
type Area struct {
	Name string `json:"name"` // device or file
	Kind string `json:"kind"` // partition, file
}

// active reads /proc/swaps (proc(5)); blanks in names are octal escapes.
func active(swaps string) []Area {
	var out []Area
	for i, line := range strings.Split(swaps, "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 2 {
			continue
		}
		out = append(out, Area{Name: unescape(f[0]), Kind: f[1]})
	}
	return out
}

// unescape undoes the \040 of proc files.
func unescape(s string) string {
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

// unitOf is the name of an area's unit (systemd.swap(5)).
func unitOf(area string) string { return unit.UnitNamePathEscape(area) + ".swap" }
