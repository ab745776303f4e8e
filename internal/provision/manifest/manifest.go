// Package manifest turns documents that users have, of Cluster API and its
// providers, of kubeadm and of Ansible, into NodeConfig documents. It reads
// bytes and returns bytes; it touches no host and no cluster.
package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/join/token"
)

// Input is one file, or standard input.
type Input struct {
	Name string
	Data []byte
}

// Options are what the documents don't say.
type Options struct {
	// Version is the Kubernetes release, when no document names it.
	Version string
	// WithSecrets lets tokens, password hashes and the content of secret files
	// into the output.
	WithSecrets bool
	// SCSIOrder takes the order of the disks of a slot for their SCSI units,
	// where nothing says them.
	SCSIOrder bool
	// Interfaces are the host's names of its network interfaces, first to last,
	// where nothing says them. Default: eth0, eth1 and so on.
	Interfaces []string
}

// Machine is one NodeConfig.
type Machine struct {
	Name string // the host's, empty when the document is for any host
	YAML []byte // one document, without ---
}

// Result is what became of the documents.
type Result struct {
	Machines []Machine
	// Problems are what can't be carried, each at its place in the input.
	Problems config.Problems
	// Notes are for the reader; nothing is wrong with them.
	Notes []string
}

// TokenFile is where the output expects the join token when it isn't taken
// along.
const TokenFile = "/etc/nodeagent/join-command"

// converter collects what is said about a conversion.
type converter struct {
	Options
	docs     []document
	problems config.Problems
	notes    []string
	said     map[string]bool
}

// Convert makes one NodeConfig of every machine that the documents describe,
// or one for any host when they describe no machines. It never returns a
// document that a strict decoder refuses.
func Convert(inputs []Input, o Options) Result {
	c := &converter{Options: o, said: map[string]bool{}}
	c.read(inputs)
	if len(c.problems) > 0 {
		return c.result(nil) // what can't be read makes guesses of all the rest
	}
	return c.result(c.machines())
}

func (c *converter) result(machines []Machine) Result {
	slices.SortStableFunc(c.problems, func(a, b config.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Result{Machines: machines, Problems: c.problems, Notes: c.notes}
}

// bad records what can't be carried. Every machine of a pool says the same
// about a template, and it is told once.
func (c *converter) bad(at value, hint, format string, a ...any) {
	p := config.Problem{File: at.file, Path: at.path, Text: redact(fmt.Sprintf(format, a...)), Hint: hint}
	if at.n != nil {
		p.Line, p.Column = at.n.Line, at.n.Column
	}
	if key := p.String(); !c.said[key] {
		c.said[key] = true
		c.problems = append(c.problems, p)
	}
}

// note tells something once.
func (c *converter) note(format string, a ...any) {
	if s := redact(fmt.Sprintf(format, a...)); !c.said[s] {
		c.said[s] = true
		c.notes = append(c.notes, s)
	}
}

// tokenForm is that of bootstrap tokens, wherever it stands.
var tokenForm = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// redact keeps tokens out of what is said.
func redact(s string) string { return token.Document{}.Redact(s) }

// holdsToken tells whether a text has something of a token's form.
func holdsToken(s string) bool { return tokenForm.MatchString(s) }

// Join puts the documents of all machines into one text, separated by ---.
func Join(machines []Machine) []byte {
	var b bytes.Buffer
	for i, m := range machines {
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(m.YAML)
	}
	return b.Bytes()
}
