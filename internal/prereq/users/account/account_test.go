package account

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountsAreReadAsTheLibraryReadsThem(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\n" +
		"# ops:x:1:1::/:\n+nis::::::\n" +
		"ops:x:1000:1001:Operators:/home/ops:/bin/sh\r\n" +
		"ops:x:0:0:second:/:/bin/sh\n" + // getpwnam(3) sees the first
		"short:x:1000\nnumber:x:one:1::/:\nbig:x:4294967296:1::/:\n" +
		"old:$6$in$passwd:1002:1001::/home/old:\n" +
		"last:x:1003:1001::/home/last:/bin/sh"
	const shadow = "root:*:1::::::\nops:!!$6$s$h:1::::::\nlast::1::::::\nnosuch:$6$a$b:1::::::\n"
	got := Parse(passwd, shadow)
	require.Len(t, got, 4)
	require.Equal(t, Account{Name: "ops", UID: 1000, GID: 1001, Comment: "Operators", Home: "/home/ops", Shell: "/bin/sh", field: "!!$6$s$h"}, got["ops"])
	require.Equal(t, "$6$in$passwd", got["old"].Hash())
	require.Equal(t, 1003, got["last"].UID)
	require.Equal(t, "/bin/sh", got["last"].Shell)
}

func TestAFieldIsAHashALockOrNeither(t *testing.T) {
	for field, want := range map[string]struct {
		locked bool
		hash   string
	}{
		"":          {false, ""}, // the empty password
		"$6$s$h":    {false, "$6$s$h"},
		"!$6$s$h":   {true, "$6$s$h"},
		"!!$6$s$h":  {true, "$6$s$h"},
		"!":         {true, ""},
		"!!":        {true, ""},
		"*":         {true, ""},
		"!*":        {true, ""},
		"*LK*":      {true, ""},
		"x":         {true, ""}, // no line in shadow
		"abcdefghi": {false, "abcdefghi"},
	} {
		a := Parse("a:x:1:1::/:", "a:"+field+":1")["a"]
		require.Equal(t, want.locked, a.Locked(), "%q", field)
		require.Equal(t, want.hash, a.Hash(), "%q", field)
	}
	require.True(t, Parse("a:x:1:1::/:", "")["a"].Locked(), "without shadow nothing is known to be open")
}

func TestGroupsAndTheirMembers(t *testing.T) {
	require.Equal(t, map[string]Group{
		"wheel": {10, []string{"ops", "root"}},
		"ops":   {1000, []string{}},
	}, Groups("wheel:x:10:ops,root\nops:x:1000:\nops:x:7:x\nshort:x:1\nbad:x:-1:\n+:::\n"))
}

// Whatever the databases hold, an account has its own name, its lines' numbers,
// and a hash without marks.
func FuzzParse(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/bash\nops:x:1000:1000::/home/ops:/bin/sh\n", "root:!!:1::\nops:!$6$s$h:1::\n")
	f.Add("a:x:1:1:::::\n\n:::\n", "a")
	f.Add("+a:x:1:1:::\na:*:4294967295:0:::", "a:!*:")
	f.Fuzz(func(t *testing.T, passwd, shadow string) {
		for name, a := range Parse(passwd, shadow) {
			require.Equal(t, name, a.Name)
			require.NotEmpty(t, name)
			require.True(t, strings.HasPrefix(passwd, name+":") || strings.Contains(passwd, "\n"+name+":"))
			require.False(t, strings.HasPrefix(a.Hash(), "!") || strings.HasPrefix(a.Hash(), "*"))
			require.GreaterOrEqual(t, a.UID, 0)
			if a.Hash() == "" {
				require.True(t, a.Locked() || a.field == "")
			}
		}
		for name, g := range Groups(passwd) {
			require.NotEmpty(t, name)
			require.NotContains(t, g.Members, "")
		}
	})
}
