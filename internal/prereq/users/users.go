// Package users makes the local users of the configuration, with the system's
// own programs. It observes and plans; it writes nothing.
package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/config/sshkey"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/users/account"
)

// Facts is what was observed; nothing when no user is asked for. No hash is in
// it, and nothing of what else a user has in a home directory.
type Facts struct {
	Users    map[string]User `json:"users,omitempty"`    // by name
	Groups   []string        `json:"groups,omitempty"`   // of those asked for, which exist
	Lacking  []string        `json:"lacking,omitempty"`  // programs
	Shells   []string        `json:"shells,omitempty"`   // of new users, which don't exist
	ReadOnly string          `json:"readOnly,omitempty"` // which filesystem keeps /etc/passwd from being written
	Sudo     bool            `json:"sudo,omitempty"`     // the program is there
	// Unread is set when something could not be read that only root may read.
	Unread bool `json:"unread,omitempty"`
}

// User is one user that is asked for.
type User struct {
	Exists  bool     `json:"exists"`
	UID     int      `json:"uid,omitempty"`
	Group   string   `json:"group,omitempty"`  // the primary one, by name, or its number when it has none
	Groups  []string `json:"groups,omitempty"` // of those asked for, the ones it is in
	Comment string   `json:"comment,omitempty"`
	Home    string   `json:"home"` // as it is, or as it is to be
	Shell   string   `json:"shell,omitempty"`
	// HashHeld tells that the hash asked for is set, locked or not; HasPassword
	// that there is any.
	HashHeld    bool      `json:"hashHeld,omitempty"`
	HasPassword bool      `json:"hasPassword,omitempty"`
	Locked      bool      `json:"locked,omitempty"`
	Keys        Keys      `json:"keys,omitzero"`
	Sudoers     host.Text `json:"sudoers,omitzero"` // its file below /etc/sudoers.d
}

// Keys is what sshd would see for a user of whom keys are asked for.
type Keys struct {
	Missing []string `json:"missing,omitempty"` // as they are to be added
	Problem string   `json:"problem,omitempty"` // why nothing can be written there
	// Unfit is what sshd would not take: others can write to it, or it isn't the
	// user's. It may be the home directory itself.
	Unfit    string `json:"unfit,omitempty"`
	ReadOnly string `json:"readOnly,omitempty"`
	NoHome   bool   `json:"noHome,omitempty"`   // nothing is where the home directory should be
	HalfMade bool   `json:"halfMade,omitempty"` // the home directory or its .ssh is root's and shut to the user
	Unread   bool   `json:"unread,omitempty"`   // only the user and root can look
}

const (
	shell   = "/bin/bash"
	sudoers = "/etc/sudoers.d/"
	root    = "root"
)

// homeOf and groupOf are a new user's.
func homeOf(u config.User) string {
	if u.Home != "" {
		return u.Home
	}
	return "/home/" + u.Name
}

func groupOf(u config.User) string {
	if u.PrimaryGroup != "" {
		return u.PrimaryGroup
	}
	return u.Name
}

func shellOf(u config.User) string {
	if u.Shell != "" {
		return u.Shell
	}
	return shell
}

// sudoersPath is where a user's rule stands. sudo skips files with a dot in their
// name (sudoers(5)), and no user's name has a plus.
func sudoersPath(name string) string {
	return sudoers + "nodeagent-" + strings.ReplaceAll(name, ".", "+")
}

// Observe reads the users' databases and what of the users is there.
func Observe(_ context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	if len(spec.Users) == 0 {
		return f, nil
	}
	text := map[string]string{}
	for _, database := range []string{"/etc/passwd", "/etc/group", "/etc/shadow"} {
		b, err := v.ReadFile(database)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrPermission) && database == "/etc/shadow":
			f.Unread = true
		case err != nil:
			return f, err
		}
		text[database] = string(b)
	}
	accounts, groups := account.Parse(text["/etc/passwd"], text["/etc/shadow"]), account.Groups(text["/etc/group"])
	var err error
	if f.ReadOnly, err = host.ReadOnlyAt(v, "/etc/passwd"); err != nil {
		return f, err
	}
	for _, program := range []string{"groupadd", "useradd", "usermod", "chpasswd"} {
		if _, err := v.LookPath(program); errors.Is(err, fs.ErrNotExist) {
			f.Lacking = append(f.Lacking, program)
		} else if err != nil {
			return f, err
		}
	}
	_, err = v.LookPath("sudo")
	f.Sudo = err == nil
	f.Users = map[string]User{}
	for _, want := range spec.Users {
		for _, g := range append([]string{groupOf(want)}, want.Groups...) {
			if _, ok := groups[g]; ok && !slices.Contains(f.Groups, g) {
				f.Groups = append(f.Groups, g)
			}
		}
		a, exists := accounts[want.Name]
		u := User{Exists: exists, Home: homeOf(want)}
		if exists {
			u.UID, u.Comment, u.Home, u.Shell = a.UID, a.Comment, a.Home, a.Shell
			u.Group = strconv.Itoa(a.GID)
			for name, g := range groups {
				if g.GID == a.GID && (u.Group == strconv.Itoa(a.GID) || name < u.Group) {
					u.Group = name
				}
			}
			for _, name := range want.Groups {
				if g, ok := groups[name]; ok && (g.GID == a.GID || slices.Contains(g.Members, want.Name)) {
					u.Groups = append(u.Groups, name)
				}
			}
			u.Locked, u.HasPassword = a.Locked(), a.Hash() != ""
			u.HashHeld = want.PasswordHash != "" && a.Hash() == want.PasswordHash
		} else if info, err := v.Stat(shellOf(want)); err != nil {
			return f, err
		} else if !info.Exists && !slices.Contains(f.Shells, shellOf(want)) {
			f.Shells = append(f.Shells, shellOf(want))
		}
		if u.Keys, err = observeKeys(v, want, u); err != nil {
			return f, err
		}
		f.Unread = f.Unread || u.Keys.Unread
		if want.Sudo != "" {
			u.Sudoers, err = host.ReadText(v, sudoersPath(want.Name))
			if errors.Is(err, fs.ErrPermission) {
				f.Unread = true
			} else if err != nil {
				return f, err
			}
		}
		f.Users[want.Name] = u
	}
	return f, nil
}

// observeKeys looks at what leads to a user's keys. Of the file only what lacks
// in it is kept: the user could have put a link to anything there meanwhile.
func observeKeys(v host.View, want config.User, u User) (k Keys, err error) {
	file := change.KeysPath(u.Home)
	k.Missing = sshkey.Missing("", want.SSHAuthorizedKeys)
	if !path.IsAbs(u.Home) { // Plan says so
		return k, nil
	}
	if k.ReadOnly, err = host.ReadOnlyAt(v, u.Home); err != nil {
		return k, err
	}
	for _, p := range []string{u.Home, path.Dir(file), file} {
		info, err := v.Stat(p)
		if errors.Is(err, fs.ErrPermission) {
			k.Unread = true
			return k, nil
		}
		if err != nil || !info.Exists {
			k.NoHome = p == u.Home && err == nil
			return k, err
		}
		owner, _, _ := strings.Cut(info.Owner, ":")
		_, notNumber := strconv.Atoi(owner)
		// A tree's owners are told by number, and so is a user's who was made by half.
		unknown := notNumber == nil && (!v.Live() || !u.Exists)
		switch {
		case info.Link != "" && p != u.Home:
			k.Problem = p + " is a link, and nothing is written through one that leads out of a home directory"
		case info.Dir != (p != file) && info.Link == "":
			k.Problem = p + " is not what it should be: a directory, or the file of the keys"
		case owner != want.Name && owner != root && !unknown:
			k.Problem = fmt.Sprintf("%s belongs to %s", p, owner)
		case owner != want.Name && !unknown && p == file && info.Mode&0o004 == 0: // the user could have moved any file of root's here
			k.Problem = p + " belongs to root and only root can read it"
		case owner != want.Name && !unknown && p != file && info.Mode&0o005 != 0o005:
			k.HalfMade = true
		case info.Mode&0o022 != 0, p != u.Home && owner != want.Name && !unknown: // sshd_config(5), StrictModes
			if k.Unfit == "" {
				k.Unfit = p
			}
		}
		if k.Problem != "" || p == u.Home && len(want.SSHAuthorizedKeys) == 0 {
			return k, nil
		}
	}
	b, err := v.ReadFile(file)
	if k.Unread = errors.Is(err, fs.ErrPermission); err != nil && !k.Unread {
		return k, err
	}
	k.Missing = sshkey.Missing(string(b), want.SSHAuthorizedKeys)
	return k, nil
}
