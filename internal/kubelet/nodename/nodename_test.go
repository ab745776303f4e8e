package nodename

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatANodeMayBeCalled(t *testing.T) {
	for _, name := range []string{"a", "prdk8snod001", "server-1.example.com", "1"} {
		require.True(t, Valid(name), name)
		require.Equal(t, name, Suggest(name))
	}
	for name, near := range map[string]string{
		"PHost01": "phost01", "server_one": "server-one", "-a-": "a", "a..b": "a.b", "_": "", "": "", "localhost": "", "a b.C": "a-b.c",
		strings.Repeat("x", 70): strings.Repeat("x", 63),
	} {
		require.False(t, Valid(name) && !None(name), name)
		require.Equal(t, near, Suggest(name), name)
	}
	for _, name := range []string{"", "localhost", "LocalHost4", "localhost.localdomain"} {
		require.True(t, None(name), name)
	}
	require.False(t, None("localhosts"))
}

func FuzzSuggestIsValidOrNothing(f *testing.F) {
	f.Add("server_one")
	f.Fuzz(func(t *testing.T, name string) {
		if s := Suggest(name); s != "" && (!Valid(s) || None(s)) {
			t.Errorf("%q gives %q", name, s)
		}
	})
}
