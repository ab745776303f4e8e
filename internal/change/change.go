// Package change is the closed set of things nodeagent can do to a host. What
// the binary can do is answered by kinds.go: one line a kind.
package change

import (
	"encoding/json"
	"fmt"
)

// Class says how a change may be taken back.
type Class string

// The classes, mildest first.
const (
	Wait        Class = "wait"        // changes nothing, waits for something
	Additive    Class = "additive"    // adds what wasn't there
	Reversible  Class = "reversible"  // changes what was there; the old value is kept
	Removal     Class = "removal"     // takes away what came with a cluster; it comes again with a join
	Destructive Class = "destructive" // can't be taken back: making a filesystem
)

// Change is one effect, described. The set is sealed: only this package can
// add kinds.
type Change interface {
	// ID is stable between runs and unique within a plan: "file:/etc/fstab".
	ID() string
	// Summary is one line for people, free of secrets.
	Summary() string
	// Diff is a unified diff or other detail for people, free of secrets; may
	// be empty.
	Diff() string
	// Class says how the change may be taken back.
	Class() Class
	sealed()
}

// Kind is the name of a change's type: "WriteFile".
func Kind(c Change) string {
	s := fmt.Sprintf("%T", c)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return s[i+1:]
		}
	}
	return s
}

// Plan is what one step would do, or why it won't.
type Plan struct {
	Changes  []Change
	Warnings []string
	// Notes are worth knowing and neither a change nor a doubt.
	Notes []string
	// Blocked is why the step refuses; the others are still planned. Errors
	// with a hint come from package fail.
	Blocked []error
}

// Empty tells whether nothing is left to do and nothing is in the way.
func (p Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Blocked) == 0 }

// Encode returns the JSON object of a change: id, kind, class, summary and
// diff, and the kind's own fields beside them. Secret content is left out.
func Encode(c Change) (json.RawMessage, error) {
	own, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(struct {
		ID      string `json:"id"`
		Kind    string `json:"kind"`
		Class   Class  `json:"class"`
		Summary string `json:"summary"`
		Diff    string `json:"diff,omitempty"`
	}{c.ID(), Kind(c), c.Class(), c.Summary(), c.Diff()})
	if err != nil {
		return nil, err
	}
	if string(own) == "{}" {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), own[1:]...), nil
}
