package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/fail"
)

// Source is one file (or URL, or standard input) with its documents.
type Source struct {
	Name string
	Data []byte
}

// MaxSize bounds a configuration, in bytes; a fleet of 10,000 machines is below
// it.
const MaxSize = 32 << 20

// Identity is what metadata.match is compared with.
type Identity struct {
	MACs     []string
	Serial   string
	UUID     string
	Hostname string
}

// Loaded is a validated configuration.
type Loaded struct {
	NodeConfig
	Warnings []string
	// Documents is how many of the given documents apply to this host.
	Documents int
}

// Load reads every document of every source, lays those that apply to this host
// over each other (later ones win), fills in defaults and validates. The error
// is a fail.Error of kind Usage around Problems.
func Load(sources []Source, who Identity) (Loaded, error) {
	d := &decoder{files: map[*yaml.Node]string{}, at: map[string]position{}}
	base, matched, warnings, err := choose(d, sources, who)
	if err != nil {
		return Loaded{}, err
	}
	docs := append(base, matched...)
	var whole *yaml.Node
	file := ""
	for _, doc := range docs {
		if whole == nil {
			whole, file = doc.node, doc.file
			continue
		}
		d.overlay(whole, file, doc.node, doc.file)
	}
	out := Loaded{Warnings: warnings, Documents: len(docs)}
	d.decode(file, whole, reflect.ValueOf(&out.NodeConfig).Elem(), "", "", 0)
	if len(d.problems) == 0 {
		out.NodeConfig.fillDefaults()
		out.Warnings = append(out.Warnings, d.validate(&out.NodeConfig)...)
	}
	if len(d.problems) > 0 {
		return Loaded{}, invalid(d.problems)
	}
	return out, nil
}

func invalid(p Problems) error {
	hint := ""
	for _, x := range p {
		if x.Hint != "" {
			hint = x.Hint
			break
		}
	}
	text := "the configuration has an error"
	if len(p) > 1 {
		text = fmt.Sprintf("the configuration has %d errors", len(p))
	}
	return fail.Wrap(fail.Usage, p, hint, "%s", text)
}

type document struct {
	file  string
	node  *yaml.Node
	match *Match // nil: for all hosts
}

// choose parses the sources and picks the documents for this host.
func choose(d *decoder, sources []Source, who Identity) (base, matched []document, warnings []string, err error) {
	all, total, err := parse(d, sources)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, doc := range all {
		switch {
		case doc.match == nil:
			base = append(base, doc)
		case doc.match.is(who):
			matched = append(matched, doc)
		}
	}
	switch {
	case total == 0:
		err = errNoDocument()
	case len(matched) > 1:
		err = fail.New(fail.Usage, "make metadata.match tell them apart", "%d documents match this host (%s): %s:%d and %s:%d", len(matched), who,
			matched[0].file, matched[0].node.Line, matched[1].file, matched[1].node.Line)
	case len(base)+len(matched) == 0:
		err = fail.New(fail.Usage, "add the host to a metadata.match, or a document without match for all hosts", "none of %d documents matches this host (%s)", total, who)
	case len(matched) == 0 && len(base) < total:
		warnings = append(warnings, fmt.Sprintf("no metadata.match names this host (%s); only the documents for all hosts apply", who))
	}
	return base, matched, warnings, err
}

func errNoDocument() error {
	return fail.New(fail.Usage, "start from: nodeagent config example", "the configuration holds no document")
}

// parse returns every document with a good header, and how many there are. The
// error holds everything that is wrong with syntax and headers.
func parse(d *decoder, sources []Source) (all []document, total int, err error) {
	for _, s := range sources {
		if len(s.Data) > MaxSize {
			return nil, 0, fail.New(fail.Usage, "", "%s is larger than %d MiB", s.Name, MaxSize>>20)
		}
		if values(s.Data) > maxNodes {
			return nil, 0, fail.New(fail.Usage, "split the fleet into several files", "%s holds more than %d values", s.Name, maxNodes)
		}
		dec := yaml.NewDecoder(bytes.NewReader(s.Data))
		for {
			var n yaml.Node
			err := dec.Decode(&n)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, 0, invalid(Problems{syntax(s.Name, err)})
			}
			if len(n.Content) == 0 || n.Content[0].Tag == "!!null" {
				continue
			}
			total++
			doc := document{file: s.Name, node: n.Content[0]}
			var ok bool
			if doc.match, ok = d.match(doc); ok { // else the problem is recorded
				all = append(all, doc)
			}
		}
	}
	if len(d.problems) > 0 {
		return nil, total, invalid(d.problems)
	}
	return all, total, nil
}

// values bounds from above how many values a document holds, since the YAML
// library takes some 200 bytes for each, and only then can they be counted.
func values(b []byte) (n int) {
	for _, c := range b {
		switch c {
		case '\n', ',', ':', '[', '{':
			n++
		}
	}
	return n
}

// match reads metadata.match of a document and checks its header.
func (d *decoder) match(doc document) (*Match, bool) {
	var head struct {
		APIVersion string    `yaml:"apiVersion"`
		Kind       string    `yaml:"kind"`
		Metadata   yaml.Node `yaml:"metadata"`
	}
	if err := doc.node.Decode(&head); err != nil {
		d.fail(doc.file, doc.node, "", "", "want a NodeConfig document, found %s", describe(doc.node))
		return nil, false
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		d.fail(doc.file, doc.node, "", fmt.Sprintf("begin with apiVersion: %s and kind: %s", APIVersion, Kind),
			"apiVersion %q, kind %q is not a NodeConfig", head.APIVersion, head.Kind)
		return nil, false
	}
	before := len(d.problems)
	var meta Metadata
	if head.Metadata.Kind != 0 {
		d.decode(doc.file, &head.Metadata, reflect.ValueOf(&meta).Elem(), "metadata", "", 0)
	}
	if meta.Match != nil && len(meta.Match.MAC)+len(meta.Match.Serial)+len(meta.Match.Hostname)+len(meta.Match.UUID) == 0 {
		d.fail(doc.file, &head.Metadata, "metadata.match", "name a mac, serial, hostname or uuid", "matches nothing")
	}
	return meta.Match, len(d.problems) == before
}

func (m *Match) is(who Identity) bool {
	has := func(list []string, norm func(string) string, mine ...string) bool {
		for _, a := range list {
			for _, b := range mine {
				if b != "" && norm(a) == norm(b) {
					return true
				}
			}
		}
		return false
	}
	mac := func(s string) string { return strings.ToLower(strings.NewReplacer("-", ":", ".", ":").Replace(s)) }
	short := func(s string) string { s, _, _ = strings.Cut(strings.ToLower(s), "."); return s }
	return has(m.MAC, mac, who.MACs...) || has(m.Serial, strings.TrimSpace, who.Serial) ||
		has(m.UUID, strings.ToLower, who.UUID) || has(m.Hostname, strings.ToLower, who.Hostname, short(who.Hostname))
}

// String names the host the way an error should.
func (who Identity) String() string {
	var s []string
	for _, p := range [][2]string{{"hostname", who.Hostname}, {"serial", who.Serial}, {"uuid", who.UUID}, {"mac", strings.Join(who.MACs, " ")}} {
		if p[1] != "" {
			s = append(s, p[0]+" "+p[1])
		}
	}
	return strings.Join(s, ", ")
}

// overlay lays the mapping over onto base: mappings merge, anything else is
// replaced. Every replaced node remembers its file.
func (d *decoder) overlay(base *yaml.Node, baseFile string, over *yaml.Node, overFile string) {
	for i := 0; i+1 < len(over.Content); i += 2 {
		key, value := over.Content[i], over.Content[i+1]
		at := -1
		for j := 0; j+1 < len(base.Content); j += 2 {
			if base.Content[j].Value == key.Value {
				at = j
			}
		}
		switch {
		case at >= 0 && base.Content[at+1].Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			d.overlay(base.Content[at+1], baseFile, value, overFile)
		case at >= 0:
			base.Content[at], base.Content[at+1] = key, value
			d.files[key], d.files[value] = overFile, overFile
		default:
			base.Content = append(base.Content, key, value)
			d.files[key], d.files[value] = overFile, overFile
		}
	}
}

// syntax turns "yaml: line 3: …" into a Problem.
func syntax(file string, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: file, Text: text}
	var line int
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		p.Line, p.Column = line, 1
		_, p.Text, _ = strings.Cut(text, ": ")
	}
	p.Hint = "YAML wants spaces, not tabs, and a space after each colon"
	return p
}
