package manifest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/config"
)

// draft is a NodeConfig in the making. It remembers where each value comes
// from, so that what is wrong with it can be told there.
type draft struct {
	root *yaml.Node
	from map[*yaml.Node]value
	head []string // comments on the whole document
}

func newDraft() *draft {
	d := &draft{root: &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, from: map[*yaml.Node]value{}}
	d.put(value{}, "", config.APIVersion, "apiVersion")
	d.put(value{}, "", config.Kind, "kind")
	return d
}

// put sets the value at a path, replacing what was there; the comment stands
// above it.
func (d *draft) put(from value, comment string, v any, path ...string) {
	n := d.parent(path[:len(path)-1])
	key := path[len(path)-1]
	k, at := text(key), encode(v)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = at
			k = n.Content[i]
			d.origin(from, at)
			addComment(k, comment)
			return
		}
	}
	n.Content = append(n.Content, k, at)
	addComment(k, comment)
	d.origin(from, at)
}

// add appends a value to the list at a path.
func (d *draft) add(from value, comment string, v any, path ...string) {
	n := d.parent(path[:len(path)-1])
	key := path[len(path)-1]
	var list *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			list = n.Content[i+1]
		}
	}
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		n.Content = append(n.Content, text(key), list)
	}
	item := encode(v)
	addComment(item, comment)
	list.Content = append(list.Content, item)
	d.origin(from, item)
}

// remark puts a comment on a section, which is made if it isn't there yet.
// What isn't carried has no value of its own to stand above.
func (d *draft) remark(comment string, path ...string) {
	if len(path) == 0 {
		d.head = append(d.head, comment)
		return
	}
	n := d.parent(path[:len(path)-1])
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == path[len(path)-1] {
			addComment(n.Content[i], comment)
			return
		}
	}
	d.head = append(d.head, comment)
}

func (d *draft) origin(from value, n *yaml.Node) {
	if from.c != nil {
		d.from[n] = from
	}
}

// find is where the value at a path of package config comes from, and that
// value: the nearest one above it that comes from an input.
func (d *draft) find(path string) (from value, n *yaml.Node, ok bool) {
	at := d.root
	for {
		if v, known := d.from[at]; known {
			from, n, ok = v, at, true
		}
		at, path = step(at, path)
		if at == nil {
			return from, n, ok
		}
	}
}

// step follows the first part of a path.
func step(n *yaml.Node, path string) (*yaml.Node, string) {
	switch n.Kind {
	case yaml.MappingNode:
		best, rest := -1, ""
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			after, ok := strings.CutPrefix(path, key)
			if ok && (after == "" || after[0] == '.' || after[0] == '[') && (best < 0 || len(key) > len(n.Content[best].Value)) {
				best, rest = i, strings.TrimPrefix(after, ".")
			}
		}
		if best >= 0 && path != "" {
			return n.Content[best+1], rest
		}
	case yaml.SequenceNode:
		var i int
		if k, _ := fmt.Sscanf(path, "[%d]", &i); k == 1 && i < len(n.Content) {
			_, rest, _ := strings.Cut(path, "]")
			return n.Content[i], strings.TrimPrefix(rest, ".")
		}
	}
	return nil, ""
}

// remove takes a value out, and what it leaves empty.
func (d *draft) remove(gone *yaml.Node) { removeFrom(d.root, gone) }

func removeFrom(n, gone *yaml.Node) bool {
	width := 1
	if n.Kind == yaml.MappingNode {
		width = 2
	}
	for i := 0; i+width <= len(n.Content); i += width {
		child := n.Content[i+width-1]
		if child == gone || removeFrom(child, gone) && len(child.Content) == 0 {
			n.Content = slices.Delete(n.Content, i, i+width)
			return true
		}
	}
	return false
}

// parent is the mapping at a path, made when it isn't there.
func (d *draft) parent(path []string) *yaml.Node {
	n := d.root
next:
	for _, key := range path {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				n = n.Content[i+1]
				continue next
			}
		}
		m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		n.Content = append(n.Content, text(key), m)
		n = m
	}
	return n
}

// get is the single value at a path, empty when there is none.
func (d *draft) get(path ...string) string {
	n := d.root
	for _, key := range path {
		var below *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				below = n.Content[i+1]
			}
		}
		if below == nil {
			return ""
		}
		n = below
	}
	return n.Value
}

// list is the entries of the list at a path.
func (d *draft) list(path ...string) []*yaml.Node {
	n := d.parent(path[:len(path)-1])
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == path[len(path)-1] {
			return n.Content[i+1].Content
		}
	}
	return nil
}

// textOf is the single value of a key of a mapping.
func textOf(m *yaml.Node, key string) string {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1].Value
		}
	}
	return ""
}

func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// encode makes a node of a value. A mapping's empty texts and lists are left
// out: absent is what they mean in a NodeConfig.
func encode(v any) *yaml.Node {
	switch t := v.(type) {
	case *yaml.Node:
		return t
	case string:
		return text(t)
	case fields:
		m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, f := range t {
			if x := reflect.ValueOf(f.value); !x.IsValid() || x.IsZero() || x.Kind() == reflect.Slice && x.Len() == 0 {
				continue
			}
			m.Content = append(m.Content, text(f.key), encode(f.value))
		}
		return m
	case []string:
		s := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, x := range t {
			s.Content = append(s.Content, text(x))
		}
		return s
	}
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil {
		panic(err) // numbers and truth values of this package's own
	}
	return n
}

// fields is a mapping in its order.
type fields []field

type field struct {
	key   string
	value any
}

// addComment adds a line, or lines, above a node. A comment holds what users
// have written, so whatever could end it goes.
func addComment(n *yaml.Node, s string) {
	if s == "" || strings.Contains(n.HeadComment, "# "+comment(s)+"\n") || strings.HasSuffix(n.HeadComment, "# "+comment(s)) {
		return
	}
	if n.HeadComment != "" {
		n.HeadComment += "\n"
	}
	n.HeadComment += "# " + comment(s)
}

// comment makes one presentable line of a text.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
	return redact(strings.Join(strings.Fields(s), " "))
}

// yaml writes the document with its keys in the order of the types of package
// config.
func (d *draft) yaml() []byte {
	arrange(d.root, reflect.TypeOf(config.NodeConfig{}))
	var b bytes.Buffer
	for _, h := range d.head {
		b.WriteString("# " + comment(h) + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(d.root); err != nil {
		panic(err) // nodes of this package's own making
	}
	return b.Bytes()
}

// arrange sorts a mapping by the fields of the type that it is decoded into.
func arrange(n *yaml.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice {
		for _, item := range n.Content {
			arrange(item, t.Elem())
		}
		return
	}
	if n.Kind != yaml.MappingNode || t.Kind() != reflect.Struct {
		return
	}
	order := map[string]int{}
	for i := range t.NumField() {
		order[t.Field(i).Tag.Get("yaml")] = i
	}
	type kv struct{ k, v *yaml.Node }
	var all []kv
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, kv{n.Content[i], n.Content[i+1]})
	}
	slices.SortStableFunc(all, func(a, b kv) int { return order[a.k.Value] - order[b.k.Value] })
	n.Content = n.Content[:0]
	for _, x := range all {
		if i, ok := order[x.k.Value]; ok {
			arrange(x.v, t.Field(i).Type)
		}
		n.Content = append(n.Content, x.k, x.v)
	}
}
