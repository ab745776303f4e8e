package reset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config/sshkey"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/users/account"
)

// keyFacts is what is left of the keys that were added to a file.
type keyFacts struct {
	held  []string // lines that are there
	there bool     // the file is
	empty []string // directories made for it that hold nothing else now, deepest last
	odd   string   // why it can't be read
}

// account notes whether a user or group is still there.
func (o observer) account(database, name string) error {
	t, err := host.ReadText(o.v, database)
	o.f.accounts[database+":"+name] = strings.Contains("\n"+t.Content, "\n"+name+":")
	return err
}

// changed notes what is now of what was changed of a user.
func (o observer) changed(c change.ChangeUser) error {
	users, err := host.ReadText(o.v, "/etc/passwd")
	if err != nil {
		return err
	}
	groups, err := host.ReadText(o.v, "/etc/group")
	if err != nil {
		return err
	}
	if a, ok := account.Parse(users.Content, "")[c.Name]; ok {
		o.f.comments[c.Name] = a.Comment
	}
	maps.Copy(o.f.members, account.Groups(groups.Content))
	return nil
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

// authorized looks at a file of keys. What its owner has put in its place
// meanwhile stops no reset.
func (o observer) authorized(d Deed, c change.AuthorizeKeys) error {
	var k keyFacts
	for _, p := range []string{path.Dir(c.Path()), c.Path()} {
		info, err := o.v.Stat(p)
		if err != nil {
			return err
		}
		if info.Exists && (info.Link != "" || info.Dir != (p != c.Path())) {
			k.odd = p + " is a link, or no longer what it was"
		}
	}
	if k.odd == "" {
		b, err := o.v.ReadFile(c.Path())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.odd = err.Error()
		}
		k.there = err == nil
		k.held = sshkey.Held(string(b), added(d))
		if k.empty, err = emptied(o.v, d.made(), c.Path()); err != nil {
			return err
		}
	}
	o.f.keys[c.Path()] = k
	return nil
}

// keepAccount leaves a user or group that is still there, and tells it.
func (p *planner) keepAccount(database, name, format string, a ...any) verdict {
	if !p.f.accounts[database+":"+name] {
		return verdict{}
	}
	return kept("kept: "+format, a...)
}

// undoChange gives a user the comment back that it had, and takes it out of the
// groups that nodeagent has put it into.
func (p *planner) undoChange(d Deed, c change.ChangeUser) verdict {
	comment, there := p.f.comments[c.Name]
	if !there {
		return verdict{}
	}
	back := change.ChangeUser{Name: c.Name}
	var ours, before *string
	for _, r := range d.Records {
		was, ok := r.Change.(change.ChangeUser)
		if !ok {
			continue
		}
		for _, g := range was.Groups {
			if slices.Contains(p.f.members[g].Members, c.Name) && !slices.Contains(back.Leave, g) {
				back.Leave = append(back.Leave, g)
			}
		}
		if was.Comment == nil {
			continue
		}
		// A comment that somebody gave between two runs is what goes back.
		if ours == nil || *ours != was.Before && *before != was.Before {
			before = &was.Before
		}
		ours = was.Comment
	}
	var v verdict
	switch {
	case ours == nil || comment == *before:
	case comment == *ours:
		back.Comment, back.Before = before, comment
	default:
		v.left = append(v.left, fmt.Sprintf("the comment of user %s was changed since: left as it is", c.Name))
	}
	if len(back.Leave) > 0 || back.Comment != nil {
		v.add(1, back)
	}
	return v
}

// undoAuthorized takes the lines away that nodeagent added and that are still
// there. Those of others stay, and with them the file.
func (p *planner) undoAuthorized(d Deed, c change.AuthorizeKeys) verdict {
	_, prior, _ := first[change.AuthorizeKeys](d)
	k := p.f.keys[c.Path()]
	switch {
	case !p.f.accounts["/etc/passwd:"+c.User]:
		return verdict{} // the user is gone, and what is left of the home is nobody's to log in to
	case k.odd != "":
		return kept("the keys of %s are left as they are: %s", c.User, k.odd)
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
