package packages

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Section is one repository in a .repo file, as dnf.conf(5) describes them.
type Section struct {
	File    string   `json:"file"`
	ID      string   `json:"id"`
	Enabled bool     `json:"enabled"`
	Local   bool     `json:"local,omitempty"`   // all of its URLs are file:
	Exclude []string `json:"exclude,omitempty"` // patterns
}

// parseRepo reads the sections of a .repo file or of dnf.conf. Passwords and
// the like are not taken along.
func parseRepo(file, text string) []Section {
	var out []Section
	key := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
			continue
		case trimmed[0] == '[':
			id, _, ok := strings.Cut(trimmed[1:], "]")
			if !ok {
				continue
			}
			out = append(out, Section{File: file, ID: strings.TrimSpace(id), Enabled: true, Local: true})
			key = ""
			continue
		case len(out) == 0:
			continue
		}
		value := trimmed
		if line[0] != ' ' && line[0] != '\t' { // otherwise it goes on with the key above
			k, v, ok := strings.Cut(trimmed, "=")
			if !ok {
				key = ""
				continue
			}
			key, value = strings.ToLower(strings.TrimSpace(k)), strings.TrimSpace(v)
		}
		s := &out[len(out)-1]
		switch key {
		case "enabled":
			s.Enabled = slices.Contains([]string{"1", "yes", "true", "on"}, strings.ToLower(value))
		case "baseurl", "mirrorlist", "metalink":
			for _, u := range list(value) {
				s.Local = s.Local && (strings.HasPrefix(u, "file:") || strings.HasPrefix(u, "/"))
			}
		case "exclude", "excludepkgs":
			s.Exclude = append(s.Exclude, list(value)...)
		}
	}
	return out
}

// list splits a value at blanks and commas.
func list(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
}

// hides tells whether a section's excludes match a package name.
func (s Section) hides(name string) bool {
	return slices.ContainsFunc(s.Exclude, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

var credential = regexp.MustCompile(`(?m)^\s*(?:password|proxy_password|sslclientkey)\s*=|://[^/\s]*:[^/\s]*@`)

// private tells whether a .repo file holds credentials.
func private(text string) bool { return credential.MatchString(text) }
