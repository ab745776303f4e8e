// Package release reads Kubernetes versions as far as rules depend on them.
package release

import (
	"strconv"
	"strings"
)

// Minor is 35 for "v1.35.4"; ok is false for anything that isn't 1.N.
func Minor(version string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "1.")
	if !ok {
		return 0, false
	}
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return n, err == nil && n >= 0
}
