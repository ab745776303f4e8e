package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

const (
	oneKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f one"
	otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg other"
)

func authorize(home string, keys ...string) error {
	return New().Apply(context.Background(), change.AuthorizeKeys{User: "65534", Group: "65534", Home: home, Keys: keys}, nil)
}

func revoke(home string, dirs ...string) error {
	return New().Apply(context.Background(), change.RevokeKeys{User: "65534", Group: "65534", Home: home, Keys: []string{oneKey}, Made: len(dirs) > 0, Dirs: dirs}, nil)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func owned(t *testing.T, path string) (mode uint32, uid uint32) {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return st.Mode & 0o7777, st.Uid
}

func ownDir(home string) error {
	return errors.Join(os.Mkdir(home+"/.ssh", 0o700), os.Chown(home+"/.ssh", nobody, nobody))
}

func TestKeysAreAddedToAFileThatIsTheUsersAlone(t *testing.T) {
	home := theirs(t)
	dir, file := filepath.Join(home, ".ssh"), filepath.Join(home, ".ssh/authorized_keys")
	require.NoError(t, authorize(home, oneKey))
	require.Equal(t, oneKey+"\n", read(t, file))
	for path, want := range map[string]uint32{home: 0o755, dir: 0o700, file: 0o600} {
		mode, uid := owned(t, path)
		require.Equal(t, want, mode, path)
		require.EqualValues(t, nobody, uid, path)
	}
	require.NoError(t, revoke(home, dir))
	require.NoDirExists(t, dir)

	// What is there already stays; modes and an owner that sshd refuses don't.
	require.NoError(t, os.Mkdir(dir, 0o775))
	require.NoError(t, os.Chmod(dir, 0o775))
	require.NoError(t, os.WriteFile(file, []byte("# theirs\n"+otherKey), 0o644))
	require.NoError(t, authorize(home, otherKey, oneKey, oneKey))
	require.Equal(t, "# theirs\n"+otherKey+"\n"+oneKey+"\n", read(t, file))
	for path, want := range map[string]uint32{dir: 0o700, file: 0o600} {
		mode, uid := owned(t, path)
		require.Equal(t, want, mode, path)
		require.EqualValues(t, nobody, uid, path)
	}
	require.NoError(t, revoke(home, dir))
	require.Equal(t, "# theirs\n"+otherKey+"\n", read(t, file))
}

func TestAMissingHomeIsMadeForTheKeys(t *testing.T) {
	theirs(t) // needs root
	home := filepath.Join(t.TempDir(), "deep/home")
	require.NoError(t, authorize(home, oneKey))
	mode, uid := owned(t, home)
	require.EqualValues(t, 0o700, mode)
	require.EqualValues(t, nobody, uid)
	mode, uid = owned(t, filepath.Dir(home))
	require.EqualValues(t, 0o755, mode)
	require.Zero(t, uid)
	// A run that was cut off before it gave its directories away.
	for _, p := range []string{home, home + "/.ssh"} {
		require.NoError(t, os.RemoveAll(home))
		require.NoError(t, os.Mkdir(home, 0o700))
		if p != home {
			require.NoError(t, os.Chown(home, nobody, nobody))
			require.NoError(t, os.Mkdir(p, 0o700))
		}
		require.NoError(t, authorize(home, oneKey))
		mode, uid = owned(t, p)
		require.EqualValues(t, 0o700, mode)
		require.EqualValues(t, nobody, uid)
	}
	require.NoError(t, os.RemoveAll(home))
	require.NoError(t, revoke(home, filepath.Join(home, ".ssh")), "what is gone already is fine")
	require.NoDirExists(t, home, "and nothing is made to take a key out of")
}

// Whatever a user puts where the keys go: nothing of others is read, written,
// given away or made theirs.
func TestNoKeyIsWrittenThroughWhatTheUserHasPutThere(t *testing.T) {
	for name, c := range map[string]struct {
		make func(home, secret string) error
		want string
	}{
		"a link for the directory": {func(home, secret string) error {
			return os.Symlink(filepath.Dir(secret), home+"/.ssh")
		}, "is no directory but a link or a file"},
		"a file for the directory": {func(home, _ string) error {
			return os.WriteFile(home+"/.ssh", nil, 0o600)
		}, "is no directory but a link or a file"},
		"a link for the file": {func(home, secret string) error {
			return errors.Join(ownDir(home), os.Symlink(secret, home+"/.ssh/authorized_keys"))
		}, "is a link, has a second name, or isn't the user's own file"},
		"a second name of a file of root's": {func(home, secret string) error {
			return errors.Join(ownDir(home), os.Link(secret, home+"/.ssh/authorized_keys"))
		}, "is a link, has a second name, or isn't the user's own file"},
		"a pipe": {func(home, _ string) error {
			return errors.Join(ownDir(home), unix.Mkfifo(home+"/.ssh/authorized_keys", 0o600), os.Chown(home+"/.ssh/authorized_keys", nobody, nobody))
		}, "is a link, has a second name, or isn't the user's own file"},
		"a directory for the file": {func(home, _ string) error {
			return errors.Join(ownDir(home), os.Mkdir(home+"/.ssh/authorized_keys", 0o700))
		}, "is a link, has a second name, or isn't the user's own file"},
		"a file of root's that only root can read": {func(home, secret string) error {
			return errors.Join(ownDir(home), os.WriteFile(home+"/.ssh/authorized_keys", []byte("secret\n"), 0o600))
		}, "is a link, has a second name, or isn't the user's own file"},
		"a directory of root's that only root can enter": {func(home, _ string) error {
			return errors.Join(os.Mkdir(home+"/.ssh", 0o700), os.WriteFile(home+"/.ssh/secret", nil, 0o644))
		}, "is root's, holds something, and is shut to user 65534"},
		"a directory of a third user": {func(home, _ string) error {
			return errors.Join(os.Mkdir(home+"/.ssh", 0o777), os.Chown(home+"/.ssh", 65533, 65533))
		}, "belongs to user 65533"},
		"a file of a third user": {func(home, _ string) error {
			return errors.Join(ownDir(home), os.WriteFile(home+"/.ssh/authorized_keys", nil, 0o644), os.Chown(home+"/.ssh/authorized_keys", 65533, 65533))
		}, "is a link, has a second name, or isn't the user's own file"},
		"more than anybody's keys": {func(home, _ string) error {
			return errors.Join(ownDir(home), os.WriteFile(home+"/.ssh/authorized_keys", []byte(strings.Repeat("#\n", maxKeys)), 0o604))
		}, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			home := theirs(t)
			secret := filepath.Join(t.TempDir(), "authorized_keys")
			require.NoError(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
			require.NoError(t, c.make(home, secret))
			require.ErrorContains(t, authorize(home, oneKey), c.want)
			require.Error(t, revoke(home, home+"/.ssh"))
			require.Equal(t, "secret\n", read(t, secret))
			mode, uid := owned(t, secret)
			require.EqualValues(t, 0o600, mode)
			require.Zero(t, uid)
			mode, uid = owned(t, filepath.Dir(secret))
			require.EqualValues(t, 0o755, mode)
			require.Zero(t, uid)
		})
	}
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o777))
	require.NoError(t, os.Chown(home, 65533, 65533))
	err := authorize(home, oneKey)
	require.Equal(t, fail.Safety, fail.KindOf(err))
	require.ErrorContains(t, err, "belongs to user 65533 and not to user 65534")
}

// The user exchanges the directory and a link to one of root's for each other
// all the time.
func TestADirectoryOfKeysThatTurnsIntoALinkLeadsNowhere(t *testing.T) {
	home, victim := theirs(t), t.TempDir()
	require.NoError(t, os.Chmod(victim, 0o755))
	dir, link := filepath.Join(home, ".ssh"), filepath.Join(home, "link")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	require.NoError(t, os.Symlink(victim, link))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	written := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if authorize(home, oneKey) == nil {
			written++
		}
		_ = revoke(home, dir)
	}
	close(stop)
	<-done
	require.NotZero(t, written, "some writes win the race")
	names, err := os.ReadDir(victim)
	require.NoError(t, err)
	require.Empty(t, names)
	mode, uid := owned(t, victim)
	require.EqualValues(t, 0o755, mode)
	require.Zero(t, uid)
	_, err = os.Lstat(filepath.Join(victim, "authorized_keys"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
