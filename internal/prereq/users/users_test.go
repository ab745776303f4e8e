package users

import (
	"context"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

const (
	oneKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f one"
	otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg other"
	hash     = "$6$salt$theSecret"
	all      = "ALL=(ALL) NOPASSWD:ALL"
	keysFile = "/home/ops/.ssh/authorized_keys"
)

func observe(t *testing.T, v host.View, list ...config.User) (config.Spec, Facts) {
	t.Helper()
	s := config.Default().Spec
	s.Users = list
	f, err := Observe(context.Background(), v, s)
	require.NoError(t, err)
	return s, f
}

func plan(t *testing.T, v host.View, list ...config.User) change.Plan {
	t.Helper()
	return Plan(observe(t, v, list...))
}

// settle carries the plan out, and wants an empty one afterwards.
func settle(t *testing.T, w *hosttest.World, list ...config.User) []change.Change {
	t.Helper()
	p := plan(t, w, list...)
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil), c.Summary())
	}
	require.Empty(t, plan(t, w, list...).Changes)
	return p.Changes
}

// inhabited is a host with a user ops, who has this password field.
func inhabited(field string) *hosttest.World {
	w := hosttest.Rocky9()
	line := func(path, s string) {
		f := w.Files[path]
		f.Content += s + "\n"
		w.Files[path] = f
	}
	line("/etc/passwd", "ops:x:1000:1000:Image:/home/ops:/bin/sh")
	line("/etc/group", "ops:x:1000:")
	line("/etc/shadow", "ops:"+field+":19700:0:99999:7:::")
	w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
	return w
}

func ref[T any](v T) *T { return &v }

func TestNothingIsDoneOrLookedAtWithoutUsers(t *testing.T) {
	s, f := observe(t, hosttest.Rocky9())
	require.Empty(t, f)
	require.Empty(t, Plan(s, f))
}

func TestANewUserGetsItsGroupsPasswordKeysAndRule(t *testing.T) {
	ops := config.User{Name: "ops", Comment: "Operators", Groups: []string{"wheel", "operators"}, SSHAuthorizedKeys: []string{oneKey, otherKey}, Sudo: all, PasswordHash: hash}
	require.Equal(t, []change.Change{
		change.AddGroup{Name: "operators"}, // wheel is there
		change.AddGroup{Name: "ops"},
		change.AddUser{Name: "ops", Comment: "Operators", Group: "ops", Groups: []string{"wheel", "operators"}, Home: "/home/ops", Shell: "/bin/bash"},
		change.SetPassword{User: "ops", Hash: hash, Sets: true},
		change.AuthorizeKeys{User: "ops", Group: "ops", Home: "/home/ops", Keys: []string{oneKey, otherKey}},
		change.WriteFile{Path: "/etc/sudoers.d/nodeagent-ops", Mode: "0440", Owner: "root:root", Content: "# Written by nodeagent from spec.users.\nops " + all + "\n", Check: "visudo", What: "let ops use sudo: " + all},
	}, settle(t, hosttest.Rocky9(), ops))

	app := config.User{Name: "app.one", PrimaryGroup: "wheel", Home: "/var/app", Shell: "/sbin/nologin", Sudo: all, LockPassword: ref(true)}
	w := hosttest.Rocky9()
	changes := settle(t, w, app)
	require.Equal(t, change.AddUser{Name: "app.one", Group: "wheel", Home: "/var/app", Shell: "/sbin/nologin"}, changes[0])
	require.Len(t, changes, 2, "it has no password to lock")
	require.Contains(t, w.Files, "/etc/sudoers.d/nodeagent-app+one", "sudo reads no file with a dot")
}

func TestTwoUsersShareAGroupThatIsMadeOnce(t *testing.T) {
	p := plan(t, hosttest.Rocky9(), config.User{Name: "a", Groups: []string{"b", "both"}}, config.User{Name: "b", Groups: []string{"both", "a"}})
	made := []string{}
	for _, c := range p.Changes {
		made = append(made, c.ID())
	}
	require.Equal(t, []string{"group:b", "group:both", "group:a", "user:a", "user:b"}, made)
}

func TestARunThatWasKilledAfterAnyChangeIsFinished(t *testing.T) {
	list := []config.User{
		{Name: "ops", Groups: []string{"operators"}, SSHAuthorizedKeys: []string{oneKey}, Sudo: all, PasswordHash: hash, LockPassword: ref(true)},
		{Name: "root", SSHAuthorizedKeys: []string{otherKey}},
	}
	whole := hosttest.Rocky9()
	n := len(settle(t, whole, list...))
	for i := range n {
		w := hosttest.Rocky9()
		for _, c := range plan(t, w, list...).Changes[:i] {
			require.NoError(t, w.Apply(context.Background(), c, nil))
		}
		settle(t, w, list...)
		for _, p := range []string{"/etc/passwd", "/etc/group", "/etc/shadow", keysFile, "/root/.ssh/authorized_keys"} {
			require.Equal(t, whole.Files[p].Content, w.Files[p].Content, "%d: %s", i, p)
		}
	}
}

func TestAnExistingUserKeepsWhatIsNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		user  config.User
		want  []change.Change
		warns []string
	}{
		"nothing": {config.User{Name: "ops"}, nil, nil},
		"the same": {config.User{Name: "ops", Comment: "Image", Home: "/home/ops", Shell: "/bin/sh", PrimaryGroup: "ops", Groups: []string{"ops"}, PasswordHash: hash},
			nil, nil},
		"comment and groups": {config.User{Name: "ops", Comment: "Operators", Groups: []string{"ops", "wheel", "new"}},
			[]change.Change{change.AddGroup{Name: "new"}, change.ChangeUser{Name: "ops", Groups: []string{"wheel", "new"}, Comment: ref("Operators"), Before: "Image"}}, nil},
		"home, shell, group": {config.User{Name: "ops", Home: "/var/ops", Shell: "/bin/zsh", PrimaryGroup: "wheel"}, nil, []string{
			"ops exists with the home /home/ops, and /var/ops is asked for: left as it is (to change it: usermod -m -d /var/ops ops)",
			"ops exists with the shell /bin/sh, and /bin/zsh is asked for: left as it is (to change it: usermod -s /bin/zsh ops)",
			"ops exists with the primary group ops, and wheel is asked for: left as it is (to change it: usermod -g wheel ops)"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := inhabited(hash)
			warnings := plan(t, w, c.user).Warnings
			require.Len(t, warnings, len(c.warns))
			for i, want := range c.warns {
				require.Contains(t, warnings[i], want)
			}
			require.Equal(t, c.want, settle(t, w, c.user))
		})
	}
}

func TestAPasswordIsSetLockedAndUnlockedOnlyWhenItIsAskedFor(t *testing.T) {
	sets := func(lock bool) *change.SetPassword {
		return &change.SetPassword{User: "ops", Hash: hash, Sets: true, Lock: lock}
	}
	lock := func(to bool) *change.SetPassword { return &change.SetPassword{User: "ops", Lock: to} }
	const other = "$6$salt$anotherSecret"
	for _, c := range []struct {
		field string
		hash  string
		lock  *bool
		want  *change.SetPassword
		after string
	}{
		{other, "", nil, nil, other},
		{"!" + other, "", nil, nil, "!" + other},
		{"", "", nil, nil, ""},
		{other, "", ref(true), lock(true), "!" + other},
		{"!" + other, "", ref(true), nil, "!" + other},
		{"!" + other, "", ref(false), lock(false), other},
		{other, "", ref(false), nil, other},
		{"!!", "", ref(false), nil, "!!"}, // there is nothing to unlock; a warning
		{"*", "", ref(true), nil, "*"},
		{"", "", ref(true), lock(true), "!"},
		{other, hash, nil, sets(false), hash},
		{"!!", hash, nil, sets(false), hash},
		{hash, hash, nil, nil, hash},
		{"!" + hash, hash, nil, nil, "!" + hash}, // somebody's lock stays
		{"!" + hash, hash, ref(false), sets(false), hash},
		{hash, hash, ref(true), sets(true), "!" + hash},
		{"!" + hash, hash, ref(true), nil, "!" + hash},
		{other, hash, ref(true), sets(true), "!" + hash},
	} {
		name := c.field + " " + c.hash
		w := inhabited(c.field)
		changes := settle(t, w, config.User{Name: "ops", PasswordHash: c.hash, LockPassword: c.lock})
		if c.want == nil {
			require.Empty(t, changes, name)
		} else {
			require.Equal(t, []change.Change{*c.want}, changes, name)
		}
		require.Contains(t, w.Files["/etc/shadow"].Content, "\nops:"+c.after+":", name)
	}
	require.Contains(t, strings.Join(plan(t, inhabited("!!"), config.User{Name: "ops", LockPassword: ref(false)}).Warnings, ""), "ops has no password, so lockPassword: false lets nobody in")
	require.Contains(t, strings.Join(plan(t, inhabited(other), config.User{Name: "ops", PasswordHash: hash}).Warnings, ""), "ops has another password than passwordHash: it is replaced")
}

func TestNoHashIsInFactsOrPlan(t *testing.T) {
	w := inhabited("$6$salt$oldSecret")
	s, f := observe(t, w, config.User{Name: "ops", PasswordHash: hash}, config.User{Name: "new", PasswordHash: hash})
	b, err := json.Marshal(f)
	require.NoError(t, err)
	p := Plan(s, f)
	said := string(b) + strings.Join(p.Warnings, "\n")
	for _, c := range p.Changes {
		raw, err := change.Encode(c)
		require.NoError(t, err)
		said += string(raw) + c.Summary() + c.Diff() + c.ID()
	}
	require.Contains(t, said, "set the password of user ops")
	require.NotContains(t, said, "Secret")
	require.NotContains(t, said, "salt")
}

func TestAccountsOfTheSystemAreNotChanged(t *testing.T) {
	for entry, want := range map[string]string{
		"ops:x:999:999::/:/bin/sh":     "ops is an account of the system's (uid 999)",
		"ops:x:0:0::/root:/bin/sh":     "ops is a second superuser (uid 0)",
		"ops:x:65534:65534::/:/bin/sh": "ops is an account of the system's (uid 65534)",
	} {
		w := hosttest.Rocky9()
		w.Files["/etc/passwd"] = hosttest.File{Content: w.Files["/etc/passwd"].Content + entry + "\n"}
		p := plan(t, w, config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey}})
		require.Empty(t, p.Changes)
		require.Len(t, p.Blocked, 1)
		require.Equal(t, fail.Safety, fail.KindOf(p.Blocked[0]))
		require.ErrorContains(t, p.Blocked[0], want)
	}
	w := hosttest.Rocky9()
	require.Equal(t, []change.Change{
		change.SetPassword{User: "root", Hash: hash, Sets: true},
		change.AuthorizeKeys{User: "root", Group: "root", Home: "/root", Keys: []string{oneKey}},
	}, settle(t, w, config.User{Name: "root", SSHAuthorizedKeys: []string{oneKey}, PasswordHash: hash}), "root may get a key and a password")
	w.Files["/etc/passwd"] = hosttest.File{Content: "toor:x:0:0::/root:/bin/sh\nroot:x:1000:0::/root:/bin/sh\n"}
	require.ErrorContains(t, plan(t, w, config.User{Name: "root"}).Blocked[0], "root is not the superuser on this host but user 1000")
	w.Files["/etc/passwd"] = hosttest.File{}
	require.ErrorContains(t, plan(t, w, config.User{Name: "root"}).Blocked[0], "root is not in /etc/passwd")
}

func TestKeysThatLackAreAddedAndUnfitModesMended(t *testing.T) {
	user := config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey, otherKey}}
	authorize := func(keys ...string) []change.Change {
		return []change.Change{change.AuthorizeKeys{User: "ops", Group: "ops", Home: "/home/ops", Keys: keys}}
	}
	both := "# theirs\n" + otherKey + " of somebody\n" + oneKey
	dir := hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
	file := hosttest.File{Content: both, Mode: "0600", Owner: "ops:ops"}
	with := func(f hosttest.File, mode, owner string) hosttest.File {
		f.Mode, f.Owner = mode, owner
		return f
	}
	for name, c := range map[string]struct {
		dir, file hosttest.File
		want      []change.Change
	}{
		"all there":           {dir, file, nil},
		"one lacks":           {dir, hosttest.File{Content: oneKey, Mode: "0600", Owner: "ops:ops"}, authorize(otherKey)},
		"readable by others":  {with(dir, "0755", "ops:ops"), with(file, "0644", "ops:ops"), nil},
		"a writable file":     {dir, with(file, "0666", "ops:ops"), authorize()},
		"a writable dir":      {with(dir, "0770", "ops:ops"), file, authorize()},
		"root's file":         {dir, with(file, "0644", "root:root"), authorize()},
		"cut off by a kill":   {with(dir, "0700", "root:root"), hosttest.File{}, authorize(oneKey, otherKey)},
		"root's, but useable": {with(dir, "0755", "root:root"), file, authorize()},
	} {
		t.Run(name, func(t *testing.T) {
			w := inhabited("*")
			w.Files["/home/ops/.ssh"] = c.dir
			if c.file.Mode != "" {
				w.Files[keysFile] = c.file
			}
			require.Equal(t, c.want, settle(t, w, user))
			require.Contains(t, w.Files[keysFile].Content, c.file.Content)
		})
	}
}

func TestWhatIsInTheWayOfKeysIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(w *hosttest.World)
		want string
	}{
		"a link for the directory": {func(w *hosttest.World) {
			w.Files["/home/ops/.ssh"] = hosttest.File{Link: "/etc"}
		}, "/home/ops/.ssh is a link"},
		"a link for the file": {func(w *hosttest.World) {
			w.Files["/home/ops/.ssh"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
			w.Files[keysFile] = hosttest.File{Link: "/etc/shadow"}
		}, keysFile + " is a link"},
		"a file for the directory": {func(w *hosttest.World) {
			w.Files["/home/ops/.ssh"] = hosttest.File{Owner: "ops:ops"}
		}, "/home/ops/.ssh is not what it should be"},
		"another's home": {func(w *hosttest.World) {
			w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0755", Owner: "eve:eve"}
		}, "/home/ops belongs to eve"},
		"a secret of root's": {func(w *hosttest.World) {
			w.Files["/home/ops/.ssh"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
			w.Files[keysFile] = hosttest.File{Content: "secret", Mode: "0600"}
		}, keysFile + " belongs to root and only root can read it"},
		"no home": {func(w *hosttest.World) {
			f := w.Files["/etc/passwd"]
			f.Content = strings.ReplaceAll(f.Content, "/home/ops", "")
			w.Files["/etc/passwd"] = f
		}, `ops has no home of its own ("")`},
	} {
		t.Run(name, func(t *testing.T) {
			w := inhabited("*")
			c.make(w)
			p := plan(t, w, config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey}, Sudo: all})
			require.Empty(t, p.Changes)
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], c.want)
			require.Empty(t, plan(t, w, config.User{Name: "ops"}).Blocked, "without keys it is nobody's business")
		})
	}
	w := hosttest.Rocky9()
	w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0755", Owner: "eve:eve"}
	require.ErrorContains(t, plan(t, w, config.User{Name: "ops"}).Blocked[0], "/home/ops belongs to eve", "a new user doesn't move in with somebody")
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		world *hosttest.World
		make  func(w *hosttest.World)
		user  config.User
		want  string
	}{
		"no such shell":    {hosttest.Rocky9(), nil, config.User{Name: "ops", Shell: "/bin/zsh"}, "the shell /bin/zsh of ops isn't on this host"},
		"no sudo":          {hosttest.Photon5(), nil, config.User{Name: "ops", Sudo: all}, "sudo isn't on this host"},
		"a home that went": {inhabited("*"), func(w *hosttest.World) { delete(w.Files, "/home/ops") }, config.User{Name: "ops"}, "its home /home/ops doesn't"},
		"a home cut off": {inhabited("*"), func(w *hosttest.World) { w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0700"} },
			config.User{Name: "ops"}, "the home /home/ops of ops belongs to root and is shut to its user"},
		"a writable home": {inhabited("*"), func(w *hosttest.World) {
			w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0770", Owner: "ops:ops"}
		}, config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey}}, "others can write to /home/ops, so sshd won't take the keys"},
	} {
		if c.make != nil {
			c.make(c.world)
		}
		require.Contains(t, strings.Join(plan(t, c.world, c.user).Warnings, "\n"), c.want, name)
	}
}

func TestAHostThatCanMakeNoUsersIsRefusedOnlyWhenItMust(t *testing.T) {
	ops := config.User{Name: "ops", Comment: "Image", Sudo: all}
	w := inhabited("*")
	delete(w.Files, "/usr/sbin/useradd")
	delete(w.Files, "/usr/sbin/chpasswd")
	require.Empty(t, plan(t, w, ops).Blocked)
	p := plan(t, w, ops, config.User{Name: "new"})
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "this host lacks the programs for it: useradd, chpasswd")

	w = inhabited("*")
	w.MountTable = append(w.MountTable, host.Mount{Source: "/dev/vda2", Target: "/etc", Type: "ext4", Root: "/", Device: "252:2", Options: []string{"ro"}})
	require.Empty(t, plan(t, w, ops).Blocked)
	require.ErrorContains(t, plan(t, w, ops, config.User{Name: "new"}).Blocked[0], "spec.users: /etc/passwd can't be written")

	w = inhabited("*")
	w.MountTable = append(w.MountTable, host.Mount{Source: "/dev/vda2", Target: "/home", Type: "ext4", Root: "/", Device: "252:2", Options: []string{"ro"}})
	require.ErrorContains(t, plan(t, w, config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey}}).Blocked[0], "the home /home/ops of ops can't be written")
}

// ordinary is what somebody sees who isn't root.
type ordinary struct{ *hosttest.World }

func (o ordinary) ReadFile(p string) ([]byte, error) {
	if p == "/etc/shadow" || strings.HasPrefix(p, "/etc/sudoers.d/") {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrPermission}
	}
	return o.World.ReadFile(p)
}

func (o ordinary) Stat(p string) (host.FileInfo, error) {
	if strings.HasPrefix(p, "/home/ops/") {
		return host.FileInfo{}, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrPermission}
	}
	return o.World.Stat(p)
}

func TestAPlanOfSomebodyWhoMayNotReadSaysSo(t *testing.T) {
	w := inhabited(hash)
	user := config.User{Name: "ops", PasswordHash: hash, SSHAuthorizedKeys: []string{oneKey}, Sudo: all}
	settle(t, w, user)
	p := plan(t, ordinary{w}, user)
	require.Empty(t, p.Blocked)
	require.Len(t, p.Changes, 3)
	require.Equal(t, []string{"spec.users: only root can read /etc/shadow, /etc/sudoers.d and homes: what is there is planned as if it differed"}, p.Warnings)
	p = plan(t, ordinary{w}, config.User{Name: "ops", SSHAuthorizedKeys: []string{oneKey}})
	require.Len(t, p.Changes, 1)
	require.Len(t, p.Warnings, 1)
}
