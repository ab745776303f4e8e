package runtime

import (
	"encoding/json"
	"regexp"

	"nodeagent/internal/host"
)

// Config is config.toml as observed. It may hold credentials of registries,
// which never leave this process: facts that are printed have them blotted out.
type Config struct{ host.Text }

// credential is a setting of registry.configs.*.auth.
var credential = regexp.MustCompile(`((?:password|auth|identitytoken)"?\s*=\s*)(?:"""(?s:.*?)"""|'''(?s:.*?)'''|"(?:[^"\\\n]|\\.)+"|'[^'\n]+')`)

// secret tells whether the file holds credentials.
func (c Config) secret() bool { return credential.MatchString(c.Content) }

// MarshalJSON blots credentials out. A plan from such facts is one to look at.
func (c Config) MarshalJSON() ([]byte, error) {
	t := c.Text
	t.Content = credential.ReplaceAllString(t.Content, `${1}"(redacted)"`)
	return json.Marshal(t)
}
