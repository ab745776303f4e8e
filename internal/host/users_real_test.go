package host_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/users"
)

const (
	realKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ops"
	realHash = "$6$saltsalt$theFirstSecret"
	newHash  = "$6$saltsalt$theSecondSecret"
)

// withEtcOfItsOwn runs a test in namespaces where /etc is a copy, which the
// programs of shadow-utils may change, and where homes are empty.
func withEtcOfItsOwn(t *testing.T) bool {
	t.Helper()
	for _, program := range []string{"groupadd", "useradd", "usermod", "chpasswd", "gpasswd"} {
		if _, err := host.New().LookPath(program); err != nil {
			t.Skipf("%s is not on this machine", program)
		}
	}
	if !host.InNamespaces(t) {
		return false
	}
	etc := filepath.Join(t.TempDir(), "etc")
	out, err := exec.Command("cp", "-a", "/etc", etc).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, unix.Mount(etc, "/etc", "", unix.MS_BIND, ""))
	for _, dir := range []string{"/home", "/root", "/srv"} {
		require.NoError(t, unix.Mount("homes", dir, "tmpfs", 0, "mode=0755"))
	}
	return true
}

func planUsers(t *testing.T, list ...config.User) change.Plan {
	t.Helper()
	spec := config.Default().Spec
	spec.Users = list
	f, err := users.Observe(t.Context(), host.New(), spec)
	require.NoError(t, err)
	return users.Plan(spec, f)
}

// settle carries the plan out and wants none afterwards.
func settle(t *testing.T, list ...config.User) (summaries []string) {
	t.Helper()
	p := planUsers(t, list...)
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, host.New().Apply(t.Context(), c, nil), c.Summary())
		summaries = append(summaries, change.Kind(c))
	}
	require.Empty(t, planUsers(t, list...).Changes, "a second run changes nothing")
	return summaries
}

// entryOf is the line of a database.
func entryOf(t *testing.T, database, name string) string {
	t.Helper()
	b, err := os.ReadFile(database)
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^` + name + `:.*$`).FindString(string(b))
}

func field(t *testing.T, name string) string {
	t.Helper()
	return strings.Split(entryOf(t, "/etc/shadow", name)+"::", ":")[1]
}

func yes(b bool) *bool { return &b }

func modeAndOwner(t *testing.T, path string) string {
	t.Helper()
	info, err := host.New().Stat(path)
	require.NoError(t, err)
	return host.Octal(info.Mode) + " " + info.Owner
}

func TestUsersAreMadeByTheSystemsOwnPrograms(t *testing.T) {
	if !withEtcOfItsOwn(t) {
		return
	}
	list := []config.User{
		{Name: "ops.one", Comment: "Operators", Groups: []string{"users", "operators"}, SSHAuthorizedKeys: []string{realKey}, Sudo: "ALL=(ALL) NOPASSWD:ALL", PasswordHash: realHash},
		{Name: "app", PrimaryGroup: "apps", Home: "/srv/deep/app", Shell: "/usr/sbin/nologin"},
		{Name: "root", SSHAuthorizedKeys: []string{"restrict " + realKey}},
	}
	unix.Umask(0o077)
	did := settle(t, list...)
	require.Equal(t, []string{"AddGroup", "AddGroup", "AddUser", "SetPassword", "AuthorizeKeys", "WriteFile", "AddGroup", "AddUser", "AuthorizeKeys"}, did)

	require.Regexp(t, `^ops\.one:x:\d{4}:\d{4}:Operators:/home/ops\.one:/bin/bash$`, entryOf(t, "/etc/passwd", "ops.one"))
	require.Regexp(t, `^app:x:\d{4}:\d{4}::/srv/deep/app:/usr/sbin/nologin$`, entryOf(t, "/etc/passwd", "app"))
	require.Equal(t, realHash, field(t, "ops.one"))
	require.Equal(t, "*", field(t, "app"), "no password opens it, and an sshd without PAM takes keys all the same")
	for _, g := range []string{"users", "operators"} {
		require.Regexp(t, `[:,]ops\.one$`, entryOf(t, "/etc/group", g))
	}
	for path, want := range map[string]string{
		"/home/ops.one/.ssh":                 "0700 ops.one:ops.one",
		"/home/ops.one/.ssh/authorized_keys": "0600 ops.one:ops.one",
		"/root/.ssh":                         "0700 root:root",
		"/root/.ssh/authorized_keys":         "0600 root:root",
		"/etc/sudoers.d/nodeagent-ops+one":   "0440 root:root",
		"/srv/deep":                          "0755 root:root",
	} {
		require.Equal(t, want, modeAndOwner(t, path), path)
	}
	require.Contains(t, modeAndOwner(t, "/srv/deep/app"), " app:apps")
	b, err := os.ReadFile("/home/ops.one/.ssh/authorized_keys")
	require.NoError(t, err)
	require.Equal(t, realKey+"\n", string(b))
	if out, err := exec.Command("sudo", "-l", "-U", "ops.one").CombinedOutput(); err == nil {
		require.Contains(t, string(out), "NOPASSWD: ALL", "sudo reads the file in spite of the user's dot")
	} else if _, missing := exec.LookPath("sudo"); missing == nil {
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, exec.Command("pwck", "-rq").Run())
	require.NoError(t, exec.Command("grpck", "-rq").Run())
}

func TestAnExistingUserGetsWhatItLacksAndKeepsTheRest(t *testing.T) {
	if !withEtcOfItsOwn(t) {
		return
	}
	apply := func(c change.Change) { require.NoError(t, host.New().Apply(t.Context(), c, nil)) }
	settle(t, config.User{Name: "ops", PasswordHash: realHash, Groups: []string{"users"}})

	p := planUsers(t, config.User{Name: "ops", Home: "/srv/ops", Shell: "/bin/sh", PrimaryGroup: "users"})
	require.Empty(t, p.Changes)
	require.Len(t, p.Warnings, 3)

	require.Equal(t, []string{"SetPassword"}, settle(t, config.User{Name: "ops", LockPassword: yes(true)}))
	require.Equal(t, "!"+realHash, field(t, "ops"))
	require.Empty(t, settle(t, config.User{Name: "ops", PasswordHash: realHash}), "somebody's lock stays")
	require.NoError(t, exec.Command("usermod", "-p", "!!"+realHash, "ops").Run()) // as passwd -l of some distributions
	require.Equal(t, []string{"SetPassword"}, settle(t, config.User{Name: "ops", LockPassword: yes(false)}))
	require.Equal(t, realHash, field(t, "ops"))
	settle(t, config.User{Name: "ops", PasswordHash: newHash, LockPassword: yes(true)})
	require.Equal(t, "!"+newHash, field(t, "ops"))
	settle(t, config.User{Name: "ops", PasswordHash: realHash, LockPassword: yes(false)})
	require.Equal(t, realHash, field(t, "ops"))

	require.Equal(t, []string{"AddGroup", "ChangeUser"}, settle(t, config.User{Name: "ops", Comment: "Operators", Groups: []string{"operators"}}))
	require.Regexp(t, `[:,]ops$`, entryOf(t, "/etc/group", "users"), "the groups it had stay")
	none := ""
	apply(change.ChangeUser{Name: "ops", Leave: []string{"operators", "users"}, Comment: &none})
	require.Regexp(t, `^operators:x:\d+:$`, entryOf(t, "/etc/group", "operators"))
	require.Contains(t, entryOf(t, "/etc/passwd", "ops"), "::/home/ops:")

	apply(change.AuthorizeKeys{User: "ops", Group: "ops", Home: "/home/ops", Keys: []string{realKey}})
	apply(change.RevokeKeys{User: "ops", Group: "ops", Home: "/home/ops", Keys: []string{realKey}, Made: true, Dirs: []string{"/home/ops/.ssh"}})
	require.NoDirExists(t, "/home/ops/.ssh")
	require.DirExists(t, "/home/ops")
}

// A stand-in writes down what chpasswd is called with, and calls it.
func TestAHashIsInNobodysArgumentList(t *testing.T) {
	if !withEtcOfItsOwn(t) {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"useradd", "usermod", "chpasswd"} {
		path, err := host.New().LookPath(name)
		require.NoError(t, err)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		program, script := filepath.Join(dir, name), filepath.Join(dir, name+".sh")
		require.NoError(t, os.WriteFile(program, b, 0o755))
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho "+name+" \"$@\" >>"+dir+"/log\nenv >>"+dir+"/log\nexec "+program+" \"$@\"\n"), 0o755))
		require.NoError(t, unix.Mount(script, path, "", unix.MS_BIND, ""))
	}
	settle(t, config.User{Name: "ops", PasswordHash: realHash})
	settle(t, config.User{Name: "ops", PasswordHash: newHash, LockPassword: yes(true)})
	settle(t, config.User{Name: "ops", LockPassword: yes(false)})
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	for _, called := range []string{"useradd -m", "chpasswd -e", "usermod -U"} {
		require.Contains(t, string(log), called)
	}
	require.NotContains(t, string(log), "Secret")
	require.Equal(t, newHash, field(t, "ops"))
}

func TestARuleThatVisudoRefusesIsNotWritten(t *testing.T) {
	if _, err := host.New().LookPath("visudo"); err != nil {
		t.Skip("visudo is not on this machine")
	}
	if !withEtcOfItsOwn(t) {
		return
	}
	ops := config.User{Name: "ops", Sudo: "ALL=(ALL) NOPASSWD:"}
	var err error
	for _, c := range planUsers(t, ops).Changes {
		if err = host.New().Apply(context.Background(), c, nil); err != nil {
			require.IsType(t, change.WriteFile{}, c)
			break
		}
	}
	require.Equal(t, fail.Usage, fail.KindOf(err))
	require.ErrorContains(t, err, "/etc/sudoers.d/nodeagent-ops is not written: visudo does not accept it:")
	require.Regexp(t, `(line 2|:2:\d+: syntax error)`, err.Error(), "what visudo says is told")
	require.NoFileExists(t, "/etc/sudoers.d/nodeagent-ops")
	ops.Sudo = "ALL=(root) NOPASSWD: /usr/bin/systemctl restart kubelet"
	settle(t, ops)
	require.FileExists(t, "/etc/sudoers.d/nodeagent-ops")
}

func TestANameThatIsTakenElsewhereIsOneSentence(t *testing.T) {
	if !withEtcOfItsOwn(t) {
		return
	}
	err := host.New().Apply(t.Context(), change.AddGroup{Name: "root"}, nil)
	require.Equal(t, fail.Step, fail.KindOf(err))
	require.ErrorContains(t, err, "add group root: the name is taken")
	err = host.New().Apply(t.Context(), change.ChangeUser{Name: "nosuch", Groups: []string{"root"}}, nil)
	require.ErrorContains(t, err, "changing user nosuch failed: usermod ended with status")
	require.NoError(t, unix.Mount("", "/etc", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	p := planUsers(t, config.User{Name: "ops"})
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "spec.users: /etc/passwd can't be written")
}
