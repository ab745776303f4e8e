package hosttest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config/sshkey"
)

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
	shadowFile = "/etc/shadow"
)

// peopled gives a host its users and groups and the programs that change them.
func (w *World) peopled(programs ...string) *World {
	for _, p := range append([]string{"groupadd", "useradd", "usermod", "chpasswd"}, programs...) {
		w.Files["/usr/sbin/"+p] = File{Mode: "0755"}
	}
	w.Files["/bin/bash"] = File{Mode: "0755"}
	w.Files[passwdFile] = File{Content: "root:x:0:0:root:/root:/bin/bash\ndaemon:x:2:2:daemon:/sbin:/sbin/nologin\n"}
	w.Files[groupFile] = File{Content: "root:x:0:\ndaemon:x:2:\nwheel:x:10:\n"}
	w.Files[shadowFile] = File{Content: "root:!!:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n", Mode: "0000"}
	w.Files["/root"] = File{Dir: true, Mode: "0700"}
	return w
}

// printAccounts prints the databases entry by entry, and each member of a group
// by itself.
func (w *World) printAccounts(line func(string, ...any)) {
	for entry := range strings.Lines(w.Files[passwdFile].Content) {
		line("user %s", strings.TrimSpace(entry))
	}
	for entry := range strings.Lines(w.Files[shadowFile].Content) {
		line("password %s", strings.TrimSpace(entry))
	}
	for entry := range strings.Lines(w.Files[groupFile].Content) {
		i := strings.LastIndexByte(entry, ':')
		line("group %s", entry[:max(i, 0)])
		for m := range strings.SplitSeq(strings.TrimSpace(entry[i+1:]), ",") {
			if m != "" {
				line("member %s of %s", m, entry[:strings.IndexByte(entry, ':')])
			}
		}
	}
}

// edit replaces a file's content and nothing else of it.
func (w *World) edit(p, content string) {
	f := w.Files[p]
	f.Content, f.Modified = content, w.now()
	w.Files[p] = f
}

// entry finds a name in a database.
func (w *World) entry(file, name string) []string {
	for line := range strings.Lines(w.Files[file].Content) {
		if f := strings.Split(strings.TrimSpace(line), ":"); f[0] == name {
			return f
		}
	}
	return nil
}

// set writes an entry, in its place or at the end.
func (w *World) set(file string, f []string) {
	lines := strings.Split(strings.TrimSuffix(w.Files[file].Content, "\n"), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, f[0]+":") })
	if i < 0 {
		i, lines = len(lines), append(lines, "")
	}
	lines[i] = strings.Join(f, ":")
	w.edit(file, strings.Join(lines, "\n")+"\n")
}

// nextID is the first number from 1000 on that is free.
func (w *World) nextID(file string) string {
	n := 1000
	for line := range strings.Lines(w.Files[file].Content) {
		if f := strings.Split(line, ":"); len(f) > 2 {
			if id, err := strconv.Atoi(f[2]); err == nil && id >= n && id < 60000 {
				n = id + 1
			}
		}
	}
	return strconv.Itoa(n)
}

func (w *World) addToGroups(name string, groups []string) error {
	for _, g := range groups {
		f := w.entry(groupFile, g)
		if f == nil {
			return fmt.Errorf("usermod: group '%s' does not exist", g)
		}
		members := strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })
		if !slices.Contains(members, name) {
			f[3] = strings.Join(append(members, name), ",")
			w.set(groupFile, f)
		}
	}
	return nil
}

func (w *World) applyAccount(c change.Change) error {
	if err := w.writable(passwdFile); err != nil {
		return err
	}
	switch c := c.(type) {
	case change.AddGroup:
		if w.entry(groupFile, c.Name) != nil {
			return fmt.Errorf("groupadd: group '%s' already exists", c.Name)
		}
		w.set(groupFile, []string{c.Name, "x", w.nextID(groupFile), ""})
	case change.AddUser:
		if w.entry(passwdFile, c.Name) != nil {
			return fmt.Errorf("useradd: user '%s' already exists", c.Name)
		}
		g := w.entry(groupFile, c.Group)
		if g == nil {
			return fmt.Errorf("useradd: group '%s' does not exist", c.Group)
		}
		if err := w.writable(c.Home); err != nil {
			return err
		}
		if _, ok := w.Files[c.Home]; !ok {
			w.Files[c.Home] = File{Dir: true, Mode: "0700", Owner: c.Name + ":" + c.Group}
		}
		w.set(passwdFile, []string{c.Name, "x", w.nextID(passwdFile), g[2], c.Comment, c.Home, c.Shell})
		w.set(shadowFile, []string{c.Name, "*", "19700", "0", "99999", "7", "", "", ""})
		return w.addToGroups(c.Name, c.Groups)
	case change.ChangeUser:
		u := w.entry(passwdFile, c.Name)
		if u == nil {
			return fmt.Errorf("usermod: user '%s' does not exist", c.Name)
		}
		if c.Comment != nil {
			u[4] = *c.Comment
			w.set(passwdFile, u)
		}
		for _, g := range c.Leave {
			f := w.entry(groupFile, g)
			if f == nil || !slices.Contains(strings.Split(f[3], ","), c.Name) {
				return fmt.Errorf("gpasswd: user '%s' is not a member of '%s'", c.Name, g)
			}
			f[3] = strings.Join(slices.DeleteFunc(strings.Split(f[3], ","), func(m string) bool { return m == c.Name }), ",")
			w.set(groupFile, f)
		}
		return w.addToGroups(c.Name, c.Groups)
	case change.SetPassword:
		s := w.entry(shadowFile, c.User)
		switch {
		case s == nil:
			return fmt.Errorf("user '%s' does not exist", c.User)
		case c.Sets && c.Hash == "":
			return fmt.Errorf("the hash of %s was lost on its way", c.User)
		case c.Sets:
			s[1] = c.Hash
		case !c.Lock && strings.Trim(s[1], "!") == "":
			return fmt.Errorf("usermod: unlocking the user's password would result in a passwordless account")
		}
		s[1] = strings.TrimLeft(s[1], "!")
		if c.Lock {
			s[1] = "!" + s[1]
		}
		w.set(shadowFile, s)
	}
	return nil
}

func (w *World) authorizeKeys(c change.AuthorizeKeys) error {
	if err := w.writable(c.Home); err != nil {
		return err
	}
	if w.entry(passwdFile, c.User) == nil {
		return fmt.Errorf("unknown user %s", c.User)
	}
	owner, dir := c.User+":"+c.Group, path.Dir(c.Path())
	for _, p := range []string{c.Home, dir} {
		f, ok := w.Files[p]
		if !ok || p == dir || or(f.Owner, "root:root") == "root:root" && f.Mode == "0700" {
			w.Files[p] = File{Dir: true, Mode: "0700", Owner: owner}
		}
	}
	w.Files[c.Path()] = File{Content: sshkey.Add(w.Files[c.Path()].Content, c.Keys), Mode: "0600", Owner: owner, Modified: w.now()}
	return nil
}

func (w *World) revokeKeys(c change.RevokeKeys) {
	p := change.KeysPath(c.Home)
	f, ok := w.Files[p]
	f.Content = sshkey.Without(f.Content, c.Keys)
	if ok && !(c.Made && f.Content == "") {
		w.Files[p] = f
		return
	}
	delete(w.Files, p)
	for _, d := range c.Dirs {
		if w.Files[d].Dir {
			delete(w.Files, d)
		}
	}
}
