package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// LoadAll is Load for every host that the documents name: one value for each
// document with metadata.match, laid over those without. When no document has
// one, it is the one value for all hosts. It is for whoever hands the
// documents on and is none of the hosts. The error is that of the first
// document that has one.
func LoadAll(sources []Source) ([]Loaded, error) {
	d := &decoder{files: map[*yaml.Node]string{}, at: map[string]position{}}
	base, each, err := documents(d, sources)
	if err != nil {
		return nil, err
	}
	if len(each) == 0 {
		each = base[len(base)-1:]
		base = base[:len(base)-1]
	}
	var out []Loaded
	for _, own := range each {
		d.at = map[string]position{}
		d.visited = 0
		var whole *yaml.Node
		file := ""
		for _, doc := range append(base[:len(base):len(base)], own) {
			if whole == nil {
				whole, file = d.clone(doc.node), doc.file
				continue
			}
			d.overlay(whole, file, d.clone(doc.node), doc.file)
		}
		l := Loaded{Documents: len(base) + 1}
		d.decode(file, whole, reflect.ValueOf(&l.NodeConfig).Elem(), "", "", 0)
		if len(d.problems) == 0 {
			l.NodeConfig.fillDefaults()
			l.Warnings = d.validate(&l.NodeConfig)
		}
		if len(d.problems) > 0 {
			return nil, invalid(d.problems)
		}
		out = append(out, l)
	}
	return out, nil
}

// documents parses the sources and tells those for all hosts from those for
// some.
func documents(d *decoder, sources []Source) (base, each []document, err error) {
	all, total, err := parse(d, sources)
	if err != nil {
		return nil, nil, err
	}
	for _, doc := range all {
		if doc.match == nil {
			base = append(base, doc)
		} else {
			each = append(each, doc)
		}
	}
	if total == 0 {
		return nil, nil, errNoDocument()
	}
	return base, each, nil
}

// clone copies a value and what is known of its place, so that laying another
// document over it leaves it as it is.
func (d *decoder) clone(n *yaml.Node) *yaml.Node {
	made := map[*yaml.Node]*yaml.Node{}
	var copyOf func(*yaml.Node) *yaml.Node
	copyOf = func(n *yaml.Node) *yaml.Node {
		if n == nil {
			return nil
		}
		if c, ok := made[n]; ok {
			return c
		}
		c := *n
		made[n] = &c
		if f, ok := d.files[n]; ok {
			d.files[&c] = f
		}
		c.Alias = copyOf(n.Alias)
		c.Content = make([]*yaml.Node, len(n.Content))
		for i := range n.Content {
			c.Content[i] = copyOf(n.Content[i])
		}
		return &c
	}
	return copyOf(n)
}
