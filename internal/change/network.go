package change

import (
	"fmt"
	"strings"
)

// SetInterface writes an interface's configuration for the manager that
// has it, activates it and looks whether the network is there. If it isn't, or
// if nodeagent dies meanwhile, what was active before comes back.
type SetInterface struct {
	Interface string   `json:"interface"`
	Manager   string   `json:"manager"` // NetworkManager, systemd-networkd
	Path      string   `json:"path"`
	Mode      string   `json:"mode"`
	Content   string   `json:"content"`
	Before    *Saved   `json:"before,omitempty"` // nil when the file did not exist
	Addresses []string `json:"addresses"`
	Gateway   string   `json:"gateway,omitempty"`
	Endpoint  string   `json:"endpoint,omitempty"` // host:port that must be reached afterwards if it was before
	Why       []string `json:"why,omitempty"`      // what differs
}

func (c SetInterface) ID() string { return "interface:" + c.Interface }
func (c SetInterface) Summary() string {
	s := fmt.Sprintf("configure %s with %s: %s", c.Interface, c.Manager, strings.Join(c.Addresses, ", "))
	if c.Gateway != "" {
		s += " via " + c.Gateway
	}
	if len(c.Why) > 0 {
		s += " (" + strings.Join(c.Why, "; ") + ")"
	}
	return s
}
func (c SetInterface) Diff() string {
	before := ""
	if c.Before != nil {
		before = c.Before.Content
	}
	return unified(c.Path, before, c.Content, c.Before != nil)
}
func (c SetInterface) Class() Class { return Reversible }

// ResetInterface activates what configured an interface before and removes
// nodeagent's configuration of it, unless the default route would not come back.
type ResetInterface struct {
	Interface string   `json:"interface"`
	Manager   string   `json:"manager"`
	Path      string   `json:"path"`
	Profile   string   `json:"profile,omitempty"` // what was active before, for people
	UUID      string   `json:"uuid,omitempty"`    // of NetworkManager's connection that was
	Dirs      []string `json:"dirs,omitempty"`    // made for the file: removed when empty; deepest last
}

func (c ResetInterface) ID() string { return "restore-interface:" + c.Interface }
func (c ResetInterface) Summary() string {
	to := "what else " + c.Manager + " has for it"
	if c.Profile != "" {
		to = c.Profile
	}
	return fmt.Sprintf("give %s back to %s and remove %s; its addresses may change", c.Interface, to, c.Path)
}
func (c ResetInterface) Diff() string { return "" }
func (c ResetInterface) Class() Class { return Reversible }
