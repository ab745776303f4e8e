package host

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Version runs PROGRAM --version (kubeadm: version -o short) and returns the
// version in what it prints, without the v.
func (l *Linux) Version(ctx context.Context, name string) (string, error) {
	if !l.Live() {
		return "", ErrUnobservable
	}
	return once(l, "version "+name, func() (string, error) {
		args := []string{"--version"}
		if name == "kubeadm" {
			args = []string{"version", "-o", "short"}
		}
		r, err := l.must(ctx, program{name: name, args: args})
		if err != nil {
			return "", err
		}
		v := parseVersion(r.text())
		if v == "" {
			return "", fmt.Errorf("%s %s tells no version: %s", name, strings.Join(args, " "), r.last())
		}
		return v, nil
	})
}

// versionWord is a word that is a version and nothing else, so that a module
// path such as example.org/x/v2 is none.
var versionWord = regexp.MustCompile(`^[vV]?(\d+\.\d+[0-9A-Za-z.+~-]*)[,;]?$`)

// parseVersion returns the first word that is a version, without its v; empty
// when there is none.
func parseVersion(out string) string {
	for _, w := range strings.Fields(out) {
		if m := versionWord.FindStringSubmatch(w); m != nil {
			return m[1]
		}
	}
	return ""
}
