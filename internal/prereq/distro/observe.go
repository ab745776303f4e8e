package distro

import "nodeagent/internal/host"

// Read returns what os-release(5) says, of the first of its two places that is
// there; nothing when neither is.
func Read(v host.View) (Release, error) {
	for _, p := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		t, err := host.ReadText(v, p)
		if err != nil {
			return Release{}, err
		}
		if t.Exists {
			return Parse(t.Content), nil
		}
	}
	return Release{}, nil
}
