package config

// notYet refuses settings that this version reads and doesn't carry out: a host
// that ignores a part of its configuration isn't as asked.
func (k *checker) notYet(s *Spec) {
	no := func(path string, given bool) {
		if given {
			k.bad(path, "leave it away and set it up by other means (spec.files, hooks) until a version carries it out", "this version doesn't carry it out yet")
		}
	}
	no("spec.network.configure", s.Network.Configure)
	no("spec.network.interfaces", len(s.Network.Interfaces) > 0)
	if len(s.Users) > 0 {
		k.warnings = append(k.warnings, "spec.users: this version only renders users into boot artefacts (nodeagent render --users); nodeagent up creates none")
	}
}
