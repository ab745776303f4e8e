package users

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
)

// Plan makes what is missing. Of a user that exists only what is asked for and
// differs is changed, and neither home nor shell nor primary group.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if len(spec.Users) == 0 {
		return p
	}
	groups := slices.Clone(f.Groups)
	for _, want := range spec.Users {
		u := f.Users[want.Name]
		if why := foreign(want, u); why != "" {
			p.Blocked = append(p.Blocked, fail.New(fail.Safety, "take a name of its own for a person; nodeagent changes no account of the system's", "spec.users: %s %s", want.Name, why))
			continue
		}
		if err := obstacle(want, u); err != nil {
			p.Blocked = append(p.Blocked, err)
			continue
		}
		entry(&p, want, u, &groups)
		password(&p, want, u, f.Unread)
		keys(&p, want, u)
		sudo(&p, want, u, f.Sudo)
		if !u.Exists && slices.Contains(f.Shells, shellOf(want)) {
			p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: the shell %s of %s isn't on this host: no login until it is", shellOf(want), want.Name))
		}
	}
	if f.Unread {
		p.Warnings = append(p.Warnings, "spec.users: only root can read /etc/shadow, /etc/sudoers.d and homes: what is there is planned as if it differed")
	}
	return blocked(p, f)
}

// foreign says why an account isn't one for people.
func foreign(want config.User, u User) string {
	switch {
	case want.Name == root && u.Exists && u.UID != 0:
		return fmt.Sprintf("is not the superuser on this host but user %d", u.UID)
	case want.Name == root && !u.Exists:
		return "is not in /etc/passwd"
	case want.Name == root || !u.Exists:
		return ""
	case u.UID == 0:
		return "is a second superuser (uid 0)"
	case u.UID < 1000 || u.UID == 65534:
		return fmt.Sprintf("is an account of the system's (uid %d)", u.UID)
	}
	return ""
}

// obstacle says what of the home directory is in the way.
func obstacle(want config.User, u User) error {
	switch k := u.Keys; {
	case k.ReadOnly != "" && (!u.Exists || len(k.Missing) > 0):
		return fail.New(fail.Step, "give a home on a filesystem that can be written, such as below /var or /home", "spec.users: the home %s of %s can't be written: %s", u.Home, want.Name, k.ReadOnly)
	case k.Problem != "" && (!u.Exists || len(want.SSHAuthorizedKeys) > 0):
		return fail.New(fail.Safety, "look at it (ls -ld), and move it away or give it to the user", "spec.users: %s: %s", want.Name, k.Problem)
	case len(k.Missing) > 0 && (!strings.HasPrefix(u.Home, "/") || u.Home == "/"):
		return fail.New(fail.Step, "give the user a home: usermod -d /home/"+want.Name+" -m "+want.Name, "spec.users: %s has no home of its own (%q), so keys have no place", want.Name, u.Home)
	}
	return nil
}

func entry(p *change.Plan, want config.User, u User, groups *[]string) {
	need := func(name string) {
		if !slices.Contains(*groups, name) {
			*groups = append(*groups, name)
			p.Changes = append(p.Changes, change.AddGroup{Name: name})
		}
	}
	for _, g := range want.Groups {
		need(g)
	}
	if !u.Exists {
		need(groupOf(want))
		p.Changes = append(p.Changes, change.AddUser{Name: want.Name, Comment: want.Comment, Group: groupOf(want), Groups: want.Groups, Home: homeOf(want), Shell: shellOf(want)})
		return
	}
	c := change.ChangeUser{Name: want.Name}
	for _, g := range want.Groups {
		if !slices.Contains(u.Groups, g) {
			c.Groups = append(c.Groups, g)
		}
	}
	if want.Comment != "" && want.Comment != u.Comment {
		c.Comment, c.Before = &want.Comment, u.Comment
	}
	if len(c.Groups) > 0 || c.Comment != nil {
		p.Changes = append(p.Changes, c)
	}
	for _, d := range []struct{ what, want, is, by string }{
		{"home", want.Home, u.Home, "usermod -m -d"},
		{"shell", want.Shell, u.Shell, "usermod -s"},
		{"primary group", want.PrimaryGroup, u.Group, "usermod -g"},
	} {
		if d.want != "" && d.want != d.is {
			p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: %s exists with the %s %s, and %s is asked for: left as it is (to change it: %s %s %s)", want.Name, d.what, d.is, d.want, d.by, d.want, want.Name))
		}
	}
}

// password sets what is asked for. What isn't asked for is left on a user that
// exists; a new one has no password.
func password(p *change.Plan, want config.User, u User, unread bool) {
	c := change.SetPassword{User: want.Name, Hash: want.PasswordHash, Sets: want.PasswordHash != "" && !u.HashHeld}
	switch {
	case want.LockPassword != nil:
		c.Lock = *want.LockPassword
	case want.PasswordHash == "", u.HashHeld: // somebody's lock of it stays
		return
	}
	switch {
	case want.PasswordHash == "" && !u.HasPassword && !unread:
		// Nothing is there to lock or unlock, but the empty password that login(1) takes.
		if !c.Lock && (u.Locked || !u.Exists) {
			p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: %s has no password, so lockPassword: false lets nobody in; passwordHash gives one", want.Name))
		}
		if !c.Lock || u.Locked || !u.Exists {
			return
		}
	case u.HashHeld && u.Locked == c.Lock, want.PasswordHash == "" && u.Locked == c.Lock && !unread:
		return
	}
	if c.Sets && u.Exists && !unread && u.HasPassword {
		p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: %s has another password than passwordHash: it is replaced", want.Name))
	}
	c.Sets = want.PasswordHash != "" // a whole field is right whatever marks stood in it
	p.Changes = append(p.Changes, c)
}

func keys(p *change.Plan, want config.User, u User) {
	k := u.Keys
	if len(want.SSHAuthorizedKeys) == 0 {
		if u.Exists && k.HalfMade {
			p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: the home %s of %s belongs to root and is shut to its user: chown it", u.Home, want.Name))
		}
		if u.Exists && k.NoHome {
			p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: %s exists, but its home %s doesn't: mkhomedir_helper %s makes it", want.Name, u.Home, want.Name))
		}
		return
	}
	group := u.Group
	if !u.Exists {
		group = groupOf(want)
	}
	mends := k.HalfMade || k.Unfit != "" && k.Unfit != u.Home
	if len(k.Missing) > 0 || mends {
		p.Changes = append(p.Changes, change.AuthorizeKeys{User: want.Name, Group: group, Home: u.Home, Keys: k.Missing})
	}
	if k.Unfit == u.Home && k.Unfit != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: others can write to %s, so sshd won't take the keys in it (StrictModes): chmod go-w %s", u.Home, u.Home))
	}
}

func sudo(p *change.Plan, want config.User, u User, there bool) {
	if want.Sudo == "" {
		return
	}
	content := "# Written by nodeagent from spec.users.\n" + want.Name + " " + strings.TrimSpace(want.Sudo) + "\n"
	if w, ok := u.Sudoers.Write(sudoersPath(want.Name), "0440", "root:root", content, "let "+want.Name+" use sudo: "+strings.TrimSpace(want.Sudo)); ok {
		w.Check = "visudo"
		p.Changes = append(p.Changes, w)
	}
	if !there {
		p.Warnings = append(p.Warnings, fmt.Sprintf("spec.users: sudo isn't on this host, so the rule of %s works once it is installed", want.Name))
	}
}

// blocked refuses the whole step when no user can be made at all.
func blocked(p change.Plan, f Facts) change.Plan {
	needs := map[string]string{"AddGroup": "groupadd", "AddUser": "useradd", "ChangeUser": "usermod", "SetPassword": "chpasswd"}
	for _, c := range p.Changes {
		program := needs[change.Kind(c)]
		switch {
		case program == "":
		case f.ReadOnly != "":
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "put the users into the image, or mount /etc writable", "spec.users: /etc/passwd can't be written: %s", f.ReadOnly))
			return p
		case slices.Contains(f.Lacking, program):
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "install shadow-utils (Photon and SUSE: shadow; Debian: passwd) into the image", "spec.users asks for users, and this host lacks the programs for it: %s", strings.Join(f.Lacking, ", ")))
			return p
		}
	}
	return p
}
