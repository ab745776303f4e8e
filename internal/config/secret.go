package config

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// secretName is how headers and parameters with a secret are usually called.
var secretName = regexp.MustCompile(`(?i)auth|cookie|token|secret|key|pass|sig`)

// Secret names what others must not read in the configuration itself; empty
// when nothing is.
func (s Spec) Secret() string {
	if all := s.Secrets(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Secrets names everything that others must not read in the configuration
// itself.
func (s Spec) Secrets() (all []string) {
	if s.Join.Token.Value != "" || s.Join.Token.Command != "" {
		all = append(all, "a join token")
	}
	if t := s.Join.Token.HTTPS; t != nil && t.carriesSecret() {
		all = append(all, "a credential for the token's server")
	}
	for _, r := range s.Packages.Repositories {
		if slices.ContainsFunc(append([]string{r.BaseURL}, r.GPGKeys...), withPassword) {
			all = append(all, "the password of repository "+r.ID)
		}
	}
	if slices.ContainsFunc(s.Runtime.Archives, func(a Archive) bool { return withPassword(a.URL) }) {
		all = append(all, "the password of an archive's server")
	}
	for _, u := range s.Users {
		if u.PasswordHash != "" {
			all = append(all, "the password hash of user "+u.Name)
		}
	}
	for _, f := range s.Files {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err == nil && mode&0o007 == 0 || strings.Contains(f.Content, "PRIVATE KEY-----") {
			all = append(all, "the secret content of "+f.Path)
		}
	}
	return all
}

func withPassword(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return false
	}
	_, ok := u.User.Password()
	return ok
}

// NeededFiles are the files that the configuration reads on the host and
// doesn't bring itself.
func (s Spec) NeededFiles() (paths []string) {
	brought := map[string]bool{"": true}
	for _, f := range s.Files {
		brought[f.Path] = true
	}
	add := func(path string) {
		if !brought[path] {
			brought[path] = true
			paths = append(paths, path)
		}
	}
	add(s.Join.Token.File)
	add(s.Join.CACertFile)
	if t := s.Join.Token.HTTPS; t != nil {
		for _, path := range []string{t.CAFile, t.BearerTokenFile, t.ClientCert, t.ClientKey} {
			add(path)
		}
	}
	if t := s.Join.Token.Kubeconfig; t != nil {
		add(t.File)
	}
	for _, c := range s.CATrust {
		add(c.File)
	}
	return paths
}

// carriesSecret tells by their names whether a header or a query parameter is a
// credential.
func (t TokenServer) carriesSecret() bool {
	is := func(name string) bool { return secretName.MatchString(name) }
	keys := slices.Concat(slices.Collect(maps.Keys(t.Headers)), slices.Collect(maps.Keys(t.Query)))
	if u, query, err := t.Parsed(); err == nil && u != nil {
		keys = append(keys, slices.Collect(maps.Keys(query))...)
	}
	return slices.ContainsFunc(keys, is)
}
