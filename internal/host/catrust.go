package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyUpdateTrust runs the distribution's program. What it says when it fails
// is the evidence.
func (l *Linux) applyUpdateTrust(ctx context.Context, c change.UpdateTrust, _ func(string)) error {
	r, err := l.exec(ctx, program{name: c.Program})
	if err != nil {
		return err
	}
	if r.exit != 0 {
		return fail.New(fail.Step, "run it by hand and mend what it complains of: "+c.Program, "%s failed with exit status %d: %s", c.Program, r.exit, r.last())
	}
	return nil
}

// addedAuthorities is where nodeagent puts certificate authorities: one pattern
// for each distribution's store.
var addedAuthorities = []string{
	"/etc/pki/ca-trust/source/anchors/nodeagent-*.pem",
	"/etc/pki/trust/anchors/nodeagent-*.pem",
	"/etc/ssl/certs/nodeagent-*.pem",
	"/usr/local/share/ca-certificates/nodeagent-*.crt",
}

// tlsConfig trusts what the host trusts, with what this very run has added: Go
// reads the host's bundle once in the life of a process.
func tlsConfig() *tls.Config {
	var pool *x509.CertPool
	for _, pattern := range addedAuthorities {
		paths, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // the bundle may have it
			}
			if pool == nil {
				if pool, err = x509.SystemCertPool(); err != nil {
					pool = x509.NewCertPool()
				}
			}
			pool.AppendCertsFromPEM(b)
		}
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
