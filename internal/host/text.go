package host

import (
	"errors"
	"io/fs"

	"nodeagent/internal/change"
)

// Text is a small text file as observed. It goes into facts.
type Text struct {
	Exists  bool   `json:"exists"`
	Mode    string `json:"mode,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Link    string `json:"link,omitempty"`
	Content string `json:"content,omitempty"`
}

// ReadText observes a file; a missing one is not an error. A link is followed
// for content, mode and owner.
func ReadText(v View, path string) (Text, error) {
	info, err := v.Stat(path)
	if err != nil || !info.Exists {
		return Text{}, err
	}
	b, err := v.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // a dangling link
		return Text{Link: info.Link}, nil
	}
	if err != nil {
		return Text{}, err
	}
	return Text{Exists: true, Mode: Octal(info.Mode), Owner: info.Owner, Link: info.Link, Content: string(b)}, nil
}

// Write plans the file to be exactly this; ok is false when it is already.
// what is the summary, or "" for "write PATH".
func (t Text) Write(path, mode, owner, content, what string) (c change.WriteFile, ok bool) {
	if t.Exists && t.Content == content && t.Mode == mode && t.Owner == owner {
		return change.WriteFile{}, false
	}
	c = change.WriteFile{Path: path, Mode: mode, Owner: owner, Content: content, What: what}
	if t.Exists {
		c.Before = &change.Saved{Mode: t.Mode, Owner: t.Owner, Content: t.Content}
	}
	return c, true
}

// Keep plans new content with the file's own mode and owner.
func (t Text) Keep(path, content, what string) (c change.WriteFile, ok bool) {
	mode, owner := t.Mode, t.Owner
	if !t.Exists {
		mode, owner = "0644", "root:root"
	}
	return t.Write(path, mode, owner, content, what)
}
