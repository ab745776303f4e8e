package config

import (
	"net/url"
	"strconv"
	"strings"
)

// Secret names what others must not read in the configuration itself; empty
// when nothing is.
func (s Spec) Secret() string {
	if s.Join.Token.Value != "" || s.Join.Token.Command != "" {
		return "a join token"
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
