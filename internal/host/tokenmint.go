package host

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/clusterinfo"
	"nodeagent/internal/join/kubeconfig"
	"nodeagent/internal/join/mint"
	"nodeagent/internal/join/token"
)

// Manifests with the least that a kubeconfig has to be allowed.
const (
	minterManifest  = "packaging/rbac/token-minter.yaml"
	labelerManifest = "packaging/rbac/node-labeler.yaml"
)

// admin is an API client with a kubeconfig of the administrator's.
type admin struct {
	*apiClient
	conf kubeconfig.Config
	file string
}

// admin reads a kubeconfig and what it names; relative names are meant from
// where it lies.
func (l *Linux) admin(file string) (*admin, error) {
	b, err := l.secretFile("the kubeconfig "+file, file)
	if err != nil {
		return nil, err
	}
	k, err := kubeconfig.Parse(b)
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "try it: kubectl --kubeconfig "+file+" version", "the kubeconfig %s can't be used", file)
	}
	if text, hint := k.Access(); text != "" {
		return nil, fail.New(fail.Step, hint, "the kubeconfig %s %s", file, text)
	}
	var bearer []byte
	for _, f := range []struct {
		data *[]byte
		path string
	}{{&k.CA, k.CAFile}, {&k.Cert, k.CertFile}, {&k.Key, k.KeyFile}, {&bearer, k.TokenFile}} {
		if len(*f.data) > 0 || f.path == "" {
			continue
		}
		path := f.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if *f.data, err = l.secretFile("what the kubeconfig "+file+" names", path); err != nil {
			return nil, err
		}
	}
	if k.Token == "" {
		k.Token = strings.TrimSpace(string(bearer))
	}
	if c := firstCertificate(k.Cert); c != nil && time.Now().After(c.NotAfter) {
		return nil, fail.New(fail.Step, "give a new one", "the client certificate in the kubeconfig %s ended on %s", file, stamp(c.NotAfter))
	}
	client, err := newAPIClient(k)
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "certificate, key and CA have to be PEM that belongs together", "the kubeconfig %s can't be used", file)
	}
	return &admin{client, k, file}, nil
}

// statusOf is the status that an API server refused with, or 0.
func statusOf(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.code
	}
	return 0
}

// judge words what an API server says to a request, and tells what may pass.
// The API server's own text names the account and what it may not do.
func (a *admin) judge(err error, manifest, what string) error {
	var s *statusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &s) && mayPass(s.code):
		return passing{fail.Wrap(fail.Step, err, "look at the API server", "%s", what), s.after}
	case errors.As(err, &s) && s.code == http.StatusUnauthorized:
		return fail.New(fail.Step, "its token or certificate has ended, or is of another cluster; try it: kubectl --kubeconfig "+a.file+" auth whoami", "%s: the API server at %s doesn't accept the credential in %s (401)", what, a.server, a.file)
	case errors.As(err, &s) && s.code == http.StatusForbidden:
		return fail.Wrap(fail.Step, err, "grant it: kubectl apply -f "+manifest, "%s: the account in %s may not", what, a.file)
	case errors.As(err, &s):
		return fail.Wrap(fail.Step, err, "", "%s", what)
	}
	cause := errors.Unwrap(err)
	if cause == nil {
		cause = err
	}
	tr := connectTrouble("the API server at "+a.server, cause)
	if distrusted(err) || tr.patience == 0 {
		return fail.Wrap(fail.Step, tr.Error, "see whether server and certificate-authority-data in "+a.file+" are of one cluster", "%s", what)
	}
	return passing{error: fail.Wrap(fail.Step, tr.Error, fail.HintOf(tr.Error), "%s", what)}
}

// mintToken makes a token on the cluster. Its public half is noted before, so
// that it is deleted whatever happens to this run.
func (l *Linux) mintToken(ctx context.Context, c change.MintToken, tell func(string)) (token.Document, error) {
	a, err := l.admin(c.Kubeconfig)
	if err != nil {
		return token.Document{}, err
	}
	defer a.close()
	d := token.Document{Endpoint: a.conf.Host(), CACert: a.conf.CA}
	if !a.conf.Direct() {
		if d.Endpoint, d.CACert, err = l.published(ctx, a, tell); err != nil {
			return d, err
		}
	}
	for range 3 { // an id that is taken already is one in two thousand million
		expires := time.Now().Add(c.TTL).UTC().Truncate(time.Second)
		text, id, err := mint.Token()
		if err != nil {
			return d, err
		}
		secret, err := mint.Secret(text, c.NodeName, expires)
		if err != nil {
			return d, err
		}
		if err := l.Save(l.record, mint.Record{Kubeconfig: c.Kubeconfig, TokenID: id, Expires: expires}.Encode()); err != nil {
			return d, err
		}
		code, unsure := 0, false
		err = l.persist(ctx, tell, func(ctx context.Context) error {
			err := a.write(ctx, http.MethodPost, mint.Secrets, "application/json", secret)
			code = statusOf(err)
			if code == http.StatusConflict && unsure {
				// An earlier try arrived, and only its answer was lost. The account need not
				// be allowed to read Secrets, so another token takes its place.
				if err := a.remove(ctx, id); err != nil {
					return err
				}
			}
			unsure = unsure || code == 0 || mayPass(code)
			return a.judge(err, minterManifest, "a join token can't be made")
		})
		if err == nil {
			d.Token, d.Expiration = text, expires
			tell("made the join token with id " + id + ", which ends at " + stamp(expires))
			return d, nil
		}
		if code != 0 && !mayPass(code) { // nothing was made
			if err := unlink(l.record); err != nil {
				return d, err
			}
		}
		if code != http.StatusConflict {
			return d, err
		}
	}
	return d, fail.New(fail.Step, "run again", "three ids for a join token were taken already")
}

// published is where the cluster says that it is, for a kubeconfig that doesn't
// tell others.
func (l *Linux) published(ctx context.Context, a *admin, tell func(string)) (endpoint string, ca []byte, err error) {
	var info clusterinfo.Info
	err = l.persist(ctx, tell, func(ctx context.Context) error {
		b, err := a.get(ctx, "/api/v1/namespaces/kube-public/configmaps/cluster-info")
		if err == nil {
			info = clusterinfo.Judge(b, "", nil)
		}
		return a.judge(err, minterManifest, "cluster-info can't be read")
	})
	if err != nil {
		return "", nil, err
	}
	u, parseErr := url.Parse(info.Server)
	if info.Verdict != clusterinfo.Good || parseErr != nil || u.Host == "" || token.Loopback(u.Hostname()) {
		return "", nil, fail.New(fail.Step, "put an address that others reach into it: kubectl config set-cluster", "the kubeconfig %s doesn't say where other hosts reach the API server (it says %s), and neither does cluster-info", a.file, a.server)
	}
	return kubeconfig.Config{Server: info.Server}.Host(), info.CA, nil
}

// remove deletes a token's Secret; one that is missing is fine.
func (a *admin) remove(ctx context.Context, id string) error {
	err := a.write(ctx, http.MethodDelete, mint.Secrets+"/"+mint.Name(id), "", nil)
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	return a.judge(err, minterManifest, "it can't be deleted")
}

// deleteToken deletes a token that was made, unless it has ended by itself.
func (l *Linux) deleteToken(ctx context.Context, r mint.Record, tell func(string)) error {
	if !time.Now().Before(r.Expires) {
		return nil // the API server takes it no more, and the controller-manager removes it
	}
	a, err := l.admin(r.Kubeconfig)
	if err == nil {
		defer a.close()
		err = l.persist(ctx, tell, func(ctx context.Context) error { return a.remove(ctx, r.TokenID) })
	}
	if err != nil && ctx.Err() == nil {
		return fail.Wrap(fail.Step, err, "kubeadm token delete "+r.TokenID+" on the control plane does it, too; then remove "+l.record+" here", "the join token with id %s, which nodeagent made, stays on the cluster until %s", r.TokenID, stamp(r.Expires))
	}
	return err
}

// applyLabelNode patches this host's Node, as soon as kubelet has registered
// it. A Node that has the labels is left alone, so that a kubeconfig that has
// ended since isn't missed.
func (l *Linux) applyLabelNode(ctx context.Context, c change.LabelNode, progress func(string)) error {
	if n := l.readNode(ctx, c.NodeName); n.Reached && labelled(n, c.Labels) {
		return nil
	}
	a, err := l.admin(c.Kubeconfig)
	if err != nil {
		return err
	}
	defer a.close()
	patch, err := labelPatch(c.Labels)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	path := "/api/v1/nodes/" + url.PathEscape(c.NodeName)
	for {
		var missing bool
		err := l.persist(wait, progress, func(ctx context.Context) error {
			err := a.write(ctx, http.MethodPatch, path, "application/merge-patch+json", patch)
			missing = statusOf(err) == http.StatusNotFound
			return a.judge(err, labelerManifest, "node "+c.NodeName+" can't be labelled")
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !missing && wait.Err() == nil:
			return err
		case !missing, !sleep(wait, pace(ctx)):
			return fail.New(fail.Timeout, "look at: journalctl -u kubelet", "node %s can't be labelled: it is not registered after %s", c.NodeName, c.Timeout)
		}
	}
}

// labelled tells whether a Node has the labels.
func labelled(n Node, want map[string]string) bool {
	for k, v := range want {
		if is, ok := n.Labels[k]; !ok || is != v {
			return false
		}
	}
	return true
}

// sleep tells whether the time has passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// labelPatch is a JSON merge patch (RFC 7386): it leaves other labels alone.
func labelPatch(labels map[string]string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
}

// distrusted tells whether an error is about whom the other end is, which no
// waiting changes.
func distrusted(err error) bool {
	var cert *tls.CertificateVerificationError
	var remote *net.OpError
	return errors.As(err, &cert) || errors.As(err, &remote) && remote.Op == "remote error"
}
