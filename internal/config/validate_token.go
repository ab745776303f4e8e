package config

import (
	"maps"
	"net/textproto"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodeagent/internal/join/template"
	"nodeagent/internal/join/token"
	"nodeagent/internal/kubelet/nodelabel"
)

var (
	// headerName is a token of RFC 9110, 5.6.2.
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	// credentialName is what systemd takes, without what needs quoting in a unit
	// (systemd.exec(5), LoadCredential=).
	credentialName = regexp.MustCompile(`^[A-Za-z0-9_@-][A-Za-z0-9_.@-]{0,254}$`)
	guestInfoKey   = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)
)

// Bounds of a minted token's life: a join takes minutes, and kubeadm's own
// default is a day.
const (
	minTTL = time.Minute
	maxTTL = 24 * time.Hour
)

// ownHeaders are those that the request itself needs.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Accept-Encoding"}

// token checks where the join token comes from.
func (k *checker) token(t *Token) {
	const at = "spec.join.token"
	switch names := t.Named(); {
	case len(names) == 0:
		k.bad(at, "for example file: /etc/nodeagent/join-command, which holds what kubeadm token create --print-join-command prints", "names no source for the join token")
	case len(names) > 1:
		k.bad(at, "keep one", "names %d sources: %s", len(names), strings.Join(names, " and "))
	}
	if t.File != "" {
		k.absolute(at+".file", t.File)
	}
	if t.HTTPS != nil {
		k.tokenServer(at+".https", t.HTTPS)
	}
	if m := t.Kubeconfig; m != nil {
		k.absolute(at+".kubeconfig.file", m.File)
		if ttl := m.TTL.Duration; ttl < minTTL || ttl > maxTTL {
			k.bad(at+".kubeconfig.ttl", "20m is what a join needs, and slow hosts more", "%s is not between %s and %s", ttl, minTTL, maxTTL)
		}
	}
	if c := t.Credential; c != "" && (!credentialName.MatchString(c) || path.Base(c) != c) {
		k.bad(at+".credential", "the name that LoadCredential= or SetCredential= gives it, such as join-token", "%q can't be the name of a credential", c)
	}
	if g := t.GuestInfo; g != "" {
		if rest, ok := strings.CutPrefix(g, "guestinfo."); ok {
			k.bad(at+".guestinfo", "write "+rest, "the prefix guestinfo. is added by itself")
		} else if !guestInfoKey.MatchString(g) {
			k.bad(at+".guestinfo", "letters, digits, dots, dashes and underscores, such as nodeagent.token", "%q can't be a key of guestinfo", g)
		}
	}
}

// shredded refuses a kubeconfig that another part of the configuration would
// write again in every run.
func (k *checker) shredded(s *Spec) {
	m := s.Join.Token.Kubeconfig
	if m == nil || !m.Shred {
		return
	}
	for _, f := range s.Files {
		if f.Path == m.File {
			k.bad("spec.join.token.kubeconfig.shred", "bring it once, by Ignition, cloud-init or by hand", "spec.files would write %s again in every run", m.File)
		}
	}
}

// tokenServer names keys and places in its errors, never values: they may be
// secret.
func (k *checker) tokenServer(at string, s *TokenServer) {
	u, query, err := s.Parsed()
	switch {
	case s.URL == "":
		k.bad(at+".url", "such as https://tokens.example/join", "missing")
		return
	case err != nil || u.Host == "" || u.Hostname() == "" || strings.ContainsAny(s.URL, "\n\t\r"):
		k.bad(at+".url", "such as https://tokens.example/join?serial={{ .Serial }}", "is not a URL that can be used here")
		return
	case strings.Contains(u.Host+u.Path, "{{"):
		k.bad(at+".url", "put it into the query, or into a header", "only values of the query may hold {{ … }}")
	case u.User != nil:
		k.bad(at+".url", "use bearerTokenFile, clientCert or headers", "a password in a URL would reach logs")
	case strings.Contains(s.URL, "#"):
		k.bad(at+".url", "", "a fragment (#…) is never sent to a server")
	case u.Scheme == "http" && !token.Loopback(u.Hostname()):
		k.bad(at+".url", "use https: whoever reads a join token can join a node", "plain http is refused, except to this host itself (127.0.0.1, ::1, localhost)")
	case u.Scheme == "http" && (s.CAFile != "" || len(s.Pins) > 0 || s.ClientCert != ""):
		k.bad(at+".url", "use https, or leave away caFile, pins and clientCert", "plain http proves nobody's identity")
	case u.Scheme != "http" && u.Scheme != "https":
		k.bad(at+".url", "such as https://tokens.example/join", "is not an https URL")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, v := range query[name] {
			if err := template.Check(v); err != nil {
				k.bad(at+".url", template.Hint, "the query's %s %v", name, err)
			}
		}
		if _, twice := s.Query[name]; twice {
			k.bad(at+".query."+name, "keep one", "stands in the URL as well")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		if name == "" {
			k.bad(at+".query", "", "a parameter has no name")
		}
		if err := template.Check(s.Query[name]); err != nil {
			k.bad(at+".query."+name, template.Hint, "%v", err)
		}
	}
	for i, p := range s.Pins {
		if !caHash.MatchString(p) {
			k.bad(at+".pins["+strconv.Itoa(i)+"]", "sha256: and 64 lower-case hex digits", "%q is not a pin", p)
		}
	}
	for _, f := range [][2]string{{"caFile", s.CAFile}, {"bearerTokenFile", s.BearerTokenFile}, {"clientCert", s.ClientCert}, {"clientKey", s.ClientKey}} {
		if f[1] != "" {
			k.absolute(at+"."+f[0], f[1])
		}
	}
	if (s.ClientCert == "") != (s.ClientKey == "") {
		k.bad(at, "give clientCert and clientKey; one file may hold both", "a client certificate goes with its key")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch v := s.Headers[name]; {
		case !headerName.MatchString(name):
			k.bad(at+".headers", "letters, digits and dashes", "%q can't be the name of a header", name)
		case slices.Contains(ownHeaders, canonical):
			k.bad(at+".headers."+name, "leave it away", "%s belongs to the request itself", canonical)
		case canonical == "Authorization" && s.BearerTokenFile != "":
			k.bad(at+".headers."+name, "keep one", "given beside bearerTokenFile")
		case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			k.bad(at+".headers."+name, "", "line breaks and control characters can't go into a header")
		default:
			if err := template.Check(v); err != nil {
				k.bad(at+".headers."+name, template.Hint, "%v", err)
			}
		}
	}
}

// Parsed cuts the URL's query off before the rest is parsed, since a {{ … }} in
// it is no part of a URL yet. Its values keep their templates.
func (s TokenServer) Parsed() (*url.URL, url.Values, error) {
	base, raw, _ := strings.Cut(s.URL, "?")
	u, err := url.Parse(base)
	if err != nil {
		return nil, nil, err
	}
	query, err := url.ParseQuery(raw)
	return u, query, err
}

// ownLabel refuses labels that a node may not give itself, unless there is a
// credential that may.
func (k *checker) ownLabel(s *Spec, at, key string) {
	if text, hint := nodelabel.Check(key); text != "" && s.Join.Token.Kubeconfig == nil {
		k.bad(at, hint+"; or join with spec.join.token.kubeconfig, which then sets it", "%s", text)
	}
}
