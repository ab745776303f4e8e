package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a place in an input. One without a node is absent, and everything
// asked of it is empty.
type value struct {
	c    *converter
	file string
	n    *yaml.Node
	path string
}

// is tells whether there is a value that isn't null.
func (v value) is() bool { return v.n != nil && v.n.Tag != "!!null" }

// at is the value below a key, or an absent one at the same place.
func (v value) at(keys ...string) value {
	for _, key := range keys {
		v = v.one(key)
	}
	return v
}

func (v value) one(key string) value {
	below := value{c: v.c, file: v.file, path: strings.TrimPrefix(v.path+"."+key, ".")}
	if !v.is() {
		return below
	}
	if v.n.Kind != yaml.MappingNode {
		v.c.bad(v, "", "want a mapping, found %s", describe(v.n))
		return below
	}
	for i := 0; i+1 < len(v.n.Content); i += 2 {
		if v.n.Content[i].Value == key {
			below.n = v.n.Content[i+1]
		}
	}
	return below
}

// pair is a key of a mapping with its value; the value's place is the key's
// when it has none of its own.
type pair struct {
	key string
	value
}

// pairs are the keys of a mapping in their order.
func (v value) pairs() (out []pair) {
	if !v.is() {
		return nil
	}
	if v.n.Kind != yaml.MappingNode {
		v.c.bad(v, "", "want a mapping, found %s", describe(v.n))
		return nil
	}
	for i := 0; i+1 < len(v.n.Content); i += 2 {
		key := v.n.Content[i].Value
		out = append(out, pair{key, value{v.c, v.file, v.n.Content[i+1], strings.TrimPrefix(v.path+"."+key, ".")}})
	}
	return out
}

// only refuses every key but these.
func (v value) only(known ...string) {
	for _, p := range v.pairs() {
		if !slices.Contains(known, p.key) {
			v.c.bad(p.value, "take it out of the manifest once it has another home, or go on without it: --keep-going", "isn't known to this conversion and can't be carried")
		}
	}
}

// items are the entries of a list.
func (v value) items() (out []value) {
	if !v.is() {
		return nil
	}
	if v.n.Kind != yaml.SequenceNode {
		v.c.bad(v, "", "want a list, found %s", describe(v.n))
		return nil
	}
	for i, n := range v.n.Content {
		out = append(out, value{v.c, v.file, n, fmt.Sprintf("%s[%d]", v.path, i)})
	}
	return out
}

// text is a single value as it is written.
func (v value) text() string {
	if !v.is() {
		return ""
	}
	if v.n.Kind != yaml.ScalarNode {
		v.c.bad(v, "", "want a single value, found %s", describe(v.n))
		return ""
	}
	return v.n.Value
}

// texts is a list of single values.
func (v value) texts() (out []string) {
	for _, item := range v.items() {
		out = append(out, item.text())
	}
	return out
}

// yes is a truth value; absent is false.
func (v value) yes() bool {
	s := v.text()
	b, err := strconv.ParseBool(s)
	if err != nil && s != "" {
		v.c.bad(v, "true or false", "%q is not a truth value", short(s))
	}
	return b
}

// number is a whole number; absent or wrong is false.
func (v value) number() (int, bool) {
	s := v.text()
	n, err := strconv.Atoi(s)
	if err != nil && s != "" {
		v.c.bad(v, "", "%q is not a whole number", short(s))
	}
	return n, err == nil
}

// left says that something can't be carried.
func (v value) left(hint, format string, a ...any) {
	if v.is() {
		v.c.bad(v, hint, format, a...)
	}
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("the text %q", short(n.Value))
}

// short keeps what is quoted presentable.
func short(s string) string {
	s = redact(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
