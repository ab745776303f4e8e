package clock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/host/hosttest"
)

func TestChronyConfIsRead(t *testing.T) {
	for text, want := range map[string]directives{
		"":                   {},
		hosttest.RockyChrony: {Sources: []string{"pool 2.rocky.pool.ntp.org iburst"}, Step: true},
		"! pool a\n# server b\n%x\n;server c\n   #server d\n": {},
		"  Server a.example key 1\nPEER b\nservers c\n":       {Sources: []string{"Server a.example key 1", "PEER b"}},
		"include /etc/chrony.d/*.conf\n":                      {Dirs: []string{"/etc/chrony.d"}},
		"include /etc/chrony.d/local.conf\n":                  {},
		"confdir /run/chrony.d /etc/chrony.d/ /etc/b\n":       {Dirs: []string{"/etc/chrony.d", "/etc/b"}},
		"confdir /etc/../run/x\ninclude /etc/*/*.conf\n":      {},
		"sourcedir /etc/chrony/sources.d\nmakestep 1 -1":      {Step: true},
	} {
		require.Equal(t, want, parse(text), text)
	}
}

func TestServersOfChronyConfAreReplacedAndAllElseStays(t *testing.T) {
	const block = blockBegin + "\nserver x iburst\n" + blockEnd + "\n"
	for text, want := range map[string]string{
		"":                                  block,
		"rtcsync":                           "rtcsync\n" + block,
		"a 1\nserver b\n# c\n\tpool d\ne\n": "a 1\n" + block + disabled + "server b\n# c\n" + disabled + "\tpool d\ne\n",
		"a\n" + blockBegin + "\nserver old iburst\nmakestep 1.0 3\n" + blockEnd + "\nb\n": "a\n" + block + "b\n",
		"a\n" + blockBegin + "\nserver old iburst\nb\n":                                   "a\n" + block + disabled + "server old iburst\nb\n",
		"a\n" + blockEnd + "\nb": "a\nb\n" + block,
	} {
		require.Equal(t, want, rewrite(text, "server x iburst\n"), "%q", text)
	}
	require.Equal(t, "a\n"+disabled+"server b\n", rewrite("a\nserver b\n", ""))
	require.Equal(t, "a\nb\n", rewrite("a\n"+block+"b\n", ""))
}

func FuzzRewrite(f *testing.F) {
	f.Add(hosttest.RockyChrony)
	f.Add(blockBegin + "\nserver a\n")
	f.Add("server a\r\n" + blockEnd)
	f.Add("a\n" + blockBegin + "\n" + blockBegin + "\n" + blockEnd + "\npool b")
	f.Fuzz(func(t *testing.T, text string) {
		once := rewrite(text, "server x iburst\n")
		require.Equal(t, once, rewrite(once, "server x iburst\n"))
		require.Equal(t, []string{"server x iburst"}, parse(once).Sources)
		rest, _ := strip(once)
		require.Empty(t, parse(strings.Join(rest, "")).Sources)
		if !strings.Contains(text, "nodeagent") {
			back := strings.ReplaceAll(strings.Join(rest, ""), disabled, "")
			require.Equal(t, strings.TrimSuffix(text, "\n"), strings.TrimSuffix(back, "\n"), "nothing is lost")
		}
	})
}
