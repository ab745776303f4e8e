// Package pin names a certificate authority by its public key, the way kubeadm
// does: "sha256:" and the hex SHA-256 of the DER SubjectPublicKeyInfo.
package pin

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
)

// Of is the pin of one certificate.
func Of(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Certificates reads every certificate of a PEM bundle; none is an error.
func Certificates(bundle []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var b *pem.Block
		if b, bundle = pem.Decode(bundle); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no PEM certificate in it")
	}
	return out, nil
}

// OfBundle is the pin of every certificate of a PEM bundle, in its order.
func OfBundle(bundle []byte) ([]string, error) {
	certs, err := Certificates(bundle)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(certs))
	for i, c := range certs {
		out[i] = Of(c)
	}
	return out, nil
}
