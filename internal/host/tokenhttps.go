package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/pin"
	"nodeagent/internal/join/template"
	"nodeagent/internal/join/token"
)

// tokenRequest is a request to a token server, ready to be sent again and
// again. What it was made of is known by name, for messages.
type tokenRequest struct {
	shown  string // URL without its query
	url    string
	header http.Header
	client *http.Client
	sent   []string // what proves who asks: "the bearer token in /path"
	asks   []string // names of the query's parameters
}

// errRedirect is the refusal of a redirect. Its text holds no query.
type errRedirect struct{ text string }

func (e errRedirect) Error() string { return e.text }

// fetchFromServer asks a server for the token document.
func (l *Linux) fetchFromServer(ctx context.Context, s change.TokenServer, tell func(string)) (token.Document, error) {
	r, err := l.tokenRequest(s)
	if err != nil {
		return token.Document{}, err
	}
	defer r.client.CloseIdleConnections()
	var body []byte
	err = l.persist(ctx, tell, func(ctx context.Context) (err error) {
		body, err = r.send(ctx)
		return err
	})
	if err != nil {
		return token.Document{}, err
	}
	d, err := token.Parse(body)
	if err != nil {
		return d, fail.Wrap(fail.Step, err, "the server has to answer with a token document: a token, a kubeadm join command, or JSON {token, endpoint, caCertHashes}", "what %s answers can't be used", r.shown)
	}
	return d, nil
}

func (l *Linux) tokenRequest(s change.TokenServer) (*tokenRequest, error) {
	r := &tokenRequest{shown: s.URL, header: http.Header{"User-Agent": {"nodeagent"}}}
	values := l.identity()
	fill := func(where, text string) (string, error) {
		out, err := template.Expand(text, values)
		if err != nil {
			return "", fail.New(fail.Step, "use another field, or take the token from another source on this host", "%s of spec.join.token.https: %v", where, err)
		}
		return out, nil
	}
	query := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		for _, text := range s.Query[name] {
			v, err := fill("the query's "+name, text)
			if err != nil {
				return nil, err
			}
			query.Add(name, v)
		}
		r.asks = append(r.asks, name)
	}
	r.url = s.URL
	if len(query) > 0 {
		r.url += "?" + query.Encode()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		v, err := fill("the header "+name, s.Headers[name])
		if err != nil {
			return nil, err
		}
		r.header.Set(name, v)
		r.sent = append(r.sent, "the header "+name)
	}
	if f := s.BearerTokenFile; f != "" {
		b, err := l.secretFile("the bearer token for the token's server", f)
		if err != nil {
			return nil, err
		}
		bearer := strings.TrimSpace(string(b))
		if bearer == "" || strings.ContainsFunc(bearer, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fail.New(fail.Step, "the file holds the token alone, in one line", "%s holds no bearer token", f)
		}
		r.header.Set("Authorization", "Bearer "+bearer)
		r.sent = append(r.sent, "the bearer token in "+f)
	}
	conf, err := l.tokenTLS(s, r)
	if err != nil {
		return nil, err
	}
	r.client = &http.Client{
		Transport: &http.Transport{
			Proxy:               proxyOf,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:     conf,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			DisableKeepAlives:   true,
			// A token isn't worth decompressing anything for.
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: sameHost,
	}
	return r, nil
}

// sameHost follows redirects within one host and only to https: the headers go
// along, and they may be credentials.
func sameHost(next *http.Request, via []*http.Request) error {
	to := next.URL.Scheme + "://" + next.URL.Host
	switch {
	case len(via) > 5:
		return errRedirect{"it redirects more than five times"}
	case next.URL.Scheme != "https":
		return errRedirect{"it redirects to " + to + ", which is not https"}
	case !strings.EqualFold(next.URL.Hostname(), via[0].URL.Hostname()):
		return errRedirect{"it redirects to another host, " + to}
	}
	return nil
}

// tokenTLS says whom the client trusts: the CA of a file, or whoever has a
// pinned key, or both; else the host's trust store.
func (l *Linux) tokenTLS(s change.TokenServer, r *tokenRequest) (*tls.Config, error) {
	conf := tlsConfig()
	if s.CAFile != "" {
		b, err := l.secretFile("the CA of the token's server", s.CAFile)
		if err != nil {
			return nil, err
		}
		certs, err := pin.Certificates(b)
		if err != nil {
			return nil, fail.Wrap(fail.Step, err, "it has to be the CA's certificate as PEM", "spec.join.token.https.caFile %s can't be used", s.CAFile)
		}
		conf.RootCAs = x509.NewCertPool()
		for _, c := range certs {
			conf.RootCAs.AddCert(c)
		}
	}
	if len(s.Pins) > 0 {
		conf.InsecureSkipVerify = s.CAFile == "" // judged by the pins alone
		u, err := url.Parse(s.URL)
		if err != nil {
			return nil, fail.New(fail.Usage, "such as https://tokens.example/join", "%s is not a URL", s.URL)
		}
		host := u.Hostname() // redirects stay on it; ConnectionState has no name when it is an address
		conf.VerifyConnection = func(c tls.ConnectionState) error {
			if s.CAFile != "" {
				return pinnedToo(c.VerifiedChains, s.Pins)
			}
			return pinned(c.PeerCertificates, s.Pins, host)
		}
	}
	if s.ClientCert != "" {
		cert, err := l.secretFile("the client certificate for the token's server", s.ClientCert)
		if err != nil {
			return nil, err
		}
		key, err := l.secretFile("the client key for the token's server", s.ClientKey)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fail.Wrap(fail.Step, err, "both are PEM, and the key has to be the certificate's", "the client certificate %s and its key %s can't be used", s.ClientCert, s.ClientKey)
		}
		conf.Certificates = []tls.Certificate{pair}
		r.sent = append(r.sent, "the client certificate "+s.ClientCert)
	}
	return conf, nil
}

// errPin is the error of a server that has no pinned key.
type errPin struct{ shown []string }

func (e errPin) Error() string {
	return "none of the certificates that it shows has a pinned key; it shows " + strings.Join(e.shown, ", ")
}

// pinned judges a server by public keys alone. One whose own key is pinned is
// the one that is meant, whatever else its certificate says; a pinned CA that it
// shows must have signed its certificate for the host's name.
func pinned(shown []*x509.Certificate, pins []string, host string) error {
	if slices.Contains(pins, pin.Of(shown[0])) {
		return nil
	}
	var e errPin
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range shown {
		p := pin.Of(cert)
		e.shown = append(e.shown, p)
		if slices.Contains(pins, p) {
			found = true
			roots.AddCert(cert)
		} else {
			between.AddCert(cert)
		}
	}
	if !found {
		return e
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

// pinnedToo judges what has been verified already: only certificates that are
// part of a chain count, since a server can show any others beside them.
func pinnedToo(chains [][]*x509.Certificate, pins []string) error {
	var e errPin
	for _, chain := range chains {
		for _, cert := range chain {
			p := pin.Of(cert)
			if slices.Contains(pins, p) {
				return nil
			}
			if !slices.Contains(e.shown, p) {
				e.shown = append(e.shown, p)
			}
		}
	}
	return e
}

// secretFile reads a small file that a source needs.
func (l *Linux) secretFile(what, path string) ([]byte, error) {
	b, err := l.ReadFile(path)
	if err == nil && len(b) > 1<<20 {
		err = errors.New("it is larger than 1 MiB")
	}
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "see whether it is there: ls -l "+path, "%s can't be read", what)
	}
	return b, nil
}

// send is one try.
func (r *tokenRequest) send(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, fail.New(fail.Usage, "such as https://tokens.example/join", "%s is not a URL", r.shown)
	}
	req.Header = r.header.Clone()
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, r.broken(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, r.refused(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, token.MaxSize+1))
	if err == nil && ctx.Err() != nil { // a server may end its answer because we hang up
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return nil, r.broken(ctx, err)
	case len(body) > token.MaxSize:
		return nil, fail.New(fail.Step, "see what is there: a token document is some hundred bytes", "what %s answers is larger than %s", r.shown, change.Size(token.MaxSize))
	}
	return body, nil
}

// refused words an answer other than 200.
func (r *tokenRequest) refused(resp *http.Response) error {
	code := resp.StatusCode
	status := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
	sent := "no credential was sent"
	if len(r.sent) > 0 {
		sent = "sent were " + strings.Join(r.sent, ", ")
		if len(r.sent) == 1 {
			sent = "sent was " + r.sent[0]
		}
	}
	asked := ""
	if len(r.asks) > 0 {
		asked = " for what the query says (" + strings.Join(r.asks, ", ") + ")"
	}
	switch {
	case mayPass(code):
		err := fail.New(fail.Step, "look at the server; nodeagent has tried for a while", "%s answers %s", r.shown, status)
		return passing{err, retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	case code == http.StatusUnauthorized:
		return fail.New(fail.Step, "see whether it is the right one and still valid (spec.join.token.https)", "%s doesn't know who asks (%s); %s", r.shown, status, sent)
	case code == http.StatusForbidden:
		return fail.New(fail.Step, "let the server hand this host its token", "%s doesn't give this host a token (%s); %s", r.shown, status, sent)
	case code == http.StatusNotFound || code == http.StatusGone:
		return fail.New(fail.Step, "see whether the URL is right and whether the server knows this host: nodeagent facts shows its serial, UUID and MAC addresses", "%s has no token%s (%s)", r.shown, asked, status)
	case code >= 300 && code < 400:
		return fail.New(fail.Step, "give the URL that it leads to", "%s redirects without saying where (%s)", r.shown, status)
	}
	return fail.New(fail.Step, "see what the server's log says", "%s doesn't answer with a token (%s)", r.shown, status)
}

// broken words a connection that failed. The error of net/http is unwrapped
// first, since it holds the whole URL.
func (r *tokenRequest) broken(ctx context.Context, err error) error {
	var (
		redirect  errRedirect
		wrongPin  errPin
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		remote    *net.OpError
		record    tls.RecordHeaderError
	)
	say := func(hint, format string, a ...any) error { return fail.New(fail.Step, hint, format, a...) }
	host := "the token's server " + r.shown
	switch {
	case errors.As(err, &redirect):
		return say("give the URL that it leads to; a token is fetched from one host only, over https", "%s is not followed: %s", r.shown, redirect.text)
	case errors.As(err, &wrongPin):
		return say("if the server is the right one, put one of these into spec.join.token.https.pins; if it isn't, somebody else answers there", "%s can't be trusted: %v", host, wrongPin)
	case errors.As(err, &authority):
		return say("set spec.join.token.https.caFile to its CA's certificate, or pins to its key", "%s can't be trusted: its certificate was not signed by a CA that is trusted here", host)
	case errors.As(err, &name):
		return say("use one of its names in the URL", "%s can't be trusted: its certificate is for %s", host, strings.Join(names(name.Certificate), ", "))
	case errors.As(err, &invalid):
		if invalid.Reason != x509.Expired {
			return say("it needs another certificate", "%s can't be trusted: its certificate can't be used (%v)", host, invalid)
		}
		return say("set the clock: chronyc makestep, or timedatectl; if it is right, the server needs a new certificate", "%s can't be trusted: its certificate is valid from %s to %s, and this host's clock says %s",
			host, stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter), stamp(time.Now()))
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response"):
		return say("see what listens on that port", "%s doesn't speak TLS", host)
	case strings.Contains(err.Error(), "Location header"): // the error quotes it
		return say("give the URL that it leads to", "%s redirects without saying where", r.shown)
	case errors.As(err, &remote) && remote.Op == "remote error":
		sent := "no client certificate was sent"
		if i := slices.IndexFunc(r.sent, func(s string) bool { return strings.HasPrefix(s, "the client certificate") }); i >= 0 {
			sent = "sent was " + r.sent[i]
		}
		return say("see whether it wants a client certificate of a certain CA", "%s ends the connection (%v); %s", host, remote.Err, sent)
	}
	tr := connectTrouble(host, unwrapURL(err))
	if tr.patience == 0 {
		return tr.Error
	}
	return passing{error: tr.Error}
}

// identity is what tells this host from others.
func (l *Linux) identity() map[string]string {
	s, _ := l.System() // what isn't known is empty, and refused where it is needed
	return map[string]string{"Serial": s.Serial, "UUID": s.UUID, "Hostname": strings.ToLower(strings.TrimSpace(s.Hostname)), "MAC": l.mac()}
}

// mac is the hardware address of the interface that leads out, or of the only
// card; empty when it can't be told.
func (l *Linux) mac() string {
	n, err := l.Network()
	if err != nil {
		return ""
	}
	if routes := n.Usable("any"); len(routes) > 0 {
		if i, err := net.InterfaceByName(routes[0].Interface); err == nil && len(i.HardwareAddr) == 6 {
			return i.HardwareAddr.String()
		}
	}
	if len(n.MACs) == 1 {
		return n.MACs[0]
	}
	return ""
}
