// Package token reads the documents that carry a join token, in every form
// that users keep them.
package token

import "time"

// Document is what a token document says. It never goes into a log, a plan,
// or a journal; String is redacted.
type Document struct {
	Token        string // abcdef.0123456789abcdef; empty when Kubeconfig is set and has none
	Endpoint     string // host:port, may be empty
	CACertHashes []string
	CACert       []byte // PEM
	Expiration   time.Time
	Kubeconfig   []byte // discovery file form: the whole kubeconfig
}

// String never shows the secret.
func (d Document) String() string { return "(join token, redacted)" }

// GoString never shows the secret either.
func (d Document) GoString() string { return d.String() }
