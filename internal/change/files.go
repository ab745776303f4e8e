package change

import (
	"encoding/json"
	"fmt"
)

// WriteFile replaces a whole file atomically, keeping a final symbolic link.
// Missing parent directories are made with mode 0755.
type WriteFile struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"`  // octal: "0644"
	Owner   string `json:"owner"` // user:group
	Content string `json:"content,omitempty"`
	Reload  string `json:"reload,omitempty"` // unit that reads the file again when told to; it isn't restarted
	Secret  bool   `json:"secret,omitempty"` // content stays out of plans, logs and journal
	Check   string `json:"check,omitempty"`  // program that must accept the content before it is written, when the host has it: visudo
	Before  *Saved `json:"before,omitempty"` // nil when the file did not exist
	What    string `json:"-"`                // summary; "write PATH" when empty
}

// Saved is a file as it was.
type Saved struct {
	Mode    string `json:"mode"`
	Owner   string `json:"owner"`
	Content string `json:"content"`
}

func (c WriteFile) ID() string { return "file:" + c.Path }
func (c WriteFile) Summary() string {
	if c.What != "" {
		return c.What
	}
	return "write " + c.Path
}
func (c WriteFile) Diff() string {
	if c.Secret {
		return "(secret content)"
	}
	before := ""
	if c.Before != nil {
		before = c.Before.Content
	}
	d := unified(c.Path, before, c.Content, c.Before != nil)
	if c.Before != nil && (c.Before.Mode != c.Mode || c.Before.Owner != c.Owner) {
		d = fmt.Sprintf("mode %s → %s, owner %s → %s\n", c.Before.Mode, c.Mode, c.Before.Owner, c.Owner) + d
	}
	return d
}
func (c WriteFile) Class() Class {
	if c.Before == nil {
		return Additive
	}
	return Reversible
}

// MarshalJSON leaves secret content out.
func (c WriteFile) MarshalJSON() ([]byte, error) {
	type plain WriteFile
	p := plain(c)
	if c.Secret {
		p.Content, p.Before = "", nil
	}
	return json.Marshal(p)
}

// RemoveFile removes one file; a missing one is fine.
type RemoveFile struct {
	Path   string `json:"path"`
	Reload string `json:"reload,omitempty"` // unit that reads its files again when told to
	// Dirs were made for the file: they are removed, too, when they are empty.
	Dirs   []string `json:"dirs,omitempty"`  // deepest last
	Shred  bool     `json:"shred,omitempty"` // its content is overwritten first; Before stays nil
	Before *Saved   `json:"before,omitempty"`
	What   string   `json:"-"`
}

func (c RemoveFile) ID() string { return "remove:" + c.Path }
func (c RemoveFile) Summary() string {
	if c.What != "" {
		return c.What
	}
	return "remove " + c.Path
}
func (c RemoveFile) Diff() string {
	if c.Before == nil {
		return ""
	}
	return unified(c.Path, c.Before.Content, "", true)
}
func (c RemoveFile) Class() Class { return Reversible }
