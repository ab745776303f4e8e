package host

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"nodeagent/internal/join/kubeconfig"
	"nodeagent/internal/join/nodestatus"
	"nodeagent/internal/join/pin"
)

// KubeletConf is the credential that kubelet gets by joining.
const KubeletConf = "/etc/kubernetes/kubelet.conf"

// Node reads kubelet.conf and, with it, this host's own Node object. It fails
// for no reason: what is wrong is in the Node's Problem.
func (l *Linux) Node(ctx context.Context, name string) (Node, error) {
	return once(l, "node:"+name, func() (Node, error) { return l.readNode(ctx, name), nil })
}

// nodeGetLimit bounds the one request of a run that changes nothing.
const nodeGetLimit = 5 * time.Second

func (l *Linux) readNode(ctx context.Context, name string) Node {
	n, client := l.membership(time.Now())
	if !n.Joined || !l.Live() {
		return n
	}
	if name == "" {
		name = n.Name
	}
	ctx, cancel := context.WithTimeout(ctx, nodeGetLimit)
	defer cancel()
	body, err := client.get(ctx, "/api/v1/nodes/"+url.PathEscape(name))
	var refused *statusError
	switch {
	case errors.As(err, &refused) && refused.code == http.StatusNotFound:
		n.Reached, n.Unmet = true, nodestatus.NotRegistered
		return n
	case err != nil:
		n.Problem = err.Error()
		return n
	}
	s, err := nodestatus.Parse(body)
	if err != nil {
		n.Problem = "the API server's answer is not a Node: " + err.Error()
		return n
	}
	n.Reached, n.Ready, n.Unmet, n.Reported, n.Version, n.Labels = true, s.Ready, s.Unmet, s.Heartbeat, s.Version, s.Labels
	return n
}

// membership tells from files alone whether this host belongs to a cluster:
// kubelet.conf parses and its certificate is valid at now.
func (l *Linux) membership(now time.Time) (Node, *apiClient) {
	b, err := l.ReadFile(KubeletConf)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Node{Problem: "there is no " + KubeletConf}, nil
	case err != nil:
		return Node{Problem: err.Error()}, nil
	}
	k, err := kubeconfig.Parse(b)
	if err != nil {
		return Node{Problem: KubeletConf + " " + err.Error()}, nil
	}
	n := Node{Server: k.Server}
	// Paths in a kubeconfig are absolute here: kubelet writes them so.
	for _, f := range []struct {
		data *[]byte
		path string
	}{{&k.CA, k.CAFile}, {&k.Cert, k.CertFile}, {&k.Key, k.KeyFile}} {
		if len(*f.data) == 0 && f.path != "" {
			if *f.data, err = l.ReadFile(f.path); err != nil {
				n.Problem = fmt.Sprintf("%s names %s: %v", KubeletConf, f.path, err)
				return n, nil
			}
		}
	}
	if n.CAHashes, err = pin.OfBundle(k.CA); err != nil {
		n.Problem = fmt.Sprintf("%s holds no usable CA: %v", KubeletConf, err)
		return n, nil
	}
	n.CAHash = n.CAHashes[0]
	leaf := firstCertificate(k.Cert)
	if leaf == nil {
		n.Problem = KubeletConf + " has no client certificate"
		return n, nil
	}
	n.Name = strings.TrimPrefix(leaf.Subject.CommonName, "system:node:")
	n.Expires = leaf.NotAfter.UTC()
	if now.Before(leaf.NotBefore) {
		n.Problem = fmt.Sprintf("kubelet's certificate is valid only from %s on; this host's clock says %s", stamp(leaf.NotBefore), stamp(now))
		n.Early = true
		return n, nil
	}
	if !now.Before(leaf.NotAfter) {
		n.Problem = fmt.Sprintf("kubelet's certificate ended on %s; this host's clock says %s", stamp(leaf.NotAfter), stamp(now))
		n.Expired = true
		return n, nil
	}
	client, err := newAPIClient(k)
	if err != nil {
		n.Problem = fmt.Sprintf("%s can't be used: %v", KubeletConf, err)
		return n, nil
	}
	n.Joined = true
	return n, client
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// firstCertificate reads the leaf of a file that may hold the key too.
func firstCertificate(b []byte) *x509.Certificate {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil
		}
		return c
	}
}

// apiClient speaks to one API server with a client certificate or a bearer
// token. There's no proxy: the API server is reached as kubelet reaches it.
type apiClient struct {
	server string
	bearer string
	http   *http.Client
}

func newAPIClient(k kubeconfig.Config) (*apiClient, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(k.CA) {
		return nil, errors.New("no CA")
	}
	conf := &tls.Config{RootCAs: roots, ServerName: k.ServerName, MinVersion: tls.VersionTLS12}
	if len(k.Cert) > 0 || k.Token == "" {
		pair, err := tls.X509KeyPair(k.Cert, k.Key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &apiClient{server: strings.TrimSuffix(k.Server, "/"), bearer: k.Token, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig:       conf,
		TLSHandshakeTimeout:   nodeGetLimit,
		ResponseHeaderTimeout: 10 * time.Second,
		IdleConnTimeout:       10 * time.Second,
		ForceAttemptHTTP2:     false, // a watch has a connection of its own anyway, and HTTP/1.1 shows its end at once
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// statusError is an answer of the API server other than 200.
type statusError struct {
	code  int
	text  string
	after time.Duration // Retry-After
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the API server answers %d: %s", e.code, e.text)
}

// open sends a GET and returns the body of a 200.
func (a *apiClient) open(ctx context.Context, path string) (io.ReadCloser, error) {
	return a.send(ctx, http.MethodGet, path, "", nil)
}

// send returns the body of an answer that says yes; any other is a statusError.
func (a *apiClient) send(ctx context.Context, method, path, contentType string, content []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nodeagent")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if a.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+a.bearer)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the API server at %s doesn't answer: %w", a.server, unwrapURL(err))
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		_, text := nodestatus.StatusText(b)
		if text == "" {
			text = http.StatusText(resp.StatusCode)
		}
		return nil, &statusError{resp.StatusCode, text, retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	return resp.Body, nil
}

// write sends content and drops the answer.
func (a *apiClient) write(ctx context.Context, method, path, contentType string, content []byte) error {
	body, err := a.send(ctx, method, path, contentType, content)
	if err == nil {
		body.Close()
	}
	return err
}

func (a *apiClient) get(ctx context.Context, path string) ([]byte, error) {
	body, err := a.open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, 8<<20))
}

// close ends idle connections.
func (a *apiClient) close() { a.http.CloseIdleConnections() }
