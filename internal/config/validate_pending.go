package config

// notYet refuses settings that this version reads and doesn't carry out: a host
// that ignores a part of its configuration isn't as asked.
func (k *checker) notYet(s *Spec) {
	if len(s.Users) > 0 {
		k.warnings = append(k.warnings, "spec.users: this version only renders users into boot artefacts (nodeagent render --users); nodeagent up creates none")
	}
}
