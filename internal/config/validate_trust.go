package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	"nodeagent/internal/config/cacert"
)

var anchorName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// caTrust checks the certificate authorities that the host is to trust.
func (k *checker) caTrust(s *Spec) {
	seen := map[string]bool{}
	for i, c := range s.CATrust {
		at := fmt.Sprintf("spec.caTrust[%d]", i)
		switch {
		case !anchorName.MatchString(c.Name):
			k.bad(at+".name", "it becomes a part of a file's name: lower-case letters, digits, dashes", "%q can't name a certificate authority", c.Name)
		case seen[c.Name]:
			k.bad(at+".name", "", "the certificate authority %s is given twice", c.Name)
		}
		seen[c.Name] = true
		switch {
		case (c.PEM == "") == (c.File == ""):
			k.bad(at, "give the certificate as pem, or the file that holds it", "needs exactly one of pem and file")
		case c.File != "":
			if !path.IsAbs(c.File) || path.Clean(c.File) != c.File {
				k.bad(at+".file", "give an absolute path", "%q is not a clean absolute path", c.File)
			} else if slices.ContainsFunc(s.Files, func(f File) bool { return f.Path == c.File }) {
				k.bad(at+".file", "give the certificate as pem here", "%s is written by spec.files, which comes after the host's trust", c.File)
			}
		default:
			if _, err := cacert.Parse(c.PEM); err != nil {
				k.bad(at+".pem", "one certificate of an authority as PEM", "%v", err)
			}
		}
	}
}
