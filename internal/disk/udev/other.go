package udev

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rule is a line of somebody else's rules that makes links below by-capv.
type Rule struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (r Rule) String() string { return fmt.Sprintf("line %d of %s: %s", r.Line, r.Path, r.Text) }

// files is what Others reads: a host.View.
type files interface {
	ReadFile(path string) ([]byte, error)
	ReadDir(path string) ([]string, error)
}

// ruleDirs are searched by udev; a file of one hides those of the same name in
// later ones: udev(7).
var ruleDirs = []string{"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"}

// Others returns the rules that make links below by-capv and aren't in
// nodeagent's file, in the order in which udev reads them.
func Others(v files) ([]Rule, error) {
	at := map[string]string{} // base name → path
	for _, dir := range ruleDirs {
		names, err := v.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if p := path.Join(dir, n); strings.HasSuffix(n, ".rules") && at[n] == "" && p != Path {
				at[n] = p
			}
		}
	}
	names := make([]string, 0, len(at))
	for n := range at {
		names = append(names, n)
	}
	slices.Sort(names)
	var out []Rule
	for _, n := range names {
		b, err := v.ReadFile(at[n])
		if errors.Is(err, fs.ErrNotExist) { // a dangling link
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, find(at[n], string(b))...)
	}
	return out, nil
}

// made finds what a rule adds to or sets as SYMLINK below by-capv.
var made = regexp.MustCompile(`SYMLINK(?:\+|:)?=[a-z]?"([^"]*)"`)

// find returns the lines of a file that make links below by-capv; a backslash
// at the end of a line joins the next to it.
func find(file, text string) []Rule {
	var out []Rule
	n, from, whole := 0, 1, ""
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if whole == "" {
			from = n
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
		}
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			whole += rest
			continue
		}
		r := Rule{file, from, strings.Join(strings.Fields(whole+line), " ")}
		if len(r.links()) > 0 {
			out = append(out, r)
		}
		whole = ""
	}
	if r := (Rule{file, from, strings.Join(strings.Fields(whole), " ")}); len(r.links()) > 0 {
		out = append(out, r)
	}
	return out
}

// links are the names below by-capv that the rule makes, as it spells them.
func (r Rule) links() []string {
	var out []string
	for _, m := range made.FindAllStringSubmatch(r.Text, -1) {
		for _, word := range strings.Fields(m[1]) {
			if name, ok := strings.CutPrefix(strings.TrimPrefix(word, "/dev/"), "disk/by-capv/"); ok && name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// Makes tells whether the rule makes the link of that name.
func (r Rule) Makes(name string) bool { return slices.Contains(r.links(), name) }

// MayMake tells whether the rule makes links whose names only udev knows, from
// a property of the device: by-capv/$env{NAME}.
func (r Rule) MayMake() bool {
	return slices.ContainsFunc(r.links(), func(name string) bool { return strings.ContainsAny(name, "$%") })
}

// Made tells whether one of the rules makes the link of that name, or could.
func Made(rules []Rule, name string) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Makes(name) || r.MayMake() })
}
