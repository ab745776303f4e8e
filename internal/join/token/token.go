// Package token reads the documents that carry a join token, in every form
// that users keep them.
package token

import (
	"regexp"
	"strings"
	"time"

	"nodeagent/internal/fail"
)

// Document is what a token document says. It never goes into a log, a plan,
// or a journal; String is redacted.
type Document struct {
	Token        string // abcdef.0123456789abcdef; empty when Kubeconfig is set and has none
	Endpoint     string // host:port, may be empty
	CACertHashes []string
	CACert       []byte // PEM
	Expiration   time.Time
	Kubeconfig   []byte // discovery file form: the whole kubeconfig, whose user isn't a bootstrap token
	// Ignored names what the document says besides, and nodeagent takes from
	// its configuration: "--cri-socket", "nodeRegistration".
	Ignored []string
}

// String never shows the secret.
func (d Document) String() string { return "(join token, redacted)" }

// GoString never shows the secret either.
func (d Document) GoString() string { return d.String() }

// Expired tells whether the document itself says that its token is over.
func (d Document) Expired(now time.Time) bool {
	return !d.Expiration.IsZero() && !now.Before(d.Expiration)
}

// MaxSize bounds a document, in bytes. A kubeconfig with a CA bundle is some
// 5 KiB.
const MaxSize = 64 << 10

// form is bootstrap.kubernetes.io/token's own: six and sixteen characters
// (k8s.io/cluster-bootstrap/token/api, BootstrapTokenPattern).
var (
	form   = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	inText = regexp.MustCompile(`[a-z0-9]{6}\.[a-z0-9]{16}`)
	pin    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	alone  = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	klog   = regexp.MustCompile(`^[IWEF][0-9]{4} [0-9:.]+ `)
	// structured is a document that YAML has to read, whatever text is in it.
	structured = regexp.MustCompile(`(?m)^\s*("?(apiVersion|kind|token|endpoint|caCertHashes|caCert|expiration)"?\s*:|\{)`)
	joinLine   = regexp.MustCompile(`(^|[^a-z0-9_.-])kubeadm\s+join(\s|$)`)
)

// hintForms is the next action for a document that can't be read.
const hintForms = "put the output of `kubeadm token create --print-join-command` there"

// Valid tells whether s is a bootstrap token and nothing else.
func Valid(s string) bool { return form.MatchString(s) }

// Parse reads a token document: a bare token, a kubeadm join command line,
// JSON or YAML {token, endpoint, caCertHashes, caCert, expiration}, a
// JoinConfiguration, or a kubeconfig. Its errors never hold a part of it.
func Parse(b []byte) (Document, error) {
	if len(b) > MaxSize {
		return Document{}, bad("is larger than 64 KiB")
	}
	text := clean(string(b))
	if text == "" {
		return Document{}, bad("is empty")
	}
	if t, ok := bare(text); ok {
		return Document{Token: t}, nil
	}
	switch {
	case structured.MatchString(text):
		return parseYAML(b)
	case joinLine.MatchString(text), strings.Contains(text, "--token"):
		return parseCommand(text)
	}
	if strings.ContainsAny(text, " \n\t") {
		return Document{}, bad("is neither a token, nor a kubeadm join command, nor JSON or YAML")
	}
	return Document{}, notAToken()
}

func bad(format string, a ...any) error {
	return fail.New(fail.Step, hintForms, "the token document "+format, a...)
}

func notAToken() error {
	return bad("holds something that is not a bootstrap token: six characters, a dot, sixteen characters, all of a-z and 0-9")
}

// bare finds a token that stands alone, quoted or not, also below lines that
// kubeadm logged.
func bare(text string) (string, bool) {
	found := ""
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.TrimSpace(line), "\"'`")
		if line == "" || klog.MatchString(line) {
			continue
		}
		if !form.MatchString(line) || found != "" && found != line {
			return "", false
		}
		found = line
	}
	return found, found != ""
}

// clean undoes what word processors, chats and editors do to a line that was
// copied through them: other spaces, other dashes, other quotes, a byte order
// mark, carriage returns.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '\u00a0', '\u2007', '\u202f', '\u2009', '\u200a', '\u2002', '\u2003', '\u3000':
			return ' '
		case '\u2010', '\u2011', '\u2012', '\u2212':
			return '-'
		case '\u2018', '\u2019', '\u201c', '\u201d', '\u00ab', '\u00bb':
			return '"'
		case '\ufeff', '\u200b', '\u200c', '\u200d', '\u2060', '\u00ad':
			return -1
		}
		return r
	}, s)
	// A single long dash is what autocorrection makes of two short ones.
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2013", "--", "\u2014", "--").Replace(s)
	return strings.TrimSpace(s)
}

// Redact takes tokens out of text that a program printed: this one, and
// whatever has the form of one.
func (d Document) Redact(text string) string {
	if d.Token != "" {
		id, secret, _ := strings.Cut(d.Token, ".")
		text = strings.ReplaceAll(text, d.Token, "(token "+id+", redacted)")
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(redacted)")
		}
	}
	return alone.ReplaceAllString(text, "(redacted)")
}
