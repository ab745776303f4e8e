package pgpkey

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return b
}

const (
	rsa     = "744f465c25ca19268ab50e74ed4b0c28ed58561d"
	ed25519 = "2812d7af343b658e7a73d511865c78c2f57bfd83"
)

func TestKeysAreIdentifiedAsGnuPGDoes(t *testing.T) {
	for name, want := range map[string][]string{
		"rsa.asc":               {rsa},
		"ed25519.asc":           {ed25519},
		"ed25519.gpg":           {ed25519},
		"both-in-one-block.asc": {rsa, ed25519},
	} {
		keys, err := Parse(read(t, name))
		require.NoError(t, err, name)
		var got []string
		for _, k := range keys {
			got = append(got, k.Fingerprint)
		}
		require.Equal(t, want, got, name)
	}
}

func TestAKeyIsNamedAsTheRPMDatabaseNamesIt(t *testing.T) {
	keys, err := Parse(read(t, "rsa.asc"))
	require.NoError(t, err)
	require.Equal(t, []string{"gpg(ed58561d)", "gpg(ed4b0c28ed58561d)", "gpg(" + rsa + ")"}, keys[0].Provides())
	require.Equal(t, uint32(1796127255), keys[0].Created)
}

func TestSeveralBlocksInOneFileAreAllRead(t *testing.T) {
	keys, err := Parse(append(read(t, "rsa.asc"), read(t, "ed25519.asc")...))
	require.NoError(t, err)
	require.Len(t, keys, 2)
}

func TestArmorNotesTheSourceAndKeepsTheKey(t *testing.T) {
	for _, name := range []string{"rsa.asc", "ed25519.gpg"} {
		source := "https://packages.example/v1.35/rpm/repodata/repomd.xml.key"
		b, err := Armor(source, read(t, name))
		require.NoError(t, err)
		require.Equal(t, []string{source}, Sources(string(b)))
		want, err := Parse(read(t, name))
		require.NoError(t, err)
		got, err := Parse(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestWhatIsNoPublicKeyIsRefused(t *testing.T) {
	key := string(read(t, "ed25519.asc"))
	for name, data := range map[string]string{
		"nothing":          "",
		"a web page":       "<!DOCTYPE html><html><body>404</body></html>",
		"a private key":    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlFgE\n-----END PGP PRIVATE KEY BLOCK-----\n",
		"a signature":      "-----BEGIN PGP SIGNATURE-----\n\niQEz\n-----END PGP SIGNATURE-----\n",
		"a certificate":    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"no end":           key[:len(key)/2],
		"a changed letter": strings.Replace(key, "BAHaRw8B", "BAHaRw8C", 1),
		"an empty block":   begin + "\n\n" + end,
		"a packet cut off": string(read(t, "ed25519.gpg")[:30]),
		"too large":        key + strings.Repeat(" ", MaxSize),
	} {
		_, err := Parse([]byte(data))
		require.Error(t, err, name)
	}
}

func TestASourceWithALineBreakCantSmuggleLines(t *testing.T) {
	_, err := Armor("https://k.example/\n-----END", read(t, "rsa.asc"))
	require.Error(t, err)
}

func FuzzParseNeverPanicsAndArmorRoundTrips(f *testing.F) {
	for _, n := range []string{"rsa.asc", "ed25519.gpg", "both-in-one-block.asc"} {
		f.Add(read(f, n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := Parse(data)
		if err != nil {
			return
		}
		a, err := Armor("file", data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(a)
		if err != nil || len(again) != len(keys) {
			t.Fatal(err, len(again), len(keys))
		}
	})
}
