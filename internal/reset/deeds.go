package reset

import (
	"encoding/json"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/run/journal"
)

// Deed is all that was done to one subject and not taken back since.
type Deed struct {
	Step    string
	IDs     []string // of its changes
	Records []Record // oldest first
	last    int      // line of the journal
}

// Record is one change that was begun, and what was there before it.
type Record struct {
	Change  change.Change
	Prior   Prior
	Unknown string // why the change can't be read
}

// Standing reads the deeds that stand, newest first.
func Standing(entries []journal.Entry) []Deed {
	of := map[string]*Deed{}
	for n, e := range entries {
		if e.Event == journal.Undone {
			for _, id := range e.IDs {
				delete(of, subject(id))
			}
		}
		if e.Event != journal.Intent || e.Reset {
			continue
		}
		var r Record
		var err error
		if r.Change, err = change.Decode(e.Change); err != nil {
			r.Unknown = err.Error()
		}
		if len(e.Prior) > 0 {
			if err := json.Unmarshal(e.Prior, &r.Prior); err != nil {
				r.Unknown = err.Error()
			}
		}
		d := of[subject(e.ID)]
		if d == nil {
			d = &Deed{Step: e.Step}
			of[subject(e.ID)] = d
		}
		if !slices.Contains(d.IDs, e.ID) {
			d.IDs = append(d.IDs, e.ID)
		}
		d.Records, d.last = append(d.Records, r), n
	}
	var out []Deed
	for _, d := range of {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b Deed) int { return b.last - a.last })
	return out
}

// subject is what changes of several kinds are about: writing and removing a
// file are about the file, making and dropping a link about the link.
func subject(id string) string {
	if path, ok := strings.CutPrefix(id, "remove:"); ok {
		return "file:" + path
	}
	if link, ok := strings.CutPrefix(id, "unlink:"); ok {
		return "link:" + link
	}
	return id
}

// first is the first of the deed's changes of one kind; with it comes what was
// there before any.
func first[C change.Change](d Deed) (c C, p Prior, ok bool) {
	for _, r := range d.Records {
		if c, ok = r.Change.(C); ok {
			return c, r.Prior, true
		}
	}
	return c, p, false
}

// last is the last of the deed's changes of one kind.
func last[C change.Change](d Deed) (c C, ok bool) {
	for _, r := range slices.Backward(d.Records) {
		if c, ok = r.Change.(C); ok {
			return c, true
		}
	}
	return c, false
}

// made are the directories that the deed made, deepest last.
func (d Deed) made() []string {
	var out []string
	for _, r := range d.Records {
		out = append(out, r.Prior.Missing...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
