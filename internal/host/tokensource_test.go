package host

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// toolbox puts a program of that name in front of the fixed PATH: a shell script
// that notes its arguments.
func toolbox(t *testing.T, name, script string) (argv func() []string) {
	t.Helper()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >>"+calls+"\n"+script), 0o755))
	old := searchPath
	searchPath = append([]string{dir}, old...)
	t.Cleanup(func() { searchPath = old })
	return func() []string {
		b, err := os.ReadFile(calls)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

func TestATokenInGuestInfoIsReadAndOverwrittenAndNeverAnArgument(t *testing.T) {
	value := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(value, []byte(tokenLine), 0o600))
	argv := toolbox(t, rpctool, `
case "$1" in
"info-get guestinfo.nodeagent.token") cat `+value+` ;;
"info-set guestinfo.nodeagent.token "*) printf '%s' "${1##* }" >`+value+` ;;
*) exit 2 ;;
esac
`)
	l := minting(t)
	c := change.FetchToken{GuestInfo: "nodeagent.token"}
	require.NoError(t, l.applyFetchToken(t.Context(), c, func(string) {}))
	require.Equal(t, testToken, l.credential.Token)
	require.FileExists(t, l.record)
	l.dropAfterFailure(t.Context(), func(string) {})
	require.FileExists(t, l.record, "the next try needs the token")
	for range 2 {
		require.NoError(t, l.applyDropToken(t.Context(), change.DropToken{GuestInfo: "nodeagent.token"}, func(string) {}))
		require.NoFileExists(t, l.record)
	}
	b, err := os.ReadFile(value)
	require.NoError(t, err)
	require.Equal(t, "used", string(b))
	require.Equal(t, []string{"info-get guestinfo.nodeagent.token", "info-set guestinfo.nodeagent.token used"}, argv())
	err = l.applyFetchToken(t.Context(), c, func(string) {})
	require.ErrorContains(t, err, "the token in guestinfo.nodeagent.token was used before")
	require.Contains(t, fail.HintOf(err), "kubeadm token create")
	require.NoFileExists(t, l.record)
}

func TestGuestInfoThatCannotBeUsedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"no value":            {"echo 'No value found'; exit 1", "guestinfo.k has no value"},
		"an empty value":      {"echo", "guestinfo.k has no value"},
		"not in VMware":       {"echo 'Failed sending message to VMware.' >&2; exit 1", "can't read guestinfo.k (exit status 1)"},
		"no token document":   {"echo h1dd3n and more", "guestinfo.k: the token document"},
		"the token and a cry": {"echo " + testToken + "; exit 1", "can't read guestinfo.k (exit status 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			toolbox(t, rpctool, c.script+"\n")
			l := minting(t)
			err := l.applyFetchToken(t.Context(), change.FetchToken{GuestInfo: "k"}, func(string) {})
			require.ErrorContains(t, err, c.want)
			require.NotEmpty(t, fail.HintOf(err))
			require.NotContains(t, err.Error()+fail.HintOf(err), "h1dd3n")
			require.NotContains(t, err.Error()+fail.HintOf(err), "0123456789abcdef")
			require.NoFileExists(t, l.record)
		})
	}
	toolbox(t, rpctool, "exit 3\n")
	err := New().spendGuestInfo(t.Context(), "k")
	require.ErrorContains(t, err, "can't be overwritten (exit status 3)")
}

func TestACredentialIsTheServicesOwnOrTheMachines(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(credentialsVariable, dir)
	own := filepath.Join(dir, "join-token")
	require.Equal(t, own, New().Credential("join-token"), "where it would be")
	err := New().applyFetchToken(t.Context(), change.FetchToken{Credential: "join-token"}, func(string) {})
	require.ErrorContains(t, err, own+" does not exist")
	require.Contains(t, fail.HintOf(err), "LoadCredential=join-token")
	require.NoError(t, os.WriteFile(own, []byte(tokenLine), 0o400))
	l := New()
	require.NoError(t, l.applyFetchToken(t.Context(), change.FetchToken{Credential: "join-token"}, func(string) {}))
	require.Equal(t, testToken, l.credential.Token)
	t.Setenv(credentialsVariable, "")
	require.Equal(t, "/run/credentials/@system/join-token", New().Credential("join-token"))
	// A tree of files has no service.
	t.Setenv(credentialsVariable, dir)
	require.Equal(t, "/run/credentials/@system/join-token", At(t.TempDir()).Credential("join-token"))
}

func TestAShreddedFileIsZerosBeforeItIsGone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.conf")
	secret := []byte(strings.Repeat("h1dd3n\n", 10000))
	require.NoError(t, os.WriteFile(path, secret, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for range 2 { // a missing one is fine
		require.NoError(t, New().applyRemoveFile(t.Context(), change.RemoveFile{Path: path, Shred: true}, nil))
		require.NoFileExists(t, path)
	}
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, make([]byte, len(secret)), b)

	require.NoError(t, os.WriteFile(path, secret, 0o600))
	for name, make := range map[string]func(string) error{
		"a link":         func(p string) error { return os.Symlink(path, p) },
		"another's name": func(p string) error { return os.Link(path, p) },
		"a directory":    func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		other := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		require.NoError(t, make(other))
		require.Error(t, New().applyRemoveFile(t.Context(), change.RemoveFile{Path: other, Shred: true}, nil), name)
		_, err = os.Lstat(other)
		require.NoError(t, err, name)
	}
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, secret, b)
}
