package change

import (
	"fmt"
	"strings"
)

// AddGroup makes a group with groupadd(8), which chooses its number.
type AddGroup struct {
	Name string `json:"name"`
}

func (c AddGroup) ID() string      { return "group:" + c.Name }
func (c AddGroup) Summary() string { return "add group " + c.Name }
func (c AddGroup) Diff() string    { return "" }
func (c AddGroup) Class() Class    { return Additive }

// AddUser makes a user and a home directory with useradd(8), which chooses the
// number. No password opens the account.
type AddUser struct {
	Name    string   `json:"name"`
	Comment string   `json:"comment,omitempty"`
	Group   string   `json:"group"` // the primary one, by name
	Groups  []string `json:"groups,omitempty"`
	Home    string   `json:"home"`
	Shell   string   `json:"shell"`
}

func (c AddUser) ID() string { return "user:" + c.Name }
func (c AddUser) Summary() string {
	s := fmt.Sprintf("add user %s, group %s, home %s, shell %s", c.Name, c.Group, c.Home, c.Shell)
	if len(c.Groups) > 0 {
		s += ", also in " + strings.Join(c.Groups, ", ")
	}
	return s
}
func (c AddUser) Diff() string { return "" }
func (c AddUser) Class() Class { return Additive }

// ChangeUser puts an existing user into more groups, or gives it another
// comment, with usermod(8). A reset takes it out of them with gpasswd(1).
type ChangeUser struct {
	Name    string   `json:"name"`
	Groups  []string `json:"groups,omitempty"` // to be added; the others stay
	Comment *string  `json:"comment,omitempty"`
	Leave   []string `json:"leave,omitempty"`  // groups to be taken out of
	Before  string   `json:"before,omitempty"` // the comment as it was
}

func (c ChangeUser) ID() string { return "usermod:" + c.Name }
func (c ChangeUser) Summary() string {
	var what []string
	if len(c.Groups) > 0 {
		what = append(what, "put user "+c.Name+" into "+strings.Join(c.Groups, ", "))
	}
	if len(c.Leave) > 0 {
		what = append(what, "take user "+c.Name+" out of "+strings.Join(c.Leave, ", "))
	}
	if c.Comment != nil {
		what = append(what, fmt.Sprintf("set the comment of user %s to %q", c.Name, *c.Comment))
	}
	return strings.Join(what, "; ")
}
func (c ChangeUser) Diff() string { return "" }
func (c ChangeUser) Class() Class { return Reversible }

// SetPassword gives a user another password or lock: the hash through
// chpasswd(8)'s standard input, a lock alone with usermod(8).
type SetPassword struct {
	User string `json:"user"`
	Hash string `json:"-"`              // of crypt(5); a secret, so it is in no plan and no journal
	Sets bool   `json:"sets,omitempty"` // a hash is set
	Lock bool   `json:"lock"`           // as it is to be afterwards
}

func (c SetPassword) ID() string { return "password:" + c.User }
func (c SetPassword) Summary() string {
	switch {
	case c.Sets && c.Lock:
		return "set the password of user " + c.User + " and lock it"
	case c.Sets:
		return "set the password of user " + c.User
	case c.Lock:
		return "lock the password of user " + c.User
	}
	return "unlock the password of user " + c.User
}
func (c SetPassword) Diff() string {
	if c.Sets {
		return "(secret content)"
	}
	return ""
}
func (c SetPassword) Class() Class { return Reversible }

// AuthorizeKeys adds lines to a user's authorized_keys and makes file and
// directory the user's alone: 0600 and 0700. A home directory that is missing is
// made. Keys that are there already are left.
type AuthorizeKeys struct {
	User  string   `json:"user"`
	Group string   `json:"group"`
	Home  string   `json:"home"`
	Keys  []string `json:"keys,omitempty"`
}

// Path is the file that the keys go into.
func (c AuthorizeKeys) Path() string { return KeysPath(c.Home) }

// KeysPath is where sshd looks for the keys of a user with this home directory
// (sshd_config(5), AuthorizedKeysFile).
func KeysPath(home string) string { return strings.TrimSuffix(home, "/") + "/.ssh/authorized_keys" }

func (c AuthorizeKeys) ID() string { return "keys:" + c.Path() }
func (c AuthorizeKeys) Summary() string {
	if len(c.Keys) == 0 {
		return "make " + c.Path() + " user " + c.User + "'s alone"
	}
	return fmt.Sprintf("let %d SSH key(s) log in as %s", len(c.Keys), c.User)
}
func (c AuthorizeKeys) Diff() string {
	var b strings.Builder
	for _, k := range c.Keys {
		b.WriteString("+" + k + "\n")
	}
	return b.String()
}
func (c AuthorizeKeys) Class() Class { return Additive }

// RevokeKeys takes the lines of an AuthorizeKeys away again. A file that holds
// nothing then goes as well, if it was made for them.
type RevokeKeys struct {
	User  string   `json:"user"`
	Group string   `json:"group"`
	Home  string   `json:"home"`
	Keys  []string `json:"keys,omitempty"`
	Made  bool     `json:"made,omitempty"` // there was no file before
	Dirs  []string `json:"dirs,omitempty"` // made for it: removed when empty; deepest last
}

func (c RevokeKeys) ID() string { return "revoke:" + KeysPath(c.Home) }
func (c RevokeKeys) Summary() string {
	return fmt.Sprintf("take %d SSH key(s) out of %s", len(c.Keys), KeysPath(c.Home))
}
func (c RevokeKeys) Diff() string {
	var b strings.Builder
	for _, k := range c.Keys {
		b.WriteString("-" + k + "\n")
	}
	return b.String()
}
func (c RevokeKeys) Class() Class { return Reversible }
