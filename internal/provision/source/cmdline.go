package source

import (
	"strings"

	"nodeagent/internal/fail"
)

// Arguments of the kernel's command line. The kernel takes - and _ in names as
// one, so both are read.
const (
	prefix = "nodeagent."
	urlKey = prefix + "config"
	sumKey = prefix + "config_sha256"
)

// Arguments are those that make a host fetch s.
func (s Source) Arguments() string {
	out := urlKey + "=" + s.URL
	if s.SHA256 != "" {
		out += " " + sumKey + "=" + s.SHA256
	}
	return out
}

// FromCmdline reads /proc/cmdline; ok is false when it names no configuration.
// An argument of ours that is unknown, empty or given twice with different
// values is an error, since a pin that is misspelt would be no pin.
func FromCmdline(cmdline string) (s Source, ok bool, err error) {
	found := map[string]string{}
	for _, word := range words(cmdline) {
		key, value, _ := strings.Cut(word, "=")
		key = strings.ReplaceAll(key, "-", "_")
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if key != urlKey && key != sumKey {
			return s, false, fail.New(fail.Usage, "known are "+urlKey+"=URL and "+sumKey+"=HEX", "the kernel's command line has an unknown argument %s", key)
		}
		if value == "" {
			return s, false, fail.New(fail.Usage, "write "+key+"=VALUE", "%s on the kernel's command line is empty", key)
		}
		if old, twice := found[key]; twice && old != value {
			return s, false, fail.New(fail.Usage, "leave one of them", "the kernel's command line gives %s twice: %q and %q", key, old, value)
		}
		found[key] = value
	}
	s = Source{URL: found[urlKey], SHA256: found[sumKey]}
	switch {
	case s == Source{}:
		return s, false, nil
	case s.URL == "":
		return s, false, fail.New(fail.Usage, "give "+urlKey+"=URL too", "the kernel's command line has %s without %s", sumKey, urlKey)
	}
	return s, true, s.Check()
}

// words splits a command line as the kernel does (lib/cmdline.c, next_arg):
// blanks separate, a double quote anywhere turns that off and on, and the
// quotes around a whole word or around a whole value aren't part of it.
func words(line string) (out []string) {
	for {
		line = strings.TrimLeft(line, blanks)
		if line == "" {
			return out
		}
		end, quoted := 0, false
		for end < len(line) && (quoted || !strings.ContainsRune(blanks, rune(line[end]))) {
			if line[end] == '"' {
				quoted = !quoted
			}
			end++
		}
		word := line[:end]
		line = line[end:]
		if key, value, ok := strings.Cut(strings.TrimPrefix(word, `"`), "="); ok {
			if strings.HasPrefix(word, `"`) {
				value = strings.TrimSuffix(value, `"`)
			} else if v, ok := strings.CutPrefix(value, `"`); ok {
				value = strings.TrimSuffix(v, `"`)
			}
			word = key + "=" + value
		} else if w, ok := strings.CutPrefix(word, `"`); ok {
			word = strings.TrimSuffix(w, `"`)
		}
		out = append(out, word)
	}
}

const blanks = " \t\n\v\f\r"
