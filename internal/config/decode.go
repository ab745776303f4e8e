package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits that keep a hostile document from costing more than it is worth.
const (
	maxDepth = 64
	maxNodes = 2_000_000
)

// position is where a value stands.
type position struct {
	file         string
	line, column int
}

// decoder walks YAML nodes into the types of this package, strictly, and
// remembers where each value stood so that validation can point at it.
type decoder struct {
	files    map[*yaml.Node]string // file of each mapping merged from elsewhere
	at       map[string]position
	problems Problems
	visited  int
}

func (d *decoder) fail(file string, n *yaml.Node, path, hint, format string, a ...any) {
	d.problems = append(d.problems, Problem{File: file, Line: n.Line, Column: n.Column, Path: path, Text: fmt.Sprintf(format, a...), Hint: hint})
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var durationType = reflect.TypeOf(Duration{})

// decode stores n into v. field carries the tags of the struct field.
func (d *decoder) decode(file string, n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag, depth int) {
	if f, ok := d.files[n]; ok {
		file = f
	}
	d.visited++
	if depth > maxDepth || d.visited > maxNodes {
		if len(d.problems) == 0 {
			d.fail(file, n, path, "", "the document is nested too deeply or expands to too many values")
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		d.decode(file, n.Alias, v, path, tag, depth+1)
		return
	}
	d.at[path] = position{file, n.Line, n.Column}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // as if absent
	}
	if v.Type() == durationType {
		d.duration(file, n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.decode(file, n, p.Elem(), path, tag, depth)
		v.Set(p)
	case reflect.Struct:
		d.structure(file, n, v, path, depth)
	case reflect.Map:
		d.mapping(file, n, v, path, tag, depth)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.fail(file, n, path, "", "want a list, found %s", d.describe(path, n))
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, c := range n.Content {
			d.decode(file, c, s.Index(i), fmt.Sprintf("%s[%d]", path, i), tag, depth+1)
		}
		v.Set(s)
	case reflect.String:
		literal := tag.Get("literal") != "" && (n.Tag == "!!int" || n.Tag == "!!float")
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && !literal {
			hint := ""
			if n.Kind == yaml.ScalarNode && !secret(path) {
				hint = fmt.Sprintf("put it in quotes: %q", n.Value)
			}
			d.fail(file, n, path, hint, "want a string, found %s", d.describe(path, n))
			return
		}
		if allowed := tag.Get("enum"); allowed != "" && !slices.Contains(strings.Split(allowed, ","), n.Value) {
			hint := "one of " + strings.ReplaceAll(allowed, ",", ", ")
			if near := nearest(n.Value, strings.Split(allowed, ",")); near != "" {
				hint = "did you mean " + near + "?"
			}
			d.fail(file, n, path, hint, "%q is not allowed", n.Value)
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			d.fail(file, n, path, "", "want true or false, found %s", d.describe(path, n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
			d.fail(file, n, path, "", "want a whole number, found %s", d.describe(path, n))
			return
		}
		v.SetInt(int64(i))
	case reflect.Interface:
		if x := d.free(file, n, path, depth); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		panic("config: no way to decode into " + v.Type().String())
	}
}

func (d *decoder) duration(file string, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.ScalarNode && n.Value == "0" {
		v.Set(reflect.ValueOf(Duration{Set: true}))
		return
	}
	t, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || t < 0 {
		d.fail(file, n, path, "write it like 90s, 10m or 1h30m", "want a time span, found %s", d.describe(path, n))
		return
	}
	v.Set(reflect.ValueOf(Duration{Duration: t, Set: true}))
}

func (d *decoder) structure(file string, n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.fail(file, n, path, "", "want a mapping, found %s", d.describe(path, n))
		return
	}
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		names = append(names, name)
	}
	d.pairs(file, n, path, func(file string, key, value *yaml.Node) {
		i, ok := fields[key.Value]
		if !ok {
			hint := "known here: " + strings.Join(names, ", ")
			if near := nearest(key.Value, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			d.fail(file, key, join(path, key.Value), hint, "unknown key")
			return
		}
		d.decode(file, value, v.Field(i), join(path, key.Value), v.Type().Field(i).Tag, depth+1)
	})
}

func (d *decoder) mapping(file string, n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag, depth int) {
	if n.Kind != yaml.MappingNode {
		d.fail(file, n, path, "", "want a mapping, found %s", d.describe(path, n))
		return
	}
	m := reflect.MakeMap(v.Type())
	d.pairs(file, n, path, func(file string, key, value *yaml.Node) {
		x := reflect.New(v.Type().Elem()).Elem()
		d.decode(file, value, x, join(path, key.Value), tag, depth+1)
		m.SetMapIndex(reflect.ValueOf(key.Value), x)
	})
	v.Set(m)
}

// pairs calls each for every key of a mapping and refuses keys given twice and
// keys that aren't strings.
func (d *decoder) pairs(file string, n *yaml.Node, path string, each func(file string, key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		from := file
		if f, ok := d.files[key]; ok {
			from = f
		}
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.fail(from, key, path, "write the keys out", "a key must be a plain word")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.fail(from, key, join(path, key.Value), "", "given twice, first in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		each(from, key, value)
	}
}

// free decodes a value of any shape (a KubeletConfiguration fragment).
func (d *decoder) free(file string, n *yaml.Node, path string, depth int) any {
	d.visited++
	if depth > maxDepth || d.visited > maxNodes {
		if len(d.problems) == 0 {
			d.fail(file, n, path, "", "the document is nested too deeply or expands to too many values")
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return d.free(file, n.Alias, path, depth+1)
	case yaml.MappingNode:
		m := map[string]any{}
		d.pairs(file, n, path, func(file string, key, value *yaml.Node) {
			d.at[join(path, key.Value)] = position{file, key.Line, key.Column}
			m[key.Value] = d.free(file, value, join(path, key.Value), depth+1)
		})
		return m
	case yaml.SequenceNode:
		s := make([]any, len(n.Content))
		for i, c := range n.Content {
			s[i] = d.free(file, c, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
		return s
	}
	var x any
	if err := n.Decode(&x); err != nil {
		d.fail(file, n, path, "", "%s can't be read", d.describe(path, n))
	}
	switch t := x.(type) {
	case time.Time: // YAML's own date type; JSON has none
		return n.Value
	case int:
		return int64(t)
	}
	return x
}

// secret tells whether what stands at a path may be secret, and is not quoted.
func secret(path string) bool { return strings.HasPrefix(path, "spec.join.token") }

func (d *decoder) describe(path string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && secret(path) {
		return "a single value"
	}
	return describe(n)
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return describe(n.Alias)
	}
	value := n.Value
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + value
	case "!!bool":
		return "the truth value " + value
	case "!!null":
		return "nothing"
	}
	return fmt.Sprintf("the text %q", value)
}
