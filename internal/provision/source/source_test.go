package source

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

var pin = strings.Repeat("0a", 32)

func TestTheKernelsCommandLineNamesTheConfiguration(t *testing.T) {
	for line, want := range map[string]Source{
		"BOOT_IMAGE=/vmlinuz root=LABEL=root ro quiet\n":                                             {},
		"ro nodeagent.config=https://boot.example/c.yaml quiet\n":                                    {URL: "https://boot.example/c.yaml"},
		"nodeagent.config=http://192.0.2.1/c.yaml nodeagent.config_sha256=" + pin:                    {URL: "http://192.0.2.1/c.yaml", SHA256: pin},
		"nodeagent.config-sha256=" + pin + "\tnodeagent.config=http://192.0.2.1/c?a=b&m=00:11":       {URL: "http://192.0.2.1/c?a=b&m=00:11", SHA256: pin},
		`x="a nodeagent.config=https://evil.example/ b" nodeagent.config="https://boot.example/c"`:   {URL: "https://boot.example/c"},
		`"nodeagent.config=https://boot.example/c" --- "x`:                                           {URL: "https://boot.example/c"},
		"nodeagent.config=https://boot.example/c nodeagent.config=https://boot.example/c":            {URL: "https://boot.example/c"},
		"othernodeagent.config=https://boot.example/c nodeagentconfig=1 xnodeagent.config_sha256=00": {},
		"nodeagent.config=http://127.0.0.1:8080/c.yaml":                                              {URL: "http://127.0.0.1:8080/c.yaml"},
	} {
		got, ok, err := FromCmdline(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
		require.Equal(t, want.URL != "", ok, line)
	}
}

func TestACommandLineThatIsNotClearIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"nodeagent.config=http://boot.example/c":                                    "plain http without a digest",
		"nodeagent.config=http://boot.example/c nodeagent.config_sha256=" + pin[1:]: "no SHA-256 digest",
		"nodeagent.config=http://boot.example/c nodeagent.config_sha265=" + pin:     "unknown argument nodeagent.config_sha265",
		"nodeagent.config=https://a.example/c nodeagent.config=https://b.example/c": "twice",
		"nodeagent.config":                                  "is empty",
		"nodeagent.config=ftp://a.example/c":                "no URL",
		"nodeagent.config=https:///c":                       "no URL",
		"nodeagent.config=https://root:hunter2@a.example/c": "user name",
		"nodeagent.config_sha256=" + pin:                    "without nodeagent.config",
		"nodeagent.config=https://a.example/c'":             "no URL",
		`nodeagent.config="https://a.example/a b"`:          "no URL",
	} {
		_, ok, err := FromCmdline(line)
		require.ErrorContains(t, err, want, line)
		require.NotEmpty(t, fail.HintOf(err), line)
		require.NotContains(t, err.Error(), "hunter2")
		_ = ok
	}
}

func TestWhatWasPinnedMustCome(t *testing.T) {
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	require.NoError(t, Source{SHA256: strings.ToUpper(sum)}.Verify([]byte("hello")))
	err := Source{URL: "http://a.example/c", SHA256: sum}.Verify([]byte("hello "))
	require.ErrorContains(t, err, "not what was pinned")
	require.Equal(t, fail.Safety, fail.KindOf(err))
}

func FuzzFromCmdline(f *testing.F) {
	f.Add("ro nodeagent.config=https://boot.example/c.yaml quiet\n")
	f.Add(`x="a nodeagent.config=https://b.example/" nodeagent.config="http://a.example/c" nodeagent.config-sha256=` + pin)
	f.Add(`"nodeagent.config="`)
	f.Fuzz(func(t *testing.T, line string) {
		s, ok, err := FromCmdline(line)
		if !ok || err != nil {
			return
		}
		require.NoError(t, s.Check())
		// What is rendered is read back as it is, whatever stands around it.
		again, ok, err := FromCmdline("quiet x=\"nodeagent.config=1 2\" " + s.Arguments() + " ro\n")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, s, again)
	})
}
