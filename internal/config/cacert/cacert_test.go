package cacert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/host/hosttest"
)

// leaf is a certificate that is nobody's authority.
const leaf = `-----BEGIN CERTIFICATE-----
MIIBIzCByaADAgECAgECMAoGCCqGSM49BAMCMBExDzANBgNVBAMTBndvcmtlcjAg
Fw0yNTAxMDEwMDAwMDBaGA8yMTI1MDEwMTAwMDAwMFowETEPMA0GA1UEAxMGd29y
a2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjerru5/zPfm6GjK3Y7mnCxPZ
wAZjyP6HCjfbu5zpPm+yOMRiPTDn3VZxPjV4sImhsM3FnERKfkOlE436wO825aMQ
MA4wDAYDVR0TAQH/BAIwADAKBggqhkjOPQQDAgNJADBGAiEAryGKy0loo4z52taM
ZN9jA1bv6b+jeq4rnNjm5rvjFTMCIQCb/qB5zqc9r2GfZ9RHxlJRG9iW4fzXcmDM
So8dTXETMQ==
-----END CERTIFICATE-----
`

func TestExactlyOneCertificateOfAnAuthorityIsRead(t *testing.T) {
	c, err := Parse("Subject: Example authority\n" + hosttest.Authority + "\n")
	require.NoError(t, err)
	require.Equal(t, "Example authority", c.Subject.CommonName)
	require.Equal(t, hosttest.Authority, Encode(c))

	for text, want := range map[string]string{
		"":                                      "holds no PEM certificate",
		"MIIBazCCARGgAwIBAgI":                   "holds no PEM certificate",
		hosttest.Authority + hosttest.Authority: "holds 2 certificates",
		leaf:                                    "is the certificate of CN=worker and not of an authority",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n":                            "holds a certificate that can't be read",
		hosttest.Authority + "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n": "holds a private key",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestABundleHasWhatStandsInIt(t *testing.T) {
	c, err := Parse(hosttest.Authority)
	require.NoError(t, err)
	require.True(t, All("# Example\n"+leaf+"\n# another\n"+hosttest.Authority).Has(c))
	require.False(t, All(leaf).Has(c))
	require.False(t, All("").Has(c))
}

// What was read once is read again as the same.
func FuzzParse(f *testing.F) {
	f.Add(hosttest.Authority)
	f.Add(leaf)
	f.Add(strings.ReplaceAll(hosttest.Authority, "\n", "\r\n"))
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Encode(c))
		require.NoError(t, err)
		require.True(t, again.Equal(c))
		require.True(t, All(text).Has(c))
	})
}
