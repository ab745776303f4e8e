// Package journal reads and writes the lines of the append-only record of what
// runs did. Observation is the truth; the journal is asked only where
// observation can't tell: an interrupted format or join, and reset.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"time"
)

// Path is the journal's place.
const Path = "/var/lib/nodeagent/journal.jsonl"

// Event is what happened to a change.
type Event string

// The events of a change. An intent is on disk before the change begins.
const (
	Intent Event = "intent"
	Done   Event = "done"
	Failed Event = "failed"
	// Undone ends a reset: the changes of the ids are taken back.
	Undone Event = "undone"
)

// Entry is one line.
type Entry struct {
	Time   time.Time       `json:"time"`
	Run    string          `json:"run"` // the same for all lines of one run
	Event  Event           `json:"event"`
	Step   string          `json:"step"`
	ID     string          `json:"id"`
	Change json.RawMessage `json:"change,omitempty"` // change.Encode, without secrets; with intents only
	Error  string          `json:"error,omitempty"`
	// Prior is what was there that the change itself doesn't tell (package reset);
	// with intents only.
	Prior json.RawMessage `json:"prior,omitempty"`
	Reset bool            `json:"reset,omitempty"` // the line is of a reset, not of an up
	IDs   []string        `json:"ids,omitempty"`   // with Undone
}

// Line is the entry as it is appended.
func (e Entry) Line() ([]byte, error) { return json.Marshal(e) }

// Parse returns the entries of a journal. Lines that a crash tore are skipped:
// what they would have said was never promised.
func Parse(b []byte) []Entry {
	var out []Entry
	for line := range bytes.Lines(b) {
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.ID != "" && e.Event != "" {
			out = append(out, e)
		}
	}
	return out
}

// Read returns the entries of a host's journal; none when there is no journal.
func Read(readFile func(path string) ([]byte, error)) ([]Entry, error) {
	b, err := readFile(Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return Parse(b), err
}

// Unfinished returns the last intent for id if nothing says that it was done.
// A failed change counts as unfinished: it may have been half made.
func Unfinished(entries []Entry, id string) (Entry, bool) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].ID != id {
			continue
		}
		switch entries[i].Event {
		case Done:
			return Entry{}, false
		case Intent:
			return entries[i], true
		}
	}
	return Entry{}, false
}
