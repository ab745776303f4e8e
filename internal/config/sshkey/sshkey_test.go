package sshkey

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	blob  = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	other = "AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg"
)

func TestALineIsOptionsTypeAndKey(t *testing.T) {
	for line, want := range map[string]Key{
		"ssh-ed25519 " + blob:                                                {"", "ssh-ed25519", blob},
		"\t ssh-ed25519 \t" + blob + " ops@example":                          {"", "ssh-ed25519", blob},
		`restrict,command="echo \"a b\" ssh-rsa" ssh-ed25519 ` + blob + " x": {`restrict,command="echo \"a b\" ssh-rsa"`, "ssh-ed25519", blob},
	} {
		k, err := Parse(line)
		require.NoError(t, err, line)
		require.Equal(t, want, k)
	}
	for line, want := range map[string]string{
		"":                                    "holds no key",
		"# ssh-ed25519 " + blob:               "holds no key",
		"-----BEGIN OPENSSH PRIVATE KEY-----": "is a private key",
		"ssh-ed25519 " + blob + "\nssh-ed25519 " + other: "has a line break",
		"ssh-ed25519":                              "cut off",
		"ssh-ed25519 " + blob[:20]:                 "cut off",
		"ssh-rsa " + blob:                          "is none of type ssh-rsa",
		"ssh-ed25519 not_base64":                   "not base64",
		"ssh-ed448 " + blob:                        "no key of a type",
		"ops " + blob:                              "no key of a type",
		"ssh-ed25519-cert-v01@openssh.com " + blob: "is a certificate",
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, want, "%q", line)
	}
}

func TestOnlyWhatIsMissingIsAddedAndOnlyWhatIsOursGoes(t *testing.T) {
	const a, b = "ssh-ed25519 " + blob + " a", "ssh-ed25519 " + other + " b"
	theirs := "# theirs\n\nrestrict " + b + "\r\nssh-ed25519 " + blob + " another comment"
	require.Equal(t, []string{b}, Missing(theirs, []string{a, b, b}), "one with options is another key")
	after := Add(theirs, []string{a, b})
	require.Equal(t, theirs+"\n"+b+"\n", after)
	require.Equal(t, after, Add(after, []string{a, b}))
	require.Equal(t, []string{b}, Held(after, []string{a, b, b}), "theirs has the key by another comment")
	require.Equal(t, theirs+"\n", Without(after, []string{a, b}))
	require.Equal(t, theirs, Without(theirs, nil))
	require.Equal(t, theirs, Without(theirs, []string{""}))
}

// Whatever a file holds, adding is done once, keeps every line, and is undone
// by taking the same lines away.
func FuzzAdd(f *testing.F) {
	f.Add("# x\nssh-ed25519 "+blob+"\n", "ssh-ed25519 "+other+" b")
	f.Add("\"", "restrict ssh-ed25519 "+blob)
	f.Add("a", `command="\\" ssh-ed25519 `+blob)
	f.Fuzz(func(t *testing.T, content, line string) {
		_, err := Parse(line)
		added := Add(content, []string{line})
		require.True(t, strings.HasPrefix(added, content))
		require.Equal(t, added, Add(added, []string{line}))
		if err != nil {
			require.Equal(t, content, added)
			return
		}
		require.Empty(t, Missing(added, []string{line}))
		if added != content {
			back := Without(added, []string{line})
			require.Equal(t, strings.TrimSuffix(content, "\n"), strings.TrimSuffix(back, "\n"))
		}
	})
}
