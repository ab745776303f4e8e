package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCertificateAuthoritiesAreChecked(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"[{name: Example, file: /x.pem}]", `spec.caTrust[0].name: "Example" can't name a certificate authority`},
		{"[{file: /x.pem}]", `spec.caTrust[0].name: "" can't name a certificate authority`},
		{"[{name: ../x, file: /x.pem}]", `"../x" can't name`},
		{"[{name: a, file: /x.pem}, {name: a, file: /y.pem}]", "spec.caTrust[1].name: the certificate authority a is given twice"},
		{"[{name: a}]", "spec.caTrust[0]: needs exactly one of pem and file"},
		{"[{name: a, pem: x, file: /x.pem}]", "needs exactly one of pem and file"},
		{"[{name: a, file: x.pem}]", `spec.caTrust[0].file: "x.pem" is not a clean absolute path`},
		{"[{name: a, pem: hello}]", "spec.caTrust[0].pem: holds no PEM certificate"},
		{"[{name: a, file: /x.pem}]\n  files: [{path: /x.pem, content: a}]", "/x.pem is written by spec.files, which comes after the host's trust"},
	} {
		_, err := load(t, smallest+"  caTrust: "+c.list+"\n")
		require.ErrorContains(t, err, c.want, "%s", strings.TrimSpace(c.list))
	}
	c, err := load(t, smallest+"  caTrust: [{name: a, file: /x.pem}]\n")
	require.NoError(t, err)
	require.Equal(t, "/x.pem", c.Spec.CATrust[0].File)
}
