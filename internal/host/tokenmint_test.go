package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/mint"
	"nodeagent/internal/join/pin"
	"nodeagent/internal/join/token"
)

const adminToken = "4dm1n-t0ken"

// api is an API server as far as a kubeconfig of nodeagent's may use it.
type api struct {
	ca     authority
	http   *httptest.Server
	mu     sync.Mutex
	seen   []string // METHOD path
	held   map[string][]byte
	patch  []string
	before func(n int, w http.ResponseWriter, r *http.Request) bool // answers the nth request itself
	info   string                                                   // server in cluster-info
}

func newAPI(t *testing.T, address string) *api {
	a := &api{ca: newAuthority(t, "kubernetes"), held: map[string][]byte{}, info: "https://cp.example:6443"}
	a.http = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	if address != "" {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		require.NoError(t, err)
		a.http.Listener.Close()
		a.http.Listener = l
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.ca.cert)
	a.http.TLS = &tls.Config{Certificates: []tls.Certificate{a.ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "kubernetes")}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients}
	a.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.http.StartTLS()
	t.Cleanup(a.http.Close)
	return a
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, r.Method+" "+r.URL.Path)
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	refuse := func(code int, text string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "message": text})
	}
	if a.before != nil && a.before(len(a.seen), w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+adminToken && len(r.TLS.PeerCertificates) == 0 {
		refuse(401, "Unauthorized")
		return
	}
	name, secret := strings.CutPrefix(r.URL.Path, mint.Secrets+"/")
	switch {
	case r.URL.Path == infoPath:
		kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    certificate-authority-data: %s\n    server: %s\n", base64.StdEncoding.EncodeToString(a.ca.pem()), a.info)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "data": map[string]string{"kubeconfig": kubeconfig}})
	case r.Method == http.MethodPost && r.URL.Path == mint.Secrets:
		var s struct {
			Metadata struct{ Name, Namespace string }
		}
		if json.Unmarshal(body, &s) != nil || s.Metadata.Namespace != "kube-system" || r.Header.Get("Content-Type") != "application/json" {
			refuse(400, "bad")
			return
		}
		if _, there := a.held[s.Metadata.Name]; there {
			refuse(409, s.Metadata.Name+" already exists")
			return
		}
		a.held[s.Metadata.Name] = body
		w.WriteHeader(201)
		_, _ = w.Write(body)
	case secret && a.held[name] == nil:
		refuse(404, "not found")
	case secret && r.Method == http.MethodGet:
		refuse(403, "reading Secrets isn't granted")
	case secret && r.Method == http.MethodDelete:
		delete(a.held, name)
		fmt.Fprint(w, "{}")
	case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/node1":
		a.patch = append(a.patch, r.Header.Get("Content-Type")+" "+string(body))
		fmt.Fprint(w, "{}")
	default:
		refuse(404, "not found")
	}
}

// conf is a kubeconfig of the server.
func (a *api) conf(user string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: '%s', tls-server-name: kubernetes, certificate-authority-data: %s}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: %s\n",
		a.http.URL, base64.StdEncoding.EncodeToString(a.ca.pem()), user)
}

// minting is a host that keeps its record elsewhere than a real one.
func minting(t *testing.T) *Linux {
	l := New()
	l.record = filepath.Join(t.TempDir(), "token.json")
	return l
}

func (l *Linux) mintWith(ctx context.Context, file string) error {
	return l.applyFetchToken(ctx, change.FetchToken{Mint: &change.MintToken{Kubeconfig: file, NodeName: "node1", TTL: 20 * time.Minute}}, func(string) {})
}

func TestATokenIsMadeNotedAndDeleted(t *testing.T) {
	a := newAPI(t, "")
	clientPEM, keyPEM := a.ca.pair(t, "minter")
	dir := t.TempDir()
	for name, content := range map[string][]byte{"bearer": []byte(adminToken + "\n"), "client.pem": clientPEM, "client.key": keyPEM} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for name, user := range map[string]string{
		"a token":              "{token: " + adminToken + "}",
		"a token in a file":    "{tokenFile: " + dir + "/bearer}",
		"a certificate":        "{client-certificate-data: " + base64.StdEncoding.EncodeToString(clientPEM) + ", client-key-data: " + base64.StdEncoding.EncodeToString(keyPEM) + "}",
		"a certificate nearby": "{client-certificate: client.pem, client-key: client.key}",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "admin.conf")
			require.NoError(t, os.WriteFile(file, []byte(a.conf(user)), 0o600))
			l := minting(t)
			require.NoError(t, l.mintWith(hasty(t.Context()), file))
			d := *l.credential
			require.True(t, token.Valid(d.Token))
			require.Equal(t, "cp.example:6443", d.Endpoint, "a kubeconfig that names this host says nothing to others")
			require.Equal(t, a.ca.pem(), d.CACert)
			id := d.Token[:6]
			want, err := mint.Secret(d.Token, "node1", d.Expiration)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(a.held["bootstrap-token-"+id]))
			require.Len(t, a.held, 1)
			b, err := os.ReadFile(l.record)
			require.NoError(t, err)
			require.NotContains(t, string(b), d.Token[7:])
			r, err := mint.Decode(b)
			require.NoError(t, err)
			require.Equal(t, mint.Record{Kubeconfig: file, TokenID: id, Expires: d.Expiration}, r)
			for range 2 { // the second time nothing is left to do
				require.NoError(t, l.applyDropToken(hasty(t.Context()), change.DropToken{}, func(string) {}))
				require.Empty(t, a.held)
				require.NoFileExists(t, l.record)
			}
		})
	}
}

func TestAKubeconfigThatNamesTheClusterIsTakenAtItsWord(t *testing.T) {
	n, err := New().Network()
	if err != nil || len(n.Addresses) == 0 || n.Addresses[0].Family() != "ipv4" {
		t.Skip("this machine has no address but its loopback's")
	}
	a := newAPI(t, n.Addresses[0].IP)
	l := minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))))
	require.Equal(t, strings.TrimPrefix(a.http.URL, "https://"), l.credential.Endpoint)
	require.Equal(t, []string{"POST " + mint.Secrets}, a.seen)
}

func TestATokenThatCannotBeMadeSaysWhyAndLeavesNothing(t *testing.T) {
	status := func(code int, text string) func(int, http.ResponseWriter, *http.Request) bool {
		return func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(code)
				fmt.Fprintf(w, `{"kind":"Status","message":%q}`, text)
			}
			return r.Method == http.MethodPost
		}
	}
	expired := func(t *testing.T, a *api) string {
		c := a.ca.issue(t, time.Now().Add(-9*time.Hour), time.Now().Add(-time.Hour))
		leaf := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(c.Certificate[0]) + "\n-----END CERTIFICATE-----\n"))
		return a.conf("{client-certificate-data: " + leaf + ", client-key-data: eA==}")
	}
	good := func(_ *testing.T, a *api) string { return a.conf("{token: " + adminToken + "}") }
	user := func(u string) func(*testing.T, *api) string {
		return func(_ *testing.T, a *api) string { return a.conf(u) }
	}
	for name, c := range map[string]struct {
		conf   func(*testing.T, *api) string
		before func(int, http.ResponseWriter, *http.Request) bool
		info   string
		want   string
		hint   string
		posts  int
		kept   bool // the record: the token may be there
	}{
		"no kubeconfig":    {conf: func(*testing.T, *api) string { return "" }, want: "can't be read", hint: "ls -l"},
		"not a kubeconfig": {conf: func(*testing.T, *api) string { return "hello: world" }, want: "has no current context", hint: "kubectl"},
		"without verification": {conf: func(_ *testing.T, a *api) string {
			return strings.Replace(good(nil, a), "tls-server-name: kubernetes", "insecure-skip-tls-verify: true", 1)
		}, want: "insecure-skip-tls-verify", hint: "kubectl"},
		"a program":          {conf: user("{exec: {command: aws, apiVersion: x}}"), want: "authenticates with a program (exec)", hint: "no program is run"},
		"a plugin":           {conf: user("{auth-provider: {name: oidc}}"), want: "authenticates with a plugin (auth-provider)", hint: "no program is run"},
		"a password":         {conf: user("{username: admin, password: h1dd3n}"), want: "authenticates with a password", hint: "no password is sent"},
		"nobody":             {conf: user("{}"), want: "has no user with a client certificate or a token", hint: minterManifest},
		"half a certificate": {conf: user("{client-certificate-data: eA==}"), want: "without its key", hint: "both"},
		"without a CA": {conf: func(_ *testing.T, a *api) string {
			return strings.Replace(good(nil, a), "certificate-authority-data", "x", 1)
		}, want: "has no CA", hint: "admin.conf"},
		"a certificate that has ended": {conf: expired, want: "ended on", hint: "new one"},
		"another token":                {conf: user("{token: h1dd3n}"), info: "x", want: "doesn't accept the credential in", hint: "whoami"},
		"401":                          {conf: good, before: status(401, "Unauthorized"), want: "doesn't accept the credential in", hint: "whoami", posts: 1},
		"403":                          {conf: good, before: status(403, `secrets is forbidden: User "x" cannot create resource "secrets"`), want: "cannot create resource", hint: "kubectl apply -f packaging/rbac/token-minter.yaml", posts: 1},
		"422":                          {conf: good, before: status(422, "no"), want: "a join token can't be made: the API server answers 422: no", posts: 1},
		"503 for ever":                 {conf: good, before: status(503, "starting"), want: "answers 503: starting", hint: "API server", posts: tokenTries, kept: true},
		"every id is taken":            {conf: good, before: status(409, "already exists"), want: "three ids", hint: "again", posts: 3},
		"another cluster's CA": {conf: func(t *testing.T, a *api) string {
			return strings.Replace(good(nil, a), base64.StdEncoding.EncodeToString(a.ca.pem()), base64.StdEncoding.EncodeToString(newAuthority(t, "x").pem()), 1)
		}, want: "certificate", hint: "of one cluster"},
		"cluster-info names it alike": {conf: good, info: "https://127.0.0.1:6443", want: "doesn't say where other hosts reach the API server", hint: "set-cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, "")
			a.before = c.before
			if c.info != "" {
				a.info = c.info
			}
			file := filepath.Join(t.TempDir(), "admin.conf")
			if text := c.conf(t, a); text != "" {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			l := minting(t)
			err := l.mintWith(hasty(t.Context()), file)
			require.ErrorContains(t, err, c.want)
			require.Contains(t, fail.HintOf(err), c.hint)
			require.NotContains(t, err.Error()+fail.HintOf(err), "h1dd3n")
			require.NotContains(t, err.Error()+fail.HintOf(err), adminToken)
			require.False(t, l.TokenHeld())
			require.Empty(t, a.held)
			posts := 0
			for _, s := range a.seen {
				if strings.HasPrefix(s, "POST") {
					posts++
				}
			}
			require.Equal(t, c.posts, posts)
			_, statErr := os.Stat(l.record)
			require.Equal(t, c.kept, statErr == nil)
		})
	}
}

func TestAnAnswerThatIsLostLeavesNoSecondToken(t *testing.T) {
	a := newAPI(t, "")
	lost := false
	a.before = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || lost {
			return false
		}
		lost = true
		body, _ := io.ReadAll(r.Body)
		var s struct{ Metadata struct{ Name string } }
		_ = json.Unmarshal(body, &s)
		a.held[s.Metadata.Name] = body
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
		return true
	}
	l := minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))))
	require.Len(t, a.held, 1)
	require.Contains(t, a.held, "bootstrap-token-"+l.credential.Token[:6])
}

func TestAnIDThatIsTakenIsAnotherOne(t *testing.T) {
	a := newAPI(t, "")
	first := true
	a.before = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !first {
			return false
		}
		first = false
		w.WriteHeader(409)
		return true
	}
	l := minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))))
	require.Len(t, a.held, 1)
}

func TestATokenThatCannotBeDeletedIsToldUntilItEnds(t *testing.T) {
	a := newAPI(t, "")
	file := given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))
	l := minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), file))
	a.before = func(_ int, w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(403); return true }
	err := l.applyDropToken(hasty(t.Context()), change.DropToken{}, func(string) {})
	require.ErrorContains(t, err, "the join token with id "+l.credential.Token[:6]+", which nodeagent made, stays on the cluster until "+stamp(l.credential.Expiration))
	require.Contains(t, fail.HintOf(err), "kubeadm token delete")
	require.FileExists(t, l.record)
	asked := len(a.seen)
	require.NoError(t, os.WriteFile(l.record, mint.Record{Kubeconfig: file, TokenID: "abcdef", Expires: time.Now().Add(-time.Minute)}.Encode(), 0o600))
	require.NoError(t, l.applyDropToken(hasty(t.Context()), change.DropToken{}, func(string) {}))
	require.NoFileExists(t, l.record)
	require.Len(t, a.seen, asked, "it has ended: nobody is asked")
}

func TestATokenOfItsOwnGoesWhenTheJoinFails(t *testing.T) {
	a := newAPI(t, "")
	l := minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))))
	require.Len(t, a.held, 1)
	err := l.applyJoin(t.Context(), change.Join{NodeName: "node1", Endpoint: strings.TrimPrefix(a.http.URL, "https://"), CACertHashes: []string{"sha256:" + strings.Repeat("ab", 32)}, Timeout: time.Minute}, func(string) {})
	require.Error(t, err)
	require.Empty(t, a.held, "%v", err)
	require.NoFileExists(t, l.record)
	require.False(t, l.TokenHeld())
}

func TestATokenThatTheClusterDoesNotKnowIsFetchedOnceMore(t *testing.T) {
	const second = "ghijkl.0123456789abcdef"
	unknown := badToken{fail.New(fail.Step, another, "the cluster doesn't know it")}
	say := func(string) {}

	file := given(t, "token", []byte(testToken))
	l := minting(t)
	require.NoError(t, l.applyFetchToken(t.Context(), change.FetchToken{File: file}, say))
	_, err := l.anotherToken(t.Context(), *l.credential, unknown, say)
	require.Equal(t, unknown, err, "the same token again")
	require.NoError(t, os.WriteFile(file, []byte(second), 0o600))
	d, err := l.anotherToken(t.Context(), *l.credential, unknown, say)
	require.NoError(t, err)
	require.Equal(t, second, d.Token)
	require.Equal(t, second, l.credential.Token)
	other := fail.New(fail.Step, "", "another trouble")
	_, err = l.anotherToken(t.Context(), d, other, func(string) { t.Error("nothing is fetched") })
	require.Equal(t, error(other), err)

	l.source = change.FetchToken{Inline: testToken}
	_, err = l.anotherToken(t.Context(), d, unknown, func(string) { t.Error("the configuration stays the same") })
	require.Equal(t, unknown, err)

	s := serveTokens(t, nil, func(s *tokenServer, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, map[bool]string{true: testToken, false: second}[s.requests.Load() == 1])
	})
	l = minting(t)
	require.NoError(t, l.applyFetchToken(hasty(t.Context()), change.FetchToken{HTTPS: &change.TokenServer{URL: s.URL}}, say))
	d, err = l.anotherToken(hasty(t.Context()), *l.credential, unknown, say)
	require.NoError(t, err)
	require.Equal(t, second, d.Token)
	require.EqualValues(t, 2, s.requests.Load())

	a := newAPI(t, "")
	l = minting(t)
	require.NoError(t, l.mintWith(hasty(t.Context()), given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))))
	old := *l.credential
	d, err = l.anotherToken(hasty(t.Context()), old, unknown, say)
	require.NoError(t, err)
	require.NotEqual(t, old.Token, d.Token)
	require.Len(t, a.held, 1, "the first one is deleted")
}

func TestAnUnknownTokenIsToldFromOtherTroubles(t *testing.T) {
	ca := newAuthority(t, "kubernetes")
	for name, c := range map[string]struct {
		cluster cluster
		pins    []string
		want    bool
	}{
		"unknown":        {cluster: cluster{signed: map[string]string{"ghijkl": "x"}}, want: true},
		"another secret": {cluster: cluster{signed: map[string]string{"abcdef": "x"}}, want: true},
		"another CA":     {cluster: cluster{signed: map[string]string{"abcdef": "0123456789abcdef"}}, pins: []string{pin.Of(newAuthority(t, "x").cert)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cluster.ca = ca
			tg := c.cluster.start(t, ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
			if c.pins != nil {
				tg.pins = c.pins
			}
			err := New().reachCluster(t.Context(), tg, 10*time.Millisecond, func(string) {})
			require.ErrorAs(t, err, new(*fail.Error))
			var bad badToken
			require.Equal(t, c.want, errors.As(err, &bad))
		})
	}
}

func TestATokenThatWasMadeAMomentAgoIsWaitedFor(t *testing.T) {
	ca := newAuthority(t, "kubernetes")
	c := cluster{ca: ca, signed: map[string]string{"ghijkl": "x"}}
	tg := c.start(t, ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	require.Zero(t, look(t.Context(), tg).patience)
	tg.fresh = true
	require.Equal(t, patienceToken, look(t.Context(), tg).patience)
}

func TestANodeIsLabelledAsSoonAsItIsRegistered(t *testing.T) {
	a := newAPI(t, "")
	file := given(t, "admin.conf", []byte(a.conf("{token: "+adminToken+"}")))
	label := change.LabelNode{NodeName: "node1", Kubeconfig: file, Timeout: time.Minute, Labels: map[string]string{"node-role.kubernetes.io/worker": "", "a.k8s.io/b": "c"}}
	a.before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n < 3 {
			w.WriteHeader(404)
		}
		return n < 3
	}
	require.NoError(t, New().applyLabelNode(hasty(t.Context()), label, func(string) {}))
	require.Len(t, a.seen, 3)
	require.Equal(t, []string{`application/merge-patch+json {"metadata":{"labels":{"a.k8s.io/b":"c","node-role.kubernetes.io/worker":""}}}`}, a.patch)

	a.before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(403)
		fmt.Fprint(w, `{"kind":"Status","message":"nodes \"node1\" is forbidden"}`)
		return true
	}
	err := New().applyLabelNode(hasty(t.Context()), label, func(string) {})
	require.ErrorContains(t, err, `nodes "node1" is forbidden`)
	require.Contains(t, fail.HintOf(err), "kubectl apply -f "+labelerManifest)

	a.before = nil
	label.NodeName, label.Timeout = "node2", 50*time.Millisecond
	err = New().applyLabelNode(hasty(t.Context()), label, func(string) {})
	require.ErrorContains(t, err, "node node2 can't be labelled: it is not registered after 50ms")
	require.Equal(t, fail.Timeout, fail.KindOf(err))
}
