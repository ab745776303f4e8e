// Package rpmspec reads package arguments as dnf and tdnf take them: a name, or
// name-version with an optional release and wildcards (kubelet-1.35.4-*).
package rpmspec

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Candidate is one way to read an argument.
type Candidate struct {
	Name    string
	Version string // pattern for version or version-release; empty: any
}

// version begins after a dash with a digit, as versions of packages do; an
// epoch may stand before it.
var version = regexp.MustCompile(`-(\d+:)?\d`)

// architectures that may follow a name after a dot.
var architectures = []string{".x86_64", ".aarch64", ".noarch", ".i686"}

// Candidates lists the ways to read an argument, the whole as a name first.
// Names with wildcards are left out, since no one package answers to them; an
// argument that is nothing else has no candidates.
func Candidates(spec string) []Candidate {
	for _, a := range architectures {
		spec = strings.TrimSuffix(spec, a)
	}
	var out []Candidate
	add := func(name, version string) {
		if name != "" && !strings.ContainsAny(name, "*?[") {
			_, afterEpoch, ok := strings.Cut(version, ":")
			if ok {
				version = afterEpoch
			}
			out = append(out, Candidate{name, version})
		}
	}
	add(spec, "")
	for _, at := range version.FindAllStringIndex(spec, -1) {
		add(spec[:at[0]], spec[at[0]+1:])
	}
	return out
}

// Name is the most likely name in an argument: the text before the first
// version, or all of it.
func Name(spec string) string {
	c := Candidates(spec)
	switch {
	case len(c) == 0:
		return spec
	case len(c) > 1 && c[0].Version == "":
		return c[1].Name
	}
	return c[0].Name
}

// Names lists what the RPM database is asked for to tell whether arguments are
// satisfied.
func Names(specs []string) []string {
	var out []string
	for _, s := range specs {
		for _, c := range Candidates(s) {
			out = append(out, c.Name)
		}
	}
	return out
}

// Satisfied tells whether what is installed (name → version-release) is what
// an argument asks for. Several versions of a name are separated by blanks.
func Satisfied(spec string, installed map[string]string) bool {
	for _, c := range Candidates(spec) {
		have, ok := installed[c.Name]
		if ok && (c.Version == "" || slices.ContainsFunc(strings.Fields(have), func(v string) bool { return matches(c.Version, v) })) {
			return true
		}
	}
	return false
}

// matches compares a pattern with a version-release; a pattern without a
// release stands for any.
func matches(pattern, have string) bool {
	if ok, err := path.Match(pattern, have); err == nil && ok {
		return true
	}
	v, _, _ := strings.Cut(have, "-")
	ok, err := path.Match(pattern, v)
	return err == nil && ok
}
