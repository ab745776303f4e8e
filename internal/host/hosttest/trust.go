package hosttest

import (
	"maps"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
)

// TrustedByDefault begins every bundle of certificate authorities.
const TrustedByDefault = "# authorities of the distribution\n"

// Authority is the certificate of an authority that ends in 2125; nobody has
// its key.
const Authority = `-----BEGIN CERTIFICATE-----
MIIBazCCARGgAwIBAgIBATAKBggqhkjOPQQDAjAcMRowGAYDVQQDExFFeGFtcGxl
IGF1dGhvcml0eTAgFw0yNTAxMDEwMDAwMDBaGA8yMTI1MDEwMTAwMDAwMFowHDEa
MBgGA1UEAxMRRXhhbXBsZSBhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAATAKoWBRhjWmTZZGWsi4iETs+NF+pXu2nOKCyL6XRjrqjNKPyATRUBXQSzO
5i4beOp6npmZWybfWlRi08zZyDY9o0IwQDAOBgNVHQ8BAf8EBAMCAgQwDwYDVR0T
AQH/BAUwAwEB/zAdBgNVHQ4EFgQU4w4rmcrAlzW5zye6H2MUv6OW9NUwCgYIKoZI
zj0EAwIDSAAwRQIhAMZ7WshiCACKUnD1SCH7qcKaIbp5VrvOHTGlJacEayk5AiAb
IXBYrRgVyIb4H6YvQ8i4r8jZHlkcXHjdiutY6p6B3A==
-----END CERTIFICATE-----
`

// anchorDirs is where each program takes added authorities from.
var anchorDirs = map[string]string{
	"update-ca-trust":           "/etc/pki/ca-trust/source/anchors",
	"update-ca-certificates":    "/etc/pki/trust/anchors",
	"rehash_ca_certificates.sh": "/etc/ssl/certs",
}

// trusting gives a host the program and the places of a distribution's trust
// store.
func (w *World) trusting(program, bundle string) *World {
	w.Files["/usr/bin/"+program] = File{Mode: "0755"}
	w.Files[anchorDirs[program]] = File{Dir: true}
	w.Files[bundle] = File{Content: TrustedByDefault}
	return w
}

func (w *World) updateTrust(c change.UpdateTrust) {
	all := TrustedByDefault
	for _, p := range slices.Sorted(maps.Keys(w.Files)) {
		if path.Dir(p) == anchorDirs[c.Program] && strings.HasSuffix(p, ".pem") {
			all += w.Files[p].Content
		}
	}
	w.put(c.Bundle, all)
}
