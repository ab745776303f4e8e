package reset

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config/sshkey"
	"nodeagent/internal/host"
)

// keyFacts is what is left of the keys that were added to a file.
type keyFacts struct {
	held  []string // lines that are there
	there bool     // the file is
	empty []string // directories made for it that hold nothing else now, deepest last
}

// account notes whether a user or group is still there.
func (o observer) account(database, name string) error {
	t, err := host.ReadText(o.v, database)
	o.f.accounts[database+":"+name] = strings.Contains("\n"+t.Content, "\n"+name+":")
	return err
}

// added are the lines that a deed has added.
func added(d Deed) (lines []string) {
	for _, r := range d.Records {
		if c, ok := r.Change.(change.AuthorizeKeys); ok {
			lines = append(lines, c.Keys...)
		}
	}
	return lines
}

func (o observer) authorized(d Deed, c change.AuthorizeKeys) error {
	b, err := o.v.ReadFile(c.Path())
	k := keyFacts{there: err == nil}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.held = sshkey.Held(string(b), added(d))
	k.empty, err = emptied(o.v, d.made(), c.Path())
	o.f.keys[c.Path()] = k
	return err
}

// keepAccount leaves a user or group that is still there, and tells it.
func (p *planner) keepAccount(database, name, format string, a ...any) verdict {
	if !p.f.accounts[database+":"+name] {
		return verdict{}
	}
	return kept("kept: "+format, a...)
}

// undoAuthorized takes the lines away that nodeagent added and that are still
// there. Those of others stay, and with them the file.
func (p *planner) undoAuthorized(d Deed, c change.AuthorizeKeys) verdict {
	_, prior, _ := first[change.AuthorizeKeys](d)
	k := p.f.keys[c.Path()]
	if !p.f.accounts["/etc/passwd:"+c.User] {
		return verdict{} // the user is gone, and what is left of the home is nobody's to log in to
	}
	var v verdict
	if len(k.held) > 0 || !k.there && len(k.empty) > 0 {
		dirs := k.empty
		if k.there && !prior.New {
			dirs = nil
		}
		v.add(1, change.RevokeKeys{User: c.User, Group: c.Group, Home: c.Home, Keys: k.held, Made: prior.New, Dirs: slices.Clone(dirs)})
	}
	return v
}
