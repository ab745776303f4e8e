// Package source says where a host fetches its configuration: a URL and the
// digest of what must come.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"strings"

	"nodeagent/internal/fail"
)

// Source is where a configuration comes from.
type Source struct {
	URL    string
	SHA256 string // hex; empty when it isn't pinned
}

// Remote tells whether a name on the command line is a URL to fetch.
func Remote(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// Check returns why a configuration must not be fetched from there. What is in
// a configuration runs as root, so without TLS somebody has to vouch for it.
func (s Source) Check() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || !Remote(s.URL) || u.Host == "" || strings.ContainsFunc(s.URL, odd):
		return fail.New(fail.Usage, "an http or https URL without blanks and quotes", "%q is no URL of a configuration", s.URL)
	case u.User != nil:
		return fail.New(fail.Usage, "let the server know its hosts in another way, or put the file on the host", "the URL of the configuration holds a user name, which everybody on the host could read: %s", u.Redacted())
	}
	if err := CheckDigest(s.SHA256); err != nil {
		return err
	}
	if u.Scheme == "http" && s.SHA256 == "" && !loopback(u.Hostname()) {
		return fail.New(fail.Safety, "use https, or give the digest too (sha256sum FILE): --config-sha256 HEX, on the kernel's command line "+sumKey+"=HEX",
			"%s is plain http without a digest: whoever is on the way could run anything as root on this host", u.Redacted())
	}
	return nil
}

// odd is a rune that would end or change an argument in a unit, an iPXE script
// or a kernel command line.
func odd(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`\\<>", r) }

// CheckDigest returns why a digest is none; an empty one is fine.
func CheckDigest(sum string) error {
	if b, err := hex.DecodeString(sum); sum != "" && (err != nil || len(b) != sha256.Size) {
		return fail.New(fail.Usage, "64 hex digits, as sha256sum prints them", "%q is no SHA-256 digest", sum)
	}
	return nil
}

// Digest is the SHA-256 of data in hex.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Verify returns an error of kind Safety when data isn't what is pinned.
func (s Source) Verify(data []byte) error {
	got := Digest(data)
	if s.SHA256 == "" || strings.EqualFold(got, s.SHA256) {
		return nil
	}
	return fail.New(fail.Safety, "when the file was changed on purpose, pin its new digest", "%s is not what was pinned: its SHA-256 is %s, wanted %s", s.URL, got, strings.ToLower(s.SHA256))
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
