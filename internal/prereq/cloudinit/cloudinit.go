// Package cloudinit reads what cloud-init will write again at every boot.
package cloudinit

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/host"
)

// Settings is what cloud-init does to a host's names.
type Settings struct {
	// Hostname is set when it writes /etc/hostname (preserve_hostname isn't true).
	Hostname bool `json:"hostname,omitempty"`
	// Hosts is set when it writes /etc/hosts (manage_etc_hosts).
	Hosts bool `json:"hosts,omitempty"`
	// Unread names the files that aren't YAML; what they say isn't known.
	Unread []string `json:"unread,omitempty"`
}

const (
	main = "/etc/cloud/cloud.cfg"
	// userData is all parts of the instance's user-data as one cloud-config, as
	// cloud-init keeps it; it counts more than any file.
	userData = "/var/lib/cloud/instance/cloud-config.txt"
)

// Read reads cloud.cfg, cloud.cfg.d and the user-data; of a key that is given
// twice the later file counts. Without cloud-init, or with it disabled, nothing is set.
func Read(v host.View) (Settings, error) {
	var s Settings
	if info, err := v.Stat(main); err != nil || !info.Exists {
		return s, err
	}
	if disabled, err := v.Stat("/etc/cloud/cloud-init.disabled"); err != nil || disabled.Exists {
		return s, err
	}
	names, err := v.ReadDir("/etc/cloud/cloud.cfg.d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	paths := []string{main}
	for _, n := range names {
		if strings.HasSuffix(n, ".cfg") {
			paths = append(paths, "/etc/cloud/cloud.cfg.d/"+n)
		}
	}
	if info, err := v.Stat(userData); err != nil {
		return s, err
	} else if info.Exists {
		paths = append(paths, userData)
	}
	s.Hostname = true
	for _, p := range paths {
		t, err := host.ReadText(v, p)
		if err != nil {
			return s, err
		}
		if !s.add(t.Content) {
			s.Unread = append(s.Unread, p)
		}
	}
	return s, nil
}

// longest is more than any such file has; the limit keeps aliases from growing
// what is read.
const longest = 256 << 10

// add lays one file over what is known; false when it can't be read.
func (s *Settings) add(text string) bool {
	if len(text) > longest {
		return false
	}
	var doc struct {
		Preserve any `yaml:"preserve_hostname"`
		Hosts    any `yaml:"manage_etc_hosts"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return false
	}
	if doc.Preserve != nil {
		s.Hostname = !truth(doc.Preserve)
	}
	if doc.Hosts != nil { // template and localhost are kinds of true
		s.Hosts = truth(doc.Hosts) || slices.Contains([]any{"template", "localhost"}, doc.Hosts)
	}
	return true
}

// truth is what cloud-init takes for true (util.is_true of it).
func truth(v any) bool {
	switch x := v.(type) {
	case bool:
		return x
	case int:
		return x == 1
	case string:
		return slices.Contains([]string{"true", "1", "on", "yes"}, strings.ToLower(x))
	}
	return false
}
