package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/join/mint"
)

// Left is what a token of an earlier run has left to be taken away.
type Left struct {
	Exists     bool        `json:"exists,omitempty"`
	Record     mint.Record `json:"record,omitzero"`
	Problem    string      `json:"problem,omitempty"`    // why the record can't be read
	Over       bool        `json:"over,omitempty"`       // the token has ended by itself
	Kubeconfig bool        `json:"kubeconfig,omitempty"` // that may delete it is there
}

// ReadLeft looks at the record.
func ReadLeft(v host.View) (Left, error) {
	b, err := v.ReadFile(mint.RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return Left{}, nil
	}
	if err != nil {
		return Left{}, err
	}
	l := Left{Exists: true}
	if l.Record, err = mint.Decode(b); err != nil {
		l.Record, l.Problem = mint.Record{}, err.Error()
		return l, nil
	}
	s, err := v.System()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return l, err
	}
	l.Over = l.Record.TokenID != "" && !s.Now.Before(l.Record.Expires)
	if f := l.Record.Kubeconfig; f != "" {
		info, err := v.Stat(f)
		if err != nil {
			return l, err
		}
		l.Kubeconfig = info.Exists
	}
	return l, nil
}

// Changes take it away. A token in guestinfo is taken away only when it has
// done its work.
func (l Left) Changes(used bool) (changes []change.Change, warnings []string) {
	forget := func(why string) []change.Change {
		return []change.Change{change.RemoveFile{Path: mint.RecordPath, What: "forget a join token of an earlier run: " + why}}
	}
	r := l.Record
	switch {
	case !l.Exists:
		return nil, nil
	case l.Problem != "":
		return forget("its record can't be read"), []string{l.Problem}
	case r.GuestInfo != "" && used:
		return []change.Change{change.DropToken{GuestInfo: r.GuestInfo}}, nil
	case r.GuestInfo != "":
		return nil, nil
	case l.Over:
		return forget("it has ended"), nil
	case !l.Kubeconfig:
		return forget("nothing here can delete it"), []string{fmt.Sprintf("the join token with id %s, which an earlier run made with %s, can't be deleted, since that file is gone; it ends by itself at %s",
			r.TokenID, r.Kubeconfig, r.Expires.UTC().Format(time.RFC3339))}
	}
	return []change.Change{change.DropToken{Kubeconfig: r.Kubeconfig, TokenID: r.TokenID}}, nil
}
