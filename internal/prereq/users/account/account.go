// Package account reads the databases of local users and groups: passwd(5),
// shadow(5) and group(5).
package account

import (
	"strconv"
	"strings"
)

// Account is one line of passwd(5) with its line of shadow(5).
type Account struct {
	Name    string
	UID     int
	GID     int
	Comment string
	Home    string
	Shell   string
	// field is shadow's password field. It goes into no facts.
	field string
}

// Group is one line of group(5).
type Group struct {
	GID     int
	Members []string
}

// fields splits a database of colons into lines of n fields or more; lines that
// are no entries, as NIS' additions, are left out. Of two lines with one name the
// first counts, as it does for getpwnam(3).
func fields(text string, n int, each func(f []string)) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(f) < n || f[0] == "" || strings.ContainsAny(f[0][:1], "+-#") || seen[f[0]] {
			continue
		}
		seen[f[0]] = true
		each(f)
	}
}

// Parse reads passwd and shadow, by name. Without its line of shadow an account
// has passwd's own password field.
func Parse(passwd, shadow string) map[string]Account {
	secret := map[string]string{}
	fields(shadow, 2, func(f []string) { secret[f[0]] = f[1] })
	out := map[string]Account{}
	fields(passwd, 7, func(f []string) {
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return
		}
		a := Account{Name: f[0], UID: int(uid), GID: int(gid), Comment: f[4], Home: f[5], Shell: f[6], field: f[1]}
		if s, ok := secret[f[0]]; ok {
			a.field = s
		}
		out[f[0]] = a
	})
	return out
}

// Groups reads group, by name.
func Groups(text string) map[string]Group {
	out := map[string]Group{}
	fields(text, 4, func(f []string) {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			return
		}
		out[f[0]] = Group{int(gid), strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })}
	})
	return out
}

// Locked tells whether the password field has passwd(1)'s mark, or is one that no
// password matches (crypt(5)).
func (a Account) Locked() bool {
	return strings.HasPrefix(a.field, "!") || strings.HasPrefix(a.field, "*") || a.field == "x"
}

// Hash is the password field without passwd(1)'s mark: empty when there is no
// hash. It is a secret.
func (a Account) Hash() string {
	p := strings.TrimLeft(a.field, "!")
	if strings.HasPrefix(p, "*") || p == "x" {
		return ""
	}
	return p
}
