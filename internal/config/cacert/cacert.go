// Package cacert reads certificates of authorities.
package cacert

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Parse reads exactly one certificate of an authority from PEM. The error goes
// on after the name of what was read: "holds 2 certificates".
func Parse(text string) (*x509.Certificate, error) {
	var found *x509.Certificate
	n := 0
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if strings.Contains(b.Type, "PRIVATE KEY") {
			return nil, errors.New("holds a private key, which doesn't belong here")
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("holds a certificate that can't be read: %w", err)
		}
		n++
		found = c
	}
	switch {
	case n == 0:
		return nil, errors.New("holds no PEM certificate")
	case n > 1:
		return nil, fmt.Errorf("holds %d certificates: give each an entry of its own", n)
	case !found.IsCA:
		return nil, fmt.Errorf("is the certificate of %s and not of an authority (basicConstraints lacks CA:TRUE)", found.Subject)
	}
	return found, nil
}

// Encode writes a certificate as PEM and nothing else.
func Encode(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// Set is a set of certificates, by their bytes.
type Set map[string]bool

// All are the certificates of a bundle, whatever stands between them.
func All(bundle string) Set {
	s := Set{}
	for rest := []byte(bundle); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return s
		}
		s[string(b.Bytes)] = true
	}
}

// Has tells whether a certificate is in the set.
func (s Set) Has(c *x509.Certificate) bool { return s[string(c.Raw)] }
