package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/kubelet"
)

// machine is one host that gets a NodeConfig, and what its documents say.
type machine struct {
	at         value  // where it stands, for what is missing
	name       string // host name; empty for any host
	alias      string // another name that the host may have before it is set up
	nodeIP     string
	providerID string
	noID       string // why there is no providerID, with the way out
	version    value
	bootstrap  *document
	infra      func(*draft, *machine) // disks and interfaces
	mounts     map[string]bool        // mount paths of data disks
	fixed      map[string]bool        // files that became something else
}

// machines writes every NodeConfig.
func (c *converter) machines() (out []Machine) {
	if len(c.docs) == 0 {
		return nil
	}
	seen := map[string]bool{}
	all := c.hosts()
	for i := range all {
		m := &all[i]
		m.mounts, m.fixed = map[string]bool{}, map[string]bool{}
		d := c.draft(m)
		c.settle(d)
		if seen[m.name] {
			if m.name == "" {
				c.bad(m.at, "convert the documents of one kind of host at a time, or give their pools", "is a second document for any host")
			} else {
				c.bad(m.at, "", "%s is the name of two machines", m.name)
			}
			continue
		}
		seen[m.name] = true
		out = append(out, Machine{Name: m.name, YAML: d.yaml()})
	}
	return out
}

// draft writes one NodeConfig. What is nearer to the machine comes later and
// wins.
func (c *converter) draft(m *machine) *draft {
	d := newDraft()
	if m.infra != nil {
		m.infra(d, m)
	}
	for _, v := range c.of(ansibleVars) {
		c.ansible(d, v.value)
	}
	if m.bootstrap != nil {
		c.kubeadmConfig(d, m, *m.bootstrap)
	}
	for _, j := range c.of("JoinConfiguration") {
		c.joinConfiguration(d, m, j.value)
	}
	for _, j := range c.of(joinCommand) {
		c.joinCommand(d, m, j.value)
	}
	c.release(d, m)
	if m.name != "" {
		d.put(m.at, "", m.name, "spec", "hostname")
		names := []string{m.name}
		if m.alias != "" && m.alias != m.name {
			names = append(names, m.alias)
		}
		if m.infra != nil {
			d.put(m.at, "Decided: the host is known by its name. Add its mac, serial or uuid if it gets its name only from this document.", names, "metadata", "match", "hostname")
		}
	}
	if d.parent([]string{"spec", "join", "token"}); len(d.parent([]string{"spec", "join", "token"}).Content) == 0 {
		d.put(m.at, "To finish: put there what `kubeadm token create --print-join-command` prints, mode 0600, or name another source.", TokenFile, "spec", "join", "token", "file")
	}
	return d
}

// releaseForm takes the release out of what image builders and packages add to
// it: v1.34.5-3, 1.30.14-150500.1.1, v1.33.1+build.
var releaseForm = regexp.MustCompile(`^v?(1\.[0-9]+\.[0-9]+)([-+].*)?$`)

// release chooses the Kubernetes release.
func (c *converter) release(d *draft, m *machine) {
	at, v := m.version, m.version.text()
	if v == "" {
		v = d.get("spec", "kubernetes", "version")
		if v != "" && c.Version == "" {
			return
		}
	}
	if c.Version != "" {
		comment := ""
		if v != "" && strings.TrimPrefix(v, "v") != strings.TrimPrefix(c.Version, "v") {
			comment = fmt.Sprintf("Decided: as asked on the command line; the documents say %s.", v)
		}
		d.put(m.at, comment, "v"+strings.TrimPrefix(c.Version, "v"), "spec", "kubernetes", "version")
		return
	}
	if v == "" {
		c.bad(m.at, "add the MachineDeployment, or say it: --kubernetes-version v1.35.4", "no document names the Kubernetes release")
		return
	}
	c.putRelease(d, at, v)
}

func (c *converter) putRelease(d *draft, at value, v string) {
	found := releaseForm.FindStringSubmatch(v)
	if found == nil {
		c.bad(at, "such as v1.35.4", "%q is not an exact release", short(v))
		return
	}
	comment := ""
	if found[2] != "" {
		comment = fmt.Sprintf("Decided: %s without what the builder of its packages or image has added.", v)
	}
	d.put(at, comment, "v"+found[1], "spec", "kubernetes", "version")
}

// settle tells what package config or the kubelet would refuse, at its place
// in the input, and takes it out of the draft.
func (c *converter) settle(d *draft) {
	for range 20 {
		doc := d.yaml()
		problems := check(doc)
		changed := false
		for _, p := range problems {
			from, n, ok := d.find(p.Path)
			if !ok {
				if !strings.HasPrefix(p.Path, "spec.kubernetes.version") { // told already
					c.bad(value{c: c}, p.Hint, "%s: %s", p.Path, p.Text)
				}
				continue
			}
			c.bad(from, p.Hint, "%s", p.Text)
			d.remove(n)
			changed = true
			break // the places of what comes after may have changed
		}
		if !changed {
			return
		}
	}
}

// check is everything that is wrong with a NodeConfig.
func check(doc []byte) config.Problems {
	all, err := config.LoadAll([]config.Source{{Data: doc}})
	var problems config.Problems
	if errors.As(err, &problems) {
		return problems
	}
	if err != nil {
		return config.Problems{{Text: err.Error()}}
	}
	for _, p := range kubelet.Check(all[0].Spec) {
		if !p.Warning {
			problems = append(problems, config.Problem{Path: p.Path, Text: p.Text, Hint: p.Hint})
		}
	}
	return problems
}
