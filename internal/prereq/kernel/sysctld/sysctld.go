// Package sysctld reads sysctl.d(5) files.
package sysctld

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Setting is one assignment of a file.
type Setting struct {
	Key   string `json:"key"` // dotted
	Value string `json:"value"`
}

// Parse reads assignments. Lines of another form, comments and exclusions
// (a key after a minus without a value) assign nothing.
func Parse(text string) []Setting {
	var out []Setting
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimPrefix(line, "-"), "=")
		if key = strings.TrimSpace(key); ok && key != "" {
			out = append(out, Setting{Dotted(key), strings.Join(strings.Fields(value), " ")})
		}
	}
	return out
}

// Dotted writes a key with dots as separators, whichever were used: the first
// one decides.
func Dotted(key string) string {
	i := strings.IndexAny(key, "./")
	if i < 0 || key[i] == '.' {
		return key
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, key)
}

// Matches tells whether a key of a file, which may be a pattern, sets a sysctl.
// Stars don't cross separators.
func Matches(pattern, key string) bool {
	swap := func(s string) string {
		return strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, s)
	}
	ok, err := path.Match(swap(pattern), swap(key))
	return err == nil && ok
}

// dirs are the directories of sysctl.d(5), strongest first.
var dirs = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"}

// Dirs returns the directories that are read.
func Dirs() []string { return slices.Clone(dirs) }

// After lists the files that are read after ours: those with a greater name,
// whatever their directory. names are the files of each directory. A file hides
// those of its name in weaker directories.
func After(ours string, names map[string][]string) []string {
	seen := map[string]bool{}
	var out []string
	for _, dir := range dirs {
		for _, n := range names[dir] {
			if !strings.HasSuffix(n, ".conf") || n <= ours || seen[n] {
				continue
			}
			seen[n] = true
			out = append(out, path.Join(dir, n))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
	return out
}
