package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
	"nodeagent/internal/join/pin"
)

// authority is a cluster's CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{c, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a server certificate.
func (a authority) issue(t *testing.T, from, to time.Time, names ...string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: from, NotAfter: to,
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const (
	testToken = "abcdef.0123456789abcdef"
	infoPath  = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

// cluster is an API server as far as a joining host sees it.
type cluster struct {
	ca       authority
	bundle   []byte
	server   string            // in cluster-info; empty: its own address
	signed   map[string]string // id → secret
	tokens   map[string]bool   // accepted for authentication
	status   int               // of cluster-info; 0: 200
	body     string            // instead of cluster-info
	date     time.Time         // of the server; zero: now
	sawToken *atomic.Bool
	http     *httptest.Server
}

func (c *cluster) start(t *testing.T, cert tls.Certificate) target {
	c.sawToken = &atomic.Bool{}
	c.http = httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	c.http.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	c.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.http.StartTLS()
	t.Cleanup(c.http.Close)
	if c.bundle == nil {
		c.bundle = c.ca.pem()
	}
	if c.server == "" {
		c.server = c.http.URL
	}
	return target{endpoint: strings.TrimPrefix(c.http.URL, "https://"), pins: []string{pin.Of(c.ca.cert)}, token: testToken}
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	if !c.date.IsZero() {
		w.Header().Set("Date", c.date.UTC().Format(http.TimeFormat))
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		c.sawToken.Store(true)
		if !c.tokens[bearer] {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "{}")
		return
	}
	if r.URL.Path != infoPath {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	if c.body != "" || c.status != 0 {
		fmt.Fprint(w, c.body)
		return
	}
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    certificate-authority-data: %s\n    server: %s\n", base64.StdEncoding.EncodeToString(c.bundle), c.server)
	data := map[string]string{"kubeconfig": kubeconfig}
	for id, secret := range c.signed {
		data["jws-kubeconfig-"+id] = detachedJWS(id, secret, kubeconfig)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "data": data})
}

func detachedJWS(id, secret, content string) string {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(content))))
	return header + ".." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestEachThingThatIsWrongWithAClusterHasItsOwnSentence(t *testing.T) {
	ca, other := newAuthority(t, "kubernetes"), newAuthority(t, "other")
	now := time.Now()
	ours := map[string]string{"abcdef": "0123456789abcdef"}
	known := map[string]bool{testToken: true}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := closed.Addr().String()
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		cluster  cluster
		from, to time.Time
		names    []string
		target   func(*target)
		want     string // "": nothing wrong
		patient  bool
	}{
		"nothing": {cluster: cluster{signed: ours}},
		"J4: the token is gone, others are signed":   {cluster: cluster{signed: map[string]string{"ghijkl": "x"}}, want: "expired or never existed"},
		"J4: the token is gone, none is left":        {cluster: cluster{}, want: "expired or never existed"},
		"J4: the signer is down, nothing is signed":  {cluster: cluster{tokens: known}, want: "token signer isn't running", patient: true},
		"J4: the signer is down, others are signed":  {cluster: cluster{tokens: known, signed: map[string]string{"ghijkl": "x"}}, want: "token signer isn't running", patient: true},
		"another secret for the id":                  {cluster: cluster{signed: map[string]string{"abcdef": "another"}}, want: "another secret part"},
		"another CA":                                 {cluster: cluster{signed: ours, bundle: other.pem()}, want: "is not the pinned one"},
		"two CAs, one pinned":                        {cluster: cluster{signed: ours, bundle: append(other.pem(), ca.pem()...)}},
		"no cluster-info":                            {cluster: cluster{status: 404}, want: "no ConfigMap kube-public/cluster-info"},
		"cluster-info is closed":                     {cluster: cluster{status: 403}, want: "anonymous clients (403)"},
		"anonymous clients are refused":              {cluster: cluster{status: 401}, want: "anonymous clients (401)"},
		"it starts":                                  {cluster: cluster{status: 503, body: `{"kind":"Status","message":"starting"}`}, want: "answers 503: starting", patient: true},
		"it isn't an API server":                     {cluster: cluster{body: "<html>"}, want: "holds no kubeconfig"},
		"it redirects":                               {cluster: cluster{status: 302}, want: "doesn't answer like an API server"},
		"cluster-info without a kubeconfig":          {cluster: cluster{body: `{"data":{"x":"y"}}`}, want: "holds no kubeconfig"},
		"cluster-info without a CA":                  {cluster: cluster{signed: ours, bundle: []byte("x")}, want: "holds no kubeconfig with a CA"},
		"its certificate is another CA's":            {cluster: cluster{ca: other, signed: ours, bundle: ca.pem()}, want: "not signed by the pinned CA"},
		"this clock is behind":                       {cluster: cluster{signed: ours, date: now.Add(3 * time.Hour)}, from: now.Add(2 * time.Hour), to: now.Add(9 * time.Hour), want: "this host's clock says"},
		"this clock is ahead":                        {cluster: cluster{signed: ours, date: now.Add(-3 * time.Hour)}, from: now.Add(-9 * time.Hour), to: now.Add(-2 * time.Hour), want: "this host's clock says"},
		"its certificate is really over":             {cluster: cluster{signed: ours}, from: now.Add(-9 * time.Hour), to: now.Add(-2 * time.Hour), want: "is valid from"},
		"its own name is unreachable":                {cluster: cluster{signed: ours, server: "https://" + nobody}, want: "gives itself as https://" + nobody + ", which kubelet will use and which can't be reached: connection refused", patient: true},
		"its own name doesn't resolve":               {cluster: cluster{signed: ours, server: "https://nosuch.invalid:6443"}, want: "nosuch.invalid", patient: true},
		"nothing listens":                            {target: func(t *target) { t.endpoint = nobody }, want: "connection refused", patient: true},
		"with the CA: nothing":                       {cluster: cluster{tokens: known}, target: func(t *target) { t.ca, t.pins = ca.pem(), nil }},
		"with the CA: the token is gone":             {cluster: cluster{}, target: func(t *target) { t.ca, t.pins = ca.pem(), nil }, want: "expired or never existed"},
		"with the CA: cluster-info is closed":        {cluster: cluster{status: 403, tokens: known}, target: func(t *target) { t.ca, t.pins = ca.pem(), nil }},
		"with the CA: anonymous clients are refused": {cluster: cluster{status: 401, tokens: known}, target: func(t *target) { t.ca, t.pins = ca.pem(), nil }, want: "anonymous clients (401)"},
		"with another CA":                            {cluster: cluster{tokens: known}, target: func(t *target) { t.ca, t.pins = other.pem(), nil }, want: "not signed by the given CA"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &c.cluster
			issuer := ca
			if k.ca.cert != nil {
				issuer = k.ca
			}
			k.ca = ca
			if c.from.IsZero() {
				c.from, c.to = now.Add(-time.Hour), now.Add(time.Hour)
			}
			tg := k.start(t, issuer.issue(t, c.from, c.to, c.names...))
			if c.target != nil {
				c.target(&tg)
			}
			tr := look(context.Background(), tg)
			if c.want == "" {
				if tr != nil {
					require.NoError(t, tr.Error)
				}
				return
			}
			require.NotNil(t, tr)
			require.ErrorContains(t, tr.Error, c.want)
			require.Equal(t, c.patient, tr.patience > 0)
			require.NotEmpty(t, fail.HintOf(tr.Error))
			require.NotContains(t, tr.Error.Error()+fail.HintOf(tr.Error), "0123456789abcdef")
		})
	}
}

func TestTheTokenIsNeverSentToAServerThatThePinnedCAHasNotSigned(t *testing.T) {
	ca, evil := newAuthority(t, "kubernetes"), newAuthority(t, "evil")
	// It shows the real CA, which everybody can get, and its own beside it.
	k := &cluster{ca: ca, bundle: append(ca.pem(), evil.pem()...), tokens: map[string]bool{testToken: true}}
	tg := k.start(t, evil.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	tr := look(context.Background(), tg)
	require.NotNil(t, tr)
	require.False(t, k.sawToken.Load())

	k = &cluster{ca: ca, tokens: map[string]bool{testToken: true}}
	tg = k.start(t, evil.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	tg.ca, tg.pins = ca.pem(), nil
	require.NotNil(t, look(context.Background(), tg))
	require.False(t, k.sawToken.Load())
}

func TestWhatMayGoAwayIsAwaitedWithinALimitAndWhatWontIsNot(t *testing.T) {
	ca := newAuthority(t, "kubernetes")
	k := &cluster{ca: ca, status: 503}
	tg := k.start(t, ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	var said []string
	start := time.Now()
	err := New().reachCluster(context.Background(), tg, 1500*time.Millisecond, func(s string) { said = append(said, s) })
	require.ErrorContains(t, err, "answers 503")
	require.Less(t, time.Since(start), 2*time.Second)
	require.Len(t, said, 1, "the same trouble is told once")

	k = &cluster{ca: ca, status: 404}
	tg = k.start(t, ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	start = time.Now()
	require.Error(t, New().reachCluster(context.Background(), tg, time.Minute, func(string) { t.Error("nothing to wait for") }))
	require.Less(t, time.Since(start), time.Second)

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	tg.endpoint = "127.0.0.1:1"
	require.ErrorIs(t, New().reachCluster(ctx, tg, time.Minute, func(string) {}), context.DeadlineExceeded)
}
