// Package distro reads os-release and says what family a host belongs to.
package distro

import (
	"regexp"
	"strings"
)

// Release is what os-release(5) says. Absent keys are empty.
type Release struct {
	ID         string   `json:"id,omitempty"`
	IDLike     []string `json:"idLike,omitempty"`
	VersionID  string   `json:"versionID,omitempty"`
	PlatformID string   `json:"platformID,omitempty"` // platform:el9
	VariantID  string   `json:"variantID,omitempty"`
	PrettyName string   `json:"prettyName,omitempty"`
}

// assignment is one line of os-release(5): the key stands at the start of the
// line, so that OSTREE_VERSION is never read as VERSION.
var assignment = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)=(.*)$`)

// Parse reads os-release: shell-like assignments with either kind of quotes or
// none. Lines that are no assignment are skipped, as the man page asks; a key
// given twice has its last value.
func Parse(text string) Release {
	var r Release
	for line := range strings.Lines(text) {
		m := assignment.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		value := unquote(m[2])
		switch m[1] {
		case "ID":
			r.ID = strings.ToLower(value)
		case "ID_LIKE":
			r.IDLike = strings.Fields(strings.ToLower(value))
		case "VERSION_ID":
			r.VersionID = value
		case "PLATFORM_ID":
			r.PlatformID = value
		case "VARIANT_ID":
			r.VariantID = strings.ToLower(value)
		case "PRETTY_NAME":
			r.PrettyName = value
		}
	}
	return r
}

// unquote undoes the quoting of os-release(5): single quotes are literal; in
// double quotes and without quotes a backslash keeps the next character.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Major is the first number of VERSION_ID, or the one in PLATFORM_ID
// (platform:el9); 0 when neither tells.
func (r Release) Major() int {
	if n := leading(r.VersionID); n > 0 {
		return n
	}
	return leading(strings.TrimPrefix(r.PlatformID, "platform:el"))
}

func leading(s string) int {
	n := 0
	for i := 0; i < len(s) && i < 6 && s[i] >= '0' && s[i] <= '9'; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// Name is what people call the release.
func (r Release) Name() string {
	switch {
	case r.PrettyName != "":
		return r.PrettyName
	case r.ID != "":
		return strings.TrimSpace(r.ID + " " + r.VersionID)
	}
	return "a host without os-release"
}
