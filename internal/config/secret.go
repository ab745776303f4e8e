package config

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// secretName is how headers and parameters with a secret are usually called.
var secretName = regexp.MustCompile(`(?i)auth|cookie|token|secret|key|pass|sig`)

// Secret names what others must not read in the configuration itself; empty
// when nothing is.
func (s Spec) Secret() string {
	if s.Join.Token.Value != "" || s.Join.Token.Command != "" {
		return "a join token"
	}
	if t := s.Join.Token.HTTPS; t != nil {
		for _, m := range []map[string]string{t.Headers, t.Query} {
			for name := range m {
				if secretName.MatchString(name) {
					return "a credential for the token's server"
				}
			}
		}
		if u, query, err := t.Parsed(); err == nil && u != nil {
			for name := range query {
				if secretName.MatchString(name) {
					return "a credential for the token's server"
				}
			}
		}
	}
	for _, r := range s.Packages.Repositories {
		for _, u := range append([]string{r.BaseURL}, r.GPGKeys...) {
			if withPassword(u) {
				return "the password of repository " + r.ID
			}
		}
	}
	for _, a := range s.Runtime.Archives {
		if withPassword(a.URL) {
			return "the password of an archive's server"
		}
	}
	for _, f := range s.Files {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err == nil && mode&0o007 == 0 || strings.Contains(f.Content, "PRIVATE KEY-----") {
			return "the secret content of " + f.Path
		}
	}
	return ""
}

func withPassword(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return false
	}
	_, ok := u.User.Password()
	return ok
}
