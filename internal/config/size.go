package config

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize reads "90GiB", "100 GB" or a bare number of bytes and returns
// bytes. Decimal (kB, MB, GB, TB) and binary (KiB … TiB) units are told apart.
func ParseSize(s string) (int64, error) {
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	number, unit := s, ""
	if i >= 0 {
		number, unit = s[:i], strings.TrimSpace(s[i:])
	}
	factor, ok := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}[unit]
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || f <= 0 || f*factor > 1<<62 {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return int64(f * factor), nil
}
