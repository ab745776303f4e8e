package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodeagent/internal/fail"
	"nodeagent/internal/join/clusterinfo"
	"nodeagent/internal/join/nodestatus"
	"nodeagent/internal/join/pin"
)

// How long a trouble is waited out: it may go away by itself.
const (
	patienceNetwork = 2 * time.Minute  // DNS, routes and an API server that starts
	patienceSigner  = time.Minute      // a controller-manager that starts
	patienceToken   = 15 * time.Second // what can't be told apart from a signer that is slow
)

// trouble is why the cluster can't be joined right now.
type trouble struct {
	*fail.Error
	patience time.Duration // 0: waiting doesn't help
	token    bool          // it is the token: another one may do
}

// badToken is the error of a token that the cluster doesn't know.
type badToken struct{ err *fail.Error }

func (b badToken) Error() string { return b.err.Error() }
func (b badToken) Unwrap() error { return b.err }

func giveUp(hint, format string, a ...any) *trouble {
	return &trouble{Error: fail.New(fail.Step, hint, format, a...)}
}

// reachCluster proves, without sending the token anywhere, that the cluster
// answers, is the pinned one and knows the token. It returns as soon as it
// does, or with the sentence for what is wrong.
func (l *Linux) reachCluster(ctx context.Context, t target, limit time.Duration, tell func(string)) error {
	start := time.Now()
	defer l.waited(start)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 5*time.Second
	said := ""
	for {
		tr := look(ctx, t)
		if tr == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := pause.NextBackOff()
		if left := min(tr.patience, limit) - time.Since(start); left < wait {
			if tr.token {
				return badToken{tr.Error}
			}
			return tr.Error
		}
		if text := tr.Error.Error(); text != said {
			said = text
			tell("waiting: " + text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// waited counts time that a join waits for the cluster as external; changes
// of class wait are counted as a whole by Apply.
func (l *Linux) waited(since time.Time) {
	l.mu.Lock()
	l.stats.External += time.Since(since)
	l.mu.Unlock()
}

// look asks once. cluster-info is public, so nothing secret is sent over the
// connection, whose certificate can only be judged afterwards, when the CA is
// known (as kubeadm does).
func look(ctx context.Context, t target) *trouble {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conf := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // judged below, in each case
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.endpoint+"/api/v1/namespaces/kube-public/configmaps/cluster-info", nil)
	if err != nil {
		return giveUp("such as cp.example:6443", "%q is not the address of an API server", t.endpoint)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return connectTrouble("the API server at "+t.endpoint, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return connectTrouble("the API server at "+t.endpoint, err)
	}
	if len(t.ca) > 0 {
		if tr := certificate(t, resp, t.ca); tr != nil {
			return tr
		}
	}
	if tr := answer(t, resp.StatusCode, body); tr != nil || resp.StatusCode != http.StatusOK {
		return tr
	}
	signed := t.token
	if len(t.ca) > 0 {
		signed = "" // discovery by file needs no signature
	}
	info := clusterinfo.Judge(body, signed, t.pins)
	if info.Verdict != clusterinfo.Good {
		known := unclear
		if info.Verdict == clusterinfo.SignerDown || info.Verdict == clusterinfo.TokenUnknown {
			known = askWithToken(ctx, t, info.Pinned)
		}
		return verdict(t, info, known)
	}
	if len(t.ca) == 0 {
		if tr := certificate(t, resp, info.CA); tr != nil {
			return tr
		}
	} else if roots, err := pin.Certificates(t.ca); err == nil && t.token != "" && askWithToken(ctx, t, roots) == no {
		return unknownToken(t)
	}
	return ownName(ctx, t, info.Server)
}

// answer judges the HTTP status.
func answer(t target, code int, body []byte) *trouble {
	_, text := nodestatus.StatusText(body)
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusForbidden && len(t.ca) > 0:
		return nil // kubeadm goes on with the CA that it was given
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return giveUp("`kubeadm init phase bootstrap-token` on the control plane opens it again; or set spec.join.caCert, which needs it less",
			"the API server at %s doesn't show cluster-info to anonymous clients (%d), which joining with a CA pin needs", t.endpoint, code)
	case code == http.StatusNotFound:
		return giveUp("`kubeadm init phase bootstrap-token` on the control plane makes it", "the API server at %s has no ConfigMap kube-public/cluster-info, which every kubeadm cluster has (404)", t.endpoint)
	case code == http.StatusTooManyRequests || code >= 500:
		tr := giveUp("look at the API server", "the API server at %s answers %d: %s", t.endpoint, code, text)
		tr.patience = patienceNetwork
		return tr
	}
	return giveUp("see what listens there", "%s doesn't answer like an API server (status %d)", t.endpoint, code)
}

// answers of askWithToken.
type knows int

const (
	unclear knows = iota
	yes
	no
)

// askWithToken tells whether the API server takes the token, over a connection
// that only a server of the pinned CA can be at the other end of. cluster-info
// alone doesn't say whether the token has gone or its signer has.
func askWithToken(ctx context.Context, t target, roots []*x509.Certificate) knows {
	if len(roots) == 0 || t.token == "" {
		return unclear
	}
	pool := x509.NewCertPool()
	for _, c := range roots {
		pool.AddCert(c)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.endpoint+"/api/v1/namespaces/kube-system/configmaps/kubeadm-config", nil)
	if err != nil {
		return unclear
	}
	req.Header.Set("Authorization", "Bearer "+t.token)
	resp, err := client.Do(req)
	if err != nil {
		return unclear
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusForbidden, http.StatusNotFound:
		return yes
	case http.StatusUnauthorized:
		return no
	}
	return unclear
}

const another = "make a new one: kubeadm token create --print-join-command"

func unknownToken(t target) *trouble {
	id, _, _ := strings.Cut(t.token, ".")
	tr := giveUp(another, "the cluster at %s doesn't know the token with id %s: it has expired or never existed there", t.endpoint, id)
	tr.token = true
	if t.fresh {
		tr.patience = patienceToken
	}
	return tr
}

func verdict(t target, info clusterinfo.Info, known knows) *trouble {
	id, _, _ := strings.Cut(t.token, ".")
	switch info.Verdict {
	case clusterinfo.NotThere, clusterinfo.Unreadable:
		return giveUp("`kubeadm init phase bootstrap-token` on the control plane makes it anew", "cluster-info at %s holds no kubeconfig with a CA", t.endpoint)
	case clusterinfo.WrongSecret:
		tr := giveUp(another, "the cluster at %s knows the token's id %s, but with another secret part: the token was mistyped, or this is another cluster", t.endpoint, id)
		tr.token = true
		return tr
	case clusterinfo.WrongCA:
		return giveUp("if the cluster is the right one, take the pin from `kubeadm token create --print-join-command`; if it isn't, somebody else answers there",
			"the CA of the cluster at %s is not the pinned one: it has %s, pinned is %s", t.endpoint, strings.Join(info.Pins, ", "), strings.Join(t.pins, ", "))
	}
	// Not signed for the token.
	tr := unknownToken(t)
	switch {
	case known == no:
	case known == yes:
		tr = giveUp("see whether kube-controller-manager runs (its bootstrapsigner signs); a new token doesn't help",
			"the cluster at %s knows the token with id %s, but cluster-info isn't signed for it: the token signer isn't running, or the token isn't for signing", t.endpoint, id)
		tr.patience = patienceSigner
	case info.Verdict == clusterinfo.SignerDown:
		tr = giveUp("see whether kube-controller-manager runs, or "+another, "cluster-info at %s is signed for no token at all: either the cluster has no token left, or its token signer isn't running", t.endpoint)
		tr.patience = patienceSigner
	default:
		tr.patience = patienceToken
	}
	return tr
}

// certificate judges what the server showed against the cluster's CA.
func certificate(t target, resp *http.Response, ca []byte) *trouble {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	chain := resp.TLS.PeerCertificates
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	host, _, _ := net.SplitHostPort(t.endpoint)
	now := time.Now()
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return clock(t, invalid.Cert, now, resp.Header.Get("Date"))
	case errors.As(err, &name):
		return giveUp("use one of its names as endpoint, or add this one to apiServer.certSANs of the cluster", "the certificate of the API server is not for %s but for %s", host, strings.Join(names(chain[0]), ", "))
	case len(t.ca) > 0:
		return giveUp("see whether spec.join.caCert is this cluster's CA", "the certificate of the API server at %s was not signed by the given CA (its issuer is %s)", t.endpoint, chain[0].Issuer)
	}
	return giveUp("a proxy or another server stands in between", "the certificate of the API server at %s was not signed by the pinned CA (its issuer is %s)", t.endpoint, chain[0].Issuer)
}

func names(c *x509.Certificate) []string {
	out := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// clock tells a wrong clock here from a certificate that is really over: the
// server's own Date says which.
func clock(t target, c *x509.Certificate, now time.Time, date string) *trouble {
	there, err := http.ParseTime(date)
	if err == nil && (there.Before(c.NotBefore) || there.After(c.NotAfter)) {
		return giveUp("renew it on the control plane: kubeadm certs renew all", "the certificate of the API server at %s is valid from %s to %s only", t.endpoint, stamp(c.NotBefore), stamp(c.NotAfter))
	}
	text := fmt.Sprintf("this host's clock says %s", stamp(now))
	if err == nil {
		text += ", the API server's " + stamp(there)
	}
	return giveUp("set the clock: chronyc makestep, or timedatectl; a new token doesn't help", "%s; by that the certificate of %s is not valid (%s to %s)", text, t.endpoint, stamp(c.NotBefore), stamp(c.NotAfter))
}

// ownName checks the address that the cluster gives for itself: kubelet will
// use that one, not the endpoint.
func ownName(ctx context.Context, t target, server string) *trouble {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || len(t.ca) > 0 || strings.EqualFold(u.Host, t.endpoint) {
		return nil
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", host)
	if err != nil {
		return connectTrouble(fmt.Sprintf("the cluster at %s gives itself as %s, which kubelet will use and which", t.endpoint, server), err)
	}
	c.Close()
	return nil
}

// connectTrouble says why there's no connection. who is the subject of the
// sentence.
func connectTrouble(who string, err error) *trouble {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	tr := &trouble{patience: patienceNetwork}
	say := func(hint, format string, a ...any) { tr.Error = fail.New(fail.Step, hint, format, a...) }
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		say("see whether the name is right and which server is asked: resolvectl query "+dns.Name+", /etc/resolv.conf", "%s can't be found: the name %s does not resolve", who, dns.Name)
	case errors.As(err, &dns):
		say("look at /etc/resolv.conf", "%s can't be found: the name server doesn't answer for %s (%s)", who, dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		say("see whether it runs there, and whether the port is right", "%s can't be reached: connection refused", who)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		say("look at: ip route", "%s can't be reached: no route there", who)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response"):
		tr.patience = 0
		say("an API server speaks TLS, usually on port 6443", "%s doesn't speak TLS", who)
	case isTimeout(err):
		say("a firewall may drop what is sent there", "%s can't be reached: no answer in time", who)
	default:
		say("see whether it is reachable from here", "%s can't be reached: %v", who, unwrapURL(err))
	}
	return tr
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
