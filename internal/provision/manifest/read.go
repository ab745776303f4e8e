package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/config"
)

// Limits that keep a hostile input from costing more than it is worth.
const (
	maxDepth = 64
	maxNodes = 500_000
)

// document is one document of an input.
type document struct {
	value
	number  int // within its file, from 1
	group   string
	version string
	kind    string // for what has none: joinCommand, ansibleVars
	name    string
}

// Kinds of documents that have none of their own.
const (
	joinCommand = "kubeadm join command"
	ansibleVars = "Ansible variables"
)

// groups are the kinds that are read, with their API group.
var groups = map[string]string{
	"JoinConfiguration":        "kubeadm.k8s.io",
	"KubeadmConfig":            "bootstrap.cluster.x-k8s.io",
	"KubeadmConfigTemplate":    "bootstrap.cluster.x-k8s.io",
	"MachineDeployment":        "cluster.x-k8s.io",
	"DCSIpHostnamePool":        "infrastructure.cluster.x-k8s.io",
	"DCSMachineTemplate":       "infrastructure.cluster.x-k8s.io",
	"VSphereMachineConfigPool": "infrastructure.cluster.x-k8s.io",
	"VSphereMachineTemplate":   "infrastructure.cluster.x-k8s.io",
}

// versions are those of each group that are read.
var versions = map[string][]string{
	"kubeadm.k8s.io":                  {"v1beta1", "v1beta2", "v1beta3", "v1beta4"},
	"bootstrap.cluster.x-k8s.io":      {"v1beta1", "v1beta2"},
	"cluster.x-k8s.io":                {"v1beta1", "v1beta2"},
	"infrastructure.cluster.x-k8s.io": {"v1beta1", "v1beta2"},
}

var (
	joinLine = regexp.MustCompile(`(^|\W)kubeadm\s+join\s`)
	// unfilled is an example's placeholder.
	unfilled = regexp.MustCompile(`^<[A-Za-z0-9][A-Za-z0-9_. -]*>$`)
)

// read takes all documents out of the inputs.
func (c *converter) read(inputs []Input) {
	for _, in := range inputs {
		before := len(c.docs)
		c.readOne(in)
		if len(c.docs) == before && len(c.problems) == 0 {
			c.bad(value{c: c, file: in.Name}, "manifests in YAML, a kubeadm join command, or Ansible variables", "holds no document")
		}
	}
}

func (c *converter) readOne(in Input) {
	whole := value{c: c, file: in.Name}
	if len(in.Data) > config.MaxSize {
		c.bad(whole, "", "is larger than %d MiB", config.MaxSize>>20)
		return
	}
	if line, ok := commandLine(in.Data); ok {
		whole.n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(in.Data), Line: line, Column: 1}
		c.docs = append(c.docs, document{value: whole, number: 1, kind: joinCommand})
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(in.Data))
	for number := 1; ; number++ {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			text := strings.TrimPrefix(err.Error(), "yaml: ")
			at := whole
			var line int
			if k, _ := fmt.Sscanf(text, "line %d:", &line); k == 1 {
				at.n = &yaml.Node{Line: line, Column: 1}
				_, text, _ = strings.Cut(text, ": ")
			}
			c.bad(at, "YAML wants spaces, not tabs, and a space after each colon", "document %d: %s", number, text)
			return
		}
		if len(n.Content) == 0 || n.Content[0].Tag == "!!null" {
			continue
		}
		left := maxNodes
		root, ok := expand(n.Content[0], 0, &left)
		if !ok {
			c.bad(value{c: c, file: in.Name, n: n.Content[0]}, "", "document %d is nested too deeply or expands to too many values", number)
			return
		}
		c.take(value{c: c, file: in.Name, n: root}, number)
	}
}

// commandLine tells whether an input is the text of a kubeadm join command,
// and in which line it begins. The first word of a manifest is a key.
func commandLine(data []byte) (line int, ok bool) {
	for text := range strings.Lines(string(data)) {
		line++
		t := strings.TrimSpace(text)
		if t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		if joinLine.MatchString(t) && !strings.HasPrefix(t, "-") && !regexp.MustCompile(`^[A-Za-z_]+:(\s|$)`).MatchString(t) {
			return line, true
		}
		if strings.Contains(t, ":") && !strings.Contains(t, " ") || strings.HasPrefix(t, "---") || regexp.MustCompile(`^"?[A-Za-z_]+"?\s*:`).MatchString(t) || strings.HasPrefix(t, "{") {
			return 0, false
		}
	}
	return 0, false
}

// expand replaces aliases by what they mean, so that nothing else has to know
// of them.
func expand(n *yaml.Node, depth int, left *int) (*yaml.Node, bool) {
	if *left--; *left < 0 || depth > maxDepth {
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		return expand(n.Alias, depth+1, left)
	}
	out := *n
	out.Anchor, out.Alias = "", nil
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		var ok bool
		if out.Content[i], ok = expand(child, depth+1, left); !ok {
			return nil, false
		}
	}
	return &out, true
}

// take sorts a document in, or says what is wrong with it.
func (c *converter) take(v value, number int) {
	if v.n.Kind != yaml.MappingNode {
		c.bad(v, "", "document %d is %s, not a manifest", number, describe(v.n))
		return
	}
	before := len(c.problems)
	c.wellFormed(v)
	if len(c.problems) > before {
		return
	}
	api, kind := v.at("apiVersion").text(), v.at("kind").text()
	group, version, _ := strings.Cut(api, "/")
	d := document{value: v, number: number, group: group, version: version, kind: kind, name: v.at("metadata", "name").text()}
	switch {
	case kind == "" && api == "" && looksAnsible(v):
		d.kind = ansibleVars
	case strings.HasSuffix(kind, "List") && v.at("items").is(): // kubectl get -o yaml
		for _, item := range v.at("items").items() {
			c.take(item, number)
		}
		return
	case kind == "KubeadmControlPlane" || kind == "KubeadmControlPlaneTemplate" || kind == "InitConfiguration" || kind == "ClusterConfiguration":
		c.bad(v, "convert the documents of the workers: KubeadmConfigTemplate, MachineDeployment, the machines' template and pool", "document %d is a %s: workers are the job", number, kind)
		return
	case kind == "" || api == "":
		c.bad(v, "", "document %d has no apiVersion and kind", number)
		return
	case groups[kind] == "":
		c.bad(v, "leave it out; what is read: "+kinds(), "document %d: %s of %s is not a kind that is converted", number, kind, api)
		return
	case groups[kind] != group:
		c.bad(v, "apiVersion: "+groups[kind]+"/"+versions[groups[kind]][0], "document %d: a %s belongs to %s, not to %s", number, kind, groups[kind], api)
		return
	case !slices.Contains(versions[group], version):
		c.bad(v, "versions that are read: "+strings.Join(versions[group], ", "), "document %d: %s of version %s is not known", number, kind, version)
		return
	}
	c.docs = append(c.docs, d)
}

func kinds() string {
	var out []string
	for k := range groups {
		out = append(out, k)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// wellFormed finds what no part of any manifest may be: keys that aren't text,
// keys that stand twice, examples that weren't filled in.
func (c *converter) wellFormed(v value) {
	switch v.n.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(v.n.Content); i += 2 {
			key := v.n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				c.bad(value{c, v.file, key, v.path}, "", "has a key that is %s", map[bool]string{true: "a YAML merge; write its values out", false: "no text"}[key.Tag == "!!merge"])
				continue
			}
			if seen[key.Value] {
				c.bad(value{c, v.file, key, v.path}, "keep one", "has the key %q twice", short(key.Value))
			}
			seen[key.Value] = true
			c.wellFormed(value{c, v.file, v.n.Content[i+1], strings.TrimPrefix(v.path+"."+key.Value, ".")})
		}
	case yaml.SequenceNode:
		for i, n := range v.n.Content {
			c.wellFormed(value{c, v.file, n, fmt.Sprintf("%s[%d]", v.path, i)})
		}
	case yaml.ScalarNode:
		if unfilled.MatchString(v.n.Value) {
			c.bad(v, "fill it in", "%s is still an example's placeholder", v.n.Value)
		}
	}
}

// of are the documents of one kind.
func (c *converter) of(kinds ...string) (out []document) {
	for _, d := range c.docs {
		if slices.Contains(kinds, d.kind) {
			out = append(out, d)
		}
	}
	return out
}

// where names a document for people.
func (d document) where() string {
	if d.name == "" {
		return fmt.Sprintf("%s (%s:%d)", d.kind, d.file, d.n.Line)
	}
	return fmt.Sprintf("%s %s (%s:%d)", d.kind, d.name, d.file, d.n.Line)
}
