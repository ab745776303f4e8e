// Package nodename holds which names a node may have.
package nodename

import (
	"regexp"
	"slices"
	"strings"
)

// Longest is the limit of label kubernetes.io/hostname, whose value is the
// node's name.
const Longest = 63

var (
	subdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	foreign   = regexp.MustCompile(`[^a-z0-9.]+`)
)

// Valid tells whether a node may have the name: a DNS subdomain of RFC 1123 in
// lower case. Its length is Longest's business.
func Valid(name string) bool { return subdomain.MatchString(name) }

// None tells whether a host name is no name of its own: empty or a form of
// localhost.
func None(name string) bool {
	lower := strings.ToLower(name)
	return lower == "" || slices.Contains([]string{"localhost", "localhost4", "localhost6"}, lower) || strings.HasPrefix(lower, "localhost.")
}

// Suggest returns the nearest valid name, or "" when nothing of the name is
// left.
func Suggest(name string) string {
	var labels []string
	for _, l := range strings.Split(foreign.ReplaceAllString(strings.ToLower(name), "-"), ".") {
		if l = strings.Trim(l, "-"); l != "" {
			labels = append(labels, strings.Trim(l[:min(len(l), 63)], "-"))
		}
	}
	if s := strings.Join(labels, "."); !None(s) {
		return s
	}
	return ""
}
