package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/pin"
)

const tokenLine = "kubeadm join cp.example:6443 --token " + testToken + " --discovery-token-ca-cert-hash sha256:0000000000000000000000000000000000000000000000000000000000000000\n"

// hasty lets pauses take milliseconds.
func hasty(ctx context.Context) context.Context {
	return context.WithValue(ctx, paceKey{}, time.Millisecond)
}

// given writes a file that a source names.
func given(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// pair is a certificate and its key as PEM, for a client.
func (a authority) pair(t *testing.T, name string) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.cert, &k.PublicKey, a.key)
	require.NoError(t, err)
	b, err := x509.MarshalECPrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
}

// tokenServer is a server of token documents that counts its requests.
type tokenServer struct {
	*httptest.Server
	requests atomic.Int64
	last     atomic.Pointer[http.Request]
}

func serveTokens(t *testing.T, conf *tls.Config, handle func(s *tokenServer, w http.ResponseWriter, r *http.Request)) *tokenServer {
	s := &tokenServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.last.Store(r)
		handle(s, w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = conf
	if conf == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

// say answers always the same.
func say(code int, body string) func(*tokenServer, http.ResponseWriter, *http.Request) {
	return func(_ *tokenServer, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// until answers with a code until the nth request.
func until(n int64, code int, header ...string) func(*tokenServer, http.ResponseWriter, *http.Request) {
	return func(s *tokenServer, w http.ResponseWriter, _ *http.Request) {
		if s.requests.Load() < n {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			return
		}
		fmt.Fprint(w, tokenLine)
	}
}

func redirect(to func(*tokenServer) string) func(*tokenServer, http.ResponseWriter, *http.Request) {
	return func(s *tokenServer, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			fmt.Fprint(w, tokenLine)
			return
		}
		http.Redirect(w, r, to(s), http.StatusFound)
	}
}

func TestATokenServerIsTrustedAskedAndGivenUpInItsOwnWay(t *testing.T) {
	ca, other := newAuthority(t, "tokens"), newAuthority(t, "other")
	now := time.Now()
	cert := ca.issue(t, now.Add(-time.Hour), now.Add(time.Hour))
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	require.NoError(t, err)
	chain := tls.Certificate{Certificate: append([][]byte{cert.Certificate[0]}, ca.cert.Raw), PrivateKey: cert.PrivateKey}
	caFile, otherFile := given(t, "ca.pem", ca.pem()), given(t, "other.pem", other.pem())
	bearer := given(t, "bearer", []byte("b34r3r\n"))
	clientPEM, keyPEM := ca.pair(t, "host")
	clientCert, clientKey := given(t, "client.pem", clientPEM), given(t, "client.key", keyPEM)
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	mutual := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	ok := say(200, tokenLine)

	for name, c := range map[string]struct {
		conf     *tls.Config // nil: the certificate of ca
		source   change.TokenServer
		host     string // instead of 127.0.0.1
		handle   func(*tokenServer, http.ResponseWriter, *http.Request)
		requests int64
		want     string // "": a token
		limit    time.Duration
	}{
		"the CA of a file":                       {source: change.TokenServer{CAFile: caFile}, handle: ok, requests: 1},
		"no CA: the host's trust store":          {handle: ok, want: "was not signed by a CA that is trusted here"},
		"another CA":                             {source: change.TokenServer{CAFile: otherFile}, handle: ok, want: "was not signed by a CA that is trusted here"},
		"a pin of the server's own key":          {source: change.TokenServer{Pins: []string{pin.Of(leaf)}}, handle: ok, requests: 1},
		"a pin of a CA that the server shows":    {conf: &tls.Config{Certificates: []tls.Certificate{chain}}, source: change.TokenServer{Pins: []string{pin.Of(other.cert), pin.Of(ca.cert)}}, handle: ok, requests: 1},
		"a pin of a CA, for another name":        {conf: &tls.Config{Certificates: []tls.Certificate{chain}}, source: change.TokenServer{Pins: []string{pin.Of(ca.cert)}}, host: "localhost", handle: ok, want: "its certificate is for 127.0.0.1"},
		"a pin of a CA that the server hides":    {source: change.TokenServer{Pins: []string{pin.Of(ca.cert)}}, handle: ok, want: "it shows " + pin.Of(leaf)},
		"a pin of the CA beside its file":        {source: change.TokenServer{CAFile: caFile, Pins: []string{pin.Of(ca.cert)}}, handle: ok, requests: 1},
		"another pin beside the CA's file":       {source: change.TokenServer{CAFile: caFile, Pins: []string{pin.Of(other.cert)}}, handle: ok, want: "has a pinned key"},
		"the right pin beside another CA's file": {source: change.TokenServer{CAFile: otherFile, Pins: []string{pin.Of(leaf)}}, handle: ok, want: "was not signed by a CA that is trusted here"},
		"another name":                           {source: change.TokenServer{CAFile: caFile}, host: "localhost", handle: ok, want: "its certificate is for 127.0.0.1"},
		"its certificate is over":                {conf: &tls.Config{Certificates: []tls.Certificate{ca.issue(t, now.Add(-9*time.Hour), now.Add(-time.Hour))}}, source: change.TokenServer{CAFile: caFile}, handle: ok, want: "this host's clock says"},
		"with a client certificate":              {conf: mutual, source: change.TokenServer{CAFile: caFile, ClientCert: clientCert, ClientKey: clientKey}, handle: ok, requests: 1},
		"without the client certificate":         {conf: mutual, source: change.TokenServer{CAFile: caFile}, handle: ok, want: "no client certificate was sent"},
		"a client certificate and another key":   {conf: mutual, source: change.TokenServer{CAFile: caFile, ClientCert: clientCert, ClientKey: otherFile}, handle: ok, want: "can't be used"},
		"no bearer token there":                  {source: change.TokenServer{CAFile: caFile, BearerTokenFile: "/nonexistent/bearer"}, handle: ok, want: "the bearer token for the token's server can't be read"},
		"two lines of bearer token":              {source: change.TokenServer{CAFile: caFile, BearerTokenFile: caFile}, handle: ok, want: "holds no bearer token"},
		"a redirect on the same host":            {source: change.TokenServer{CAFile: caFile, BearerTokenFile: bearer}, handle: redirect(func(s *tokenServer) string { return "/there" }), requests: 2},
		"a redirect to another host":             {source: change.TokenServer{CAFile: caFile, BearerTokenFile: bearer}, handle: redirect(func(s *tokenServer) string { return strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/there" }), requests: 1, want: "it redirects to another host, https://localhost:"},
		"a redirect to http":                     {source: change.TokenServer{CAFile: caFile}, handle: redirect(func(s *tokenServer) string { return strings.Replace(s.URL, "https:", "http:", 1) + "/there?h1dd3n" }), requests: 1, want: "which is not https"},
		"redirects without an end":               {source: change.TokenServer{CAFile: caFile}, handle: redirect(func(s *tokenServer) string { return "/again" }), requests: 6, want: "more than five times"},
		"a redirect to nowhere":                  {source: change.TokenServer{CAFile: caFile}, handle: say(302, ""), requests: 1, want: "redirects without saying where"},
		"a redirect to something that is no URL": {source: change.TokenServer{CAFile: caFile}, handle: func(_ *tokenServer, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://h1dd3n:x/")
			w.WriteHeader(302)
		}, requests: 1, want: "redirects without saying where"},
		"an answer that never comes": {source: change.TokenServer{CAFile: caFile}, handle: func(_ *tokenServer, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, limit: 100 * time.Millisecond, requests: tokenTries, want: "no answer in time"},
		"an answer that never ends": {source: change.TokenServer{CAFile: caFile}, handle: func(_ *tokenServer, w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, tokenLine)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, limit: 100 * time.Millisecond, requests: tokenTries, want: "no answer in time"},
		"an answer that is too large": {source: change.TokenServer{CAFile: caFile}, handle: say(200, tokenLine+strings.Repeat("\n", 64<<10)), requests: 1, want: "is larger than 64.0 KiB"},
		"an answer that is cut off": {source: change.TokenServer{CAFile: caFile}, handle: func(s *tokenServer, w http.ResponseWriter, _ *http.Request) {
			if s.requests.Load() == 1 {
				w.Header().Set("Content-Length", "1000")
			}
			fmt.Fprint(w, tokenLine)
		}, requests: 2},
		"an answer that is no token":         {source: change.TokenServer{CAFile: caFile}, handle: say(200, "<html>"+testToken+"</html>"), requests: 1, want: "can't be used"},
		"an empty answer":                    {source: change.TokenServer{CAFile: caFile}, handle: say(200, ""), requests: 1, want: "is empty"},
		"no content":                         {source: change.TokenServer{CAFile: caFile}, handle: say(204, ""), requests: 1, want: "doesn't answer with a token (204 No Content)"},
		"401, nothing was sent":              {source: change.TokenServer{CAFile: caFile}, handle: say(401, testToken), requests: 1, want: "doesn't know who asks (401 Unauthorized); no credential was sent"},
		"401 for a bearer token":             {source: change.TokenServer{CAFile: caFile, BearerTokenFile: bearer}, handle: say(401, ""), requests: 1, want: "sent was the bearer token in " + bearer},
		"403 for a certificate and a header": {source: change.TokenServer{CAFile: caFile, ClientCert: clientCert, ClientKey: clientKey, Headers: map[string]string{"X-Key": "h1dd3n"}}, handle: say(403, ""), requests: 1, want: "doesn't give this host a token (403 Forbidden); sent were the header X-Key, the client certificate " + clientCert},
		"404":                                {source: change.TokenServer{CAFile: caFile, Query: map[string][]string{"serial": {"h1dd3n"}, "key": {"h1dd3n"}}}, handle: say(404, "h1dd3n"), requests: 1, want: "has no token for what the query says (key, serial) (404 Not Found)"},
		"410":                                {source: change.TokenServer{CAFile: caFile}, handle: say(410, ""), requests: 1, want: "has no token for what the query says (sig) (410 Gone)"},
		"400":                                {source: change.TokenServer{CAFile: caFile}, handle: say(400, "h1dd3n"), requests: 1, want: "doesn't answer with a token (400 Bad Request)"},
		"503, then a token":                  {source: change.TokenServer{CAFile: caFile}, handle: until(3, 503), requests: 3},
		"429 with Retry-After, then a token": {source: change.TokenServer{CAFile: caFile}, handle: until(2, 429, "Retry-After", "86400"), requests: 2},
		"408, then a token":                  {source: change.TokenServer{CAFile: caFile}, handle: until(2, 408), requests: 2},
		"425, then a token":                  {source: change.TokenServer{CAFile: caFile}, handle: until(2, 425), requests: 2},
		"503 for ever":                       {source: change.TokenServer{CAFile: caFile}, handle: say(503, testToken), requests: tokenTries, want: "answers 503 Service Unavailable"},
		"a field that this host has no value for":   {source: change.TokenServer{CAFile: caFile, Query: map[string][]string{"x": {"{{ .Nothing }}"}}}, handle: ok, want: "the query's x of spec.join.token.https: has the unknown field {{ .Nothing }}"},
		"a header with a field that has no closing": {source: change.TokenServer{CAFile: caFile, Headers: map[string]string{"X": "{{ h1dd3n"}}, handle: ok, want: "the header X of spec.join.token.https: has a {{ without its }}"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := c.conf
			if conf == nil {
				conf = &tls.Config{Certificates: []tls.Certificate{cert}}
			}
			s := serveTokens(t, conf.Clone(), c.handle)
			c.source.URL = s.URL + "/join"
			if c.host != "" {
				c.source.URL = strings.Replace(c.source.URL, "127.0.0.1", c.host, 1)
			}
			if c.source.Query == nil {
				c.source.Query = map[string][]string{"sig": {"h1dd3n"}}
			}
			ctx := hasty(t.Context())
			if c.limit > 0 {
				ctx = context.WithValue(ctx, tryKey{}, c.limit)
			}
			var said []string
			l := New()
			err := l.applyFetchToken(ctx, change.FetchToken{HTTPS: &c.source}, func(s string) { said = append(said, s) })
			require.Equal(t, c.requests, s.requests.Load(), "requests: %v", err)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, testToken, l.credential.Token)
				if c.source.BearerTokenFile != "" {
					require.Equal(t, "Bearer b34r3r", s.last.Load().Header.Get("Authorization"))
				}
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotEmpty(t, fail.HintOf(err))
			require.False(t, l.TokenHeld())
			for _, secret := range []string{"0123456789abcdef", "b34r3r", "h1dd3n"} {
				require.NotContains(t, err.Error()+fail.HintOf(err)+strings.Join(said, "\n"), secret)
			}
		})
	}
}

func TestATokenServerIsToldWhoAsks(t *testing.T) {
	s := serveTokens(t, nil, say(200, tokenLine))
	l := New()
	err := l.applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &change.TokenServer{URL: s.URL + "/join", Headers: map[string]string{"X-Host": "host {{ .Hostname }}"},
		Query: map[string][]string{"name": {"{{ .Hostname }}"}, "odd": {"a&b=c d", "é"}}}}, func(string) {})
	require.NoError(t, err)
	name := l.identity()["Hostname"]
	require.NotEmpty(t, name)
	r := s.last.Load()
	require.Equal(t, "host "+name, r.Header.Get("X-Host"))
	require.Equal(t, name, r.URL.Query().Get("name"))
	require.Equal(t, []string{"a&b=c d", "é"}, r.URL.Query()["odd"])
	require.Equal(t, "nodeagent", r.Header.Get("User-Agent"))
}

// Whoever knows a public certificate can show it beside its own.
func TestAPinnedCAMustHaveSignedTheServersCertificate(t *testing.T) {
	ca, evil := newAuthority(t, "tokens"), newAuthority(t, "evil")
	now := time.Now()
	foreign := evil.issue(t, now.Add(-time.Hour), now.Add(time.Hour))
	foreign.Certificate = append(foreign.Certificate, evil.cert.Raw, ca.cert.Raw)
	// Signed by the right CA for another host: its certificate has no address.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(4), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{"other.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca.cert, &key.PublicKey, ca.key)
	require.NoError(t, err)
	neighbour := tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key}
	evilFile := given(t, "evil.pem", evil.pem())
	for name, c := range map[string]struct {
		cert   tls.Certificate
		source change.TokenServer
		want   string
	}{
		"the CA is only shown":                   {foreign, change.TokenServer{Pins: []string{pin.Of(ca.cert)}}, "was not signed by a CA that is trusted here"},
		"the CA is only shown, another is given": {foreign, change.TokenServer{Pins: []string{pin.Of(ca.cert)}, CAFile: evilFile}, "has a pinned key"},
		"another host of the CA, by address":     {neighbour, change.TokenServer{Pins: []string{pin.Of(ca.cert)}}, "its certificate is for other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveTokens(t, &tls.Config{Certificates: []tls.Certificate{c.cert}}, say(200, tokenLine))
			c.source.URL = s.URL
			err := New().applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &c.source}, func(string) {})
			require.ErrorContains(t, err, c.want)
			require.Zero(t, s.requests.Load())
		})
	}
}

func TestATokenServerThatIsNotThereIsAwaited(t *testing.T) {
	s := serveTokens(t, nil, say(200, tokenLine))
	url := s.URL
	s.Close()
	var said []string
	err := New().applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &change.TokenServer{URL: url, Query: map[string][]string{"key": {"h1dd3n"}}}}, func(s string) { said = append(said, s) })
	require.ErrorContains(t, err, "the token's server "+url+" can't be reached: connection refused")
	require.Len(t, said, 1, "the same trouble is told once")
	ctx, cancel := context.WithCancel(t.Context())
	err = New().applyFetchToken(ctx, change.FetchToken{HTTPS: &change.TokenServer{URL: url}}, func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	err = New().applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &change.TokenServer{URL: strings.Replace(url, "http:", "https:", 1) + "/x"}}, func(string) {})
	require.Error(t, err)
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "x": 0, "0": 0, "-5": 0, "7": 7 * time.Second, "999999999999": 24 * time.Hour, "99999999999999999999": 0, "99999999": 24 * time.Hour,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(in, now), in)
	}
}

func TestAnExpiredTokenFromAServerIsNotHeld(t *testing.T) {
	s := serveTokens(t, nil, say(200, `{"token":"`+testToken+`","expiration":"2020-01-01T00:00:00Z"}`))
	l := New()
	err := l.applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &change.TokenServer{URL: s.URL}}, func(string) {})
	require.ErrorContains(t, err, "expired on 2020-01-01")
	require.False(t, l.TokenHeld())
}
