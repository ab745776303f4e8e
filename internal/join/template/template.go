// Package template fills what identifies a host into a header or a parameter:
// {{ .Serial }} and three others, and nothing else of Go's templates, since
// nothing else is needed to tell hosts apart.
package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names are the fields that a template may have.
var Names = []string{"Serial", "MAC", "UUID", "Hostname"}

// Hint is the next action for a template that Check refuses.
const Hint = "what is known is {{ .Serial }}, {{ .MAC }}, {{ .UUID }} and {{ .Hostname }}"

// part is either text or the name of a field.
type part struct{ text, field string }

// parse cuts s at its fields. Its errors quote the field's name and nothing
// else of s, which may be secret.
func parse(s string) ([]part, error) {
	var out []part
	for {
		before, rest, found := strings.Cut(s, "{{")
		if before != "" {
			out = append(out, part{text: before})
		}
		if !found {
			return out, nil
		}
		inner, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, errors.New("has a {{ without its }}")
		}
		name, dotted := strings.CutPrefix(strings.TrimSpace(inner), ".")
		switch {
		case dotted && slices.Contains(Names, name):
		case dotted && word(name):
			return nil, fmt.Errorf("has the unknown field {{ .%s }}", name)
		default:
			return nil, errors.New("has something between {{ and }} that is not a field")
		}
		out = append(out, part{field: name})
		s = after
	}
}

// word tells whether a name is short and plain enough to be shown.
func word(s string) bool {
	return s != "" && len(s) <= 20 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// Check tells what is wrong with a template.
func Check(s string) error {
	_, err := parse(s)
	return err
}

// Fields are the fields that a template has, each once, in the order of Names.
func Fields(s string) []string {
	parts, _ := parse(s) // one that is wrong has none
	var out []string
	for _, name := range Names {
		if slices.ContainsFunc(parts, func(p part) bool { return p.field == name }) {
			out = append(out, name)
		}
	}
	return out
}

// Expand fills in the values. A field whose value is empty is an error: a host
// that can't say who it is must not ask for another one's token.
func Expand(s string, values map[string]string) (string, error) {
	parts, err := parse(s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		v := p.text
		if p.field != "" {
			if v = values[p.field]; v == "" {
				return "", fmt.Errorf("this host has no value for {{ .%s }}", p.field)
			}
		}
		b.WriteString(v)
	}
	return b.String(), nil
}
