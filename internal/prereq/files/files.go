// Package files writes the files that the configuration holds.
package files

import (
	"context"
	"strconv"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Facts is each file as it is; of those that others may not read only whether
// they are right already.
type Facts struct {
	Files []File `json:"files,omitempty"`
}

// File is one file.
type File struct {
	Now   host.Text `json:"now"`
	Right bool      `json:"right"`
}

// secret files are those that only their owner and group may read: their
// content stays out of facts, plans and the journal.
func secret(f config.File) bool {
	mode, err := strconv.ParseUint(f.Permissions, 8, 12)
	return err == nil && mode&0o007 == 0
}

// Observe reads each file.
func Observe(_ context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	for _, want := range spec.Files {
		now, err := host.ReadText(v, want.Path)
		if err != nil {
			return f, err
		}
		_, differs := now.Write(want.Path, want.Permissions, want.Owner, want.Content, "")
		if secret(want) {
			now.Content = ""
		}
		f.Files = append(f.Files, File{now, !differs})
	}
	return f, nil
}

// Plan writes those that differ.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	for i, want := range spec.Files {
		if f.Files[i].Right {
			continue
		}
		c, ok := f.Files[i].Now.Write(want.Path, want.Permissions, want.Owner, want.Content, "")
		if !ok { // a secret whose content only Observe saw
			c = change.WriteFile{Path: want.Path, Mode: want.Permissions, Owner: want.Owner, Content: want.Content}
		}
		c.Secret = secret(want)
		p.Changes = append(p.Changes, c)
	}
	return p
}
