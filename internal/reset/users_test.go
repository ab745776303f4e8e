package reset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/host/hosttest"
)

const (
	ourKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ours"
	theirKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg theirs"
	opsKeys  = "/home/ops/.ssh/authorized_keys"
)

// inhabited is a host with a user ops.
func inhabited() *hosttest.World {
	w := hosttest.Rocky9()
	line := func(path, s string) {
		f := w.Files[path]
		f.Content += s + "\n"
		w.Files[path] = f
	}
	line("/etc/passwd", "ops:x:1000:1000:Image:/home/ops:/bin/sh")
	line("/etc/group", "ops:x:1000:\ndocker:x:990:ops")
	line("/etc/shadow", "ops:!:19700:0:99999:7:::")
	w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
	return w
}

func comment(to, before string, groups ...string) change.ChangeUser {
	return change.ChangeUser{Name: "ops", Comment: &to, Before: before, Groups: groups}
}

func authorize(keys ...string) change.AuthorizeKeys {
	return change.AuthorizeKeys{User: "ops", Group: "ops", Home: "/home/ops", Keys: keys}
}

func TestAUserGetsItsCommentAndGroupsBack(t *testing.T) {
	w := inhabited()
	before := w.String()
	do(t, w, comment("One", "Image", "wheel"), comment("Two", "One"))
	require.NotEqual(t, before, w.String())
	p := back(t, w, Options{})
	require.Equal(t, before, w.String())
	require.Empty(t, p.Warnings)

	// What somebody has changed since is theirs.
	w = inhabited()
	do(t, w, comment("One", "Image", "wheel"))
	for path, r := range map[string][2]string{"/etc/passwd": {"One", "Theirs"}, "/etc/group": {"wheel:x:10:ops", "wheel:x:10:"}} {
		f := w.Files[path]
		require.Contains(t, f.Content, r[0])
		f.Content = strings.Replace(f.Content, r[0], r[1], 1)
		w.Files[path] = f
	}
	left := w.String()
	p = back(t, w, Options{})
	require.Equal(t, []string{"the comment of user ops was changed since: left as it is"}, p.Warnings)
	require.Equal(t, left, w.String())

	// And so is what they made of it between two runs.
	w = inhabited()
	do(t, w, comment("One", "Image"))
	f := w.Files["/etc/passwd"]
	f.Content = strings.Replace(f.Content, "One", "Theirs", 1)
	w.Files["/etc/passwd"] = f
	do(t, w, comment("Two", "Theirs"))
	back(t, w, Options{})
	require.Contains(t, w.Files["/etc/passwd"].Content, ":Theirs:")
}

func TestAccountsStayAndAreTold(t *testing.T) {
	w := hosttest.Rocky9()
	do(t, w, change.AddGroup{Name: "new"}, change.AddUser{Name: "new", Group: "new", Home: "/home/new", Shell: "/bin/bash"}, change.SetPassword{User: "new", Hash: "$6$a$secret", Sets: true})
	after := w.Files["/etc/passwd"].Content
	p := back(t, w, Options{})
	require.Empty(t, p.Changes)
	require.Equal(t, after, w.Files["/etc/passwd"].Content)
	told := strings.Join(p.Warnings, "\n")
	for _, want := range []string{"kept: group new, which nodeagent added: groupdel removes it", "kept: user new and the home /home/new", "kept: the password of user new as it is"} {
		require.Contains(t, told, want)
	}
	require.NotContains(t, told, "secret")

	for _, p := range []string{"/etc/passwd", "/etc/group"} { // userdel
		f := w.Files[p]
		f.Content = f.Content[:strings.Index(f.Content, "new:")]
		w.Files[p] = f
	}
	require.Empty(t, back(t, w, Options{}).Warnings, "what is gone is not told")
}

func TestOurKeysGoAndThoseOfOthersStay(t *testing.T) {
	for name, c := range map[string]struct {
		before, since string // the file, and what somebody adds to it afterwards
		want          string
	}{
		"a file of ours":       {"", "", ""},
		"somebody's came":      {"", theirKey + "\n", theirKey + "\n"},
		"theirs were there":    {theirKey, "", theirKey + "\n"},
		"ours was there":       {ourKey + "\n", "", ourKey + "\n"},
		"theirs, and one more": {theirKey + "\n", "# more\n", theirKey + "\n# more\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inhabited()
			if c.before != "" {
				w.Files["/home/ops/.ssh"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
				w.Files[opsKeys] = hosttest.File{Content: c.before, Mode: "0600", Owner: "ops:ops"}
			}
			if !strings.Contains(c.before, ourKey) {
				do(t, w, authorize(ourKey))
			}
			f := w.Files[opsKeys]
			f.Content += c.since
			w.Files[opsKeys] = f
			back(t, w, Options{})
			if c.want == "" {
				require.NotContains(t, w.Files, opsKeys)
				require.NotContains(t, w.Files, "/home/ops/.ssh")
				return
			}
			require.Equal(t, c.want, w.Files[opsKeys].Content)
		})
	}
}

// A user can't keep a reset from going on.
func TestWhatAUserHasPutInPlaceOfTheKeysIsLeftAndTold(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		file hosttest.File
	}{
		"a link for the file":      {opsKeys, hosttest.File{Link: "/etc/shadow"}},
		"a link for the directory": {"/home/ops/.ssh", hosttest.File{Link: "/etc"}},
		"a directory for the file": {opsKeys, hosttest.File{Dir: true}},
		"a file for the directory": {"/home/ops/.ssh", hosttest.File{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := inhabited()
			do(t, w, authorize(ourKey))
			delete(w.Files, opsKeys)
			w.Files[c.path] = c.file
			p := back(t, w, Options{})
			require.Empty(t, p.Changes)
			require.Equal(t, []string{"the keys of ops are left as they are: " + c.path + " is a link, or no longer what it was"}, p.Warnings)
		})
	}
	w := inhabited()
	do(t, w, authorize(ourKey))
	f := w.Files["/etc/passwd"]
	f.Content = strings.Replace(f.Content, "ops:", "other:", 1)
	w.Files["/etc/passwd"] = f
	require.Empty(t, back(t, w, Options{}).Changes, "the user is gone")
}
