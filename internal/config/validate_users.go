package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"nodeagent/internal/config/sshkey"
)

var (
	// userName is what shadow-utils of all distributions take, with the dot that
	// some refuse.
	userName = regexp.MustCompile(`^[a-z_]([a-z0-9_.-]{0,30}[a-z0-9_-])?$`)
	// cryptHash is a hash of crypt(5) with a prefix, which is all that today's
	// systems make.
	cryptHash = regexp.MustCompile(`^\$[0-9a-z]+\$[./A-Za-z0-9$=,_+-]+$`)
)

// users checks the local users. A hash is never quoted.
func (k *checker) users(s *Spec) {
	seen := map[string]bool{}
	for i, u := range s.Users {
		at := fmt.Sprintf("spec.users[%d]", i)
		const names = "32 lower-case letters, digits, dashes, dots and underscores at most, and a letter first"
		switch {
		case !userName.MatchString(u.Name):
			k.bad(at+".name", names, "%q can't be a user's name", u.Name)
		case seen[u.Name]:
			k.bad(at+".name", "put all of it into one entry", "the user %s is given twice", u.Name)
		}
		seen[u.Name] = true
		for j, g := range u.Groups {
			if !userName.MatchString(g) {
				k.bad(fmt.Sprintf("%s.groups[%d]", at, j), names, "%q can't be a group's name", g)
			}
		}
		if g := u.PrimaryGroup; g != "" && !userName.MatchString(g) {
			k.bad(at+".primaryGroup", names, "%q can't be a group's name", g)
		}
		if strings.ContainsFunc(u.Comment, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
			k.bad(at+".comment", "leave them away", "a colon or a control character can't go into /etc/passwd")
		}
		home := u.Home
		if home == "" && u.Name != "root" {
			home = "/home/" + u.Name
		}
		k.userPath(s, at+".home", home)
		k.userPath(s, at+".shell", u.Shell)
		if u.Home == "/" {
			k.bad(at+".home", "such as /home/"+u.Name, "/ is nobody's home")
		}
		if u.PasswordHash != "" && !cryptHash.MatchString(u.PasswordHash) {
			k.bad(at+".passwordHash", "make it with: openssl passwd -6", "is no hash of crypt(5), which begins with $6$ or another such prefix; a password itself doesn't belong here")
		}
		for j, line := range u.SSHAuthorizedKeys {
			if _, err := sshkey.Parse(line); err != nil {
				k.bad(fmt.Sprintf("%s.sshAuthorizedKeys[%d]", at, j), "one line of a .pub file", "%v", err)
			}
		}
		k.sudo(at+".sudo", u.Sudo)
		if u.Name == "root" && (u.Sudo != "" || u.Comment != "" || len(u.Groups) > 0 || u.PrimaryGroup != "" || u.Home != "" || u.Shell != "") {
			k.bad(at, "keep sshAuthorizedKeys, passwordHash and lockPassword", "root's account is the system's: it can only get keys and a password")
		}
	}
}

func (k *checker) userPath(s *Spec, at, p string) {
	switch {
	case p == "":
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsFunc(p, func(r rune) bool { return r == ':' || r <= ' ' || r == 0x7f }):
		k.bad(at, "an absolute path without colons and blanks", "%q can't stand in /etc/passwd", p)
	case s.OnDataDisk(p):
		k.bad(at, "choose another place, such as below /home or /var/home", "%s is on a data disk, which is mounted after the users are made", p)
	}
	for _, m := range s.Mounts {
		if p != "" && m.Where != "" && within(m.Where, p) {
			k.bad(at, "choose another place, such as below /home or /var/home", "%s is on the mount of %s, which is mounted after the users are made", p, m.Where)
		}
	}
}

// sudo checks a rule's form; whether it is one, visudo says on the host.
func (k *checker) sudo(at, rule string) {
	const hint = "such as ALL=(ALL) NOPASSWD:ALL; sudoers(5) has the grammar"
	switch trimmed := strings.TrimSpace(rule); {
	case rule == "":
	case strings.ContainsFunc(rule, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		k.bad(at, hint, "a rule is one line, without control characters")
	case !strings.Contains(trimmed, "=") || strings.HasSuffix(trimmed, `\`):
		k.bad(at, hint, "%q is no rule of sudoers", rule)
	}
}
