package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatOthersMustNotReadInAConfigurationIsNamed(t *testing.T) {
	require.Empty(t, Default().Spec.Secret())
	for want, change := range map[string]func(*Spec){
		"a join token":                        func(s *Spec) { s.Join.Token.Value = "x" },
		"the password of repository r":        func(s *Spec) { s.Packages.Repositories = []Repository{{ID: "r", BaseURL: "https://u:p@a.example/"}} },
		"the password of an archive's server": func(s *Spec) { s.Runtime.Archives = []Archive{{URL: "https://u:p@a.example/x.tgz"}} },
		"the secret content of /a":            func(s *Spec) { s.Files = []File{{Path: "/a", Permissions: "0600", Content: "x"}} },
		"the secret content of /b": func(s *Spec) {
			s.Files = []File{{Path: "/b", Permissions: "0644", Content: "-----BEGIN PRIVATE KEY-----"}}
		},
		"": func(s *Spec) {
			s.Packages.Repositories = []Repository{{ID: "r", BaseURL: "https://u@a.example/", GPGKeys: []string{"/etc/key"}}}
			s.Files = []File{{Path: "/a", Permissions: "0644", Content: "x"}}
		},
	} {
		s := Default().Spec
		change(&s)
		require.Equal(t, want, s.Secret())
	}
}
