package pin

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Made with openssl; its pin with kubeadm's own documented command:
// openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | sha256sum
const (
	ca = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUHn1sikUeUSdWbAuUX2IFdj+U/dYwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjEyMDExMzEyMjJaGA8yMTI2MTEw
NzEzMTIyMlowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABD+pKiiR5cjuMJG8lLChKQ9LRfcPl+ah77C8jvNLEsU6SX1a4wqL
Cq9ceqMosxn/GvBP3G6KZy5LHQQ9ufCQZSmjUzBRMB0GA1UdDgQWBBTmX8LkSV0q
dLTGBwMxG8pZe9p4LDAfBgNVHSMEGDAWgBTmX8LkSV0qdLTGBwMxG8pZe9p4LDAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDXPGidh+tOf/bqBRm1
QOQ/6R3gFrXzLeYxzkp64QvUMgIgDH2z5H8wFRRY4ZVcHeu7MqIvvCftVlpz2kTR
uAr01iE=
-----END CERTIFICATE-----
`
	caPin = "sha256:288169ee2f0d0ca8ff1bb615b13c6ea16e5bfc2732db71029c37ce06a27af914"
)

func TestAPinIsWhatKubeadmAndOpensslMakeOfTheKey(t *testing.T) {
	got, err := OfBundle([]byte("# a comment\n" + ca + ca))
	require.NoError(t, err)
	require.Equal(t, []string{caPin, caPin}, got)
	for _, bad := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		_, err := OfBundle([]byte(bad))
		require.Error(t, err)
	}
}

func FuzzOfBundle(f *testing.F) {
	f.Add([]byte(ca))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = OfBundle(b) })
}
