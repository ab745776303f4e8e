package vm_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/test/vm/lab"
)

// TestWhatAJoiningHostFindsAtARealControlPlane asks the real API server what
// applyJoin asks before it starts kubeadm. This machine has no kubeadm in its
// PATH, so an attempt that finds nothing wrong ends exactly there.
func TestWhatAJoiningHostFindsAtARealControlPlane(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	good := must(l.JoinCommand(ctx, time.Hour))(t)
	fields := strings.Fields(good) // kubeadm join HOST:PORT --token T --discovery-token-ca-cert-hash H
	token, pin := fields[4], fields[6]
	ca := string(must(os.ReadFile("/etc/kubernetes/pki/ca.crt"))(t))
	other := string(must(os.ReadFile("/etc/kubernetes/pki/front-proxy-ca.crt"))(t))
	check(t, appendTo("/etc/hosts", "192.0.2.1 alias.lab.test\n"))
	const found = "kubeadm is not on this host"

	try := func(t *testing.T, document string, j change.Join) error {
		t.Helper()
		h := host.New()
		check(t, h.Apply(ctx, change.FetchToken{Inline: document}, nil))
		j.NodeName, j.Socket, j.KubernetesVersion = "x", "unix:///run/containerd/containerd.sock", "v1.35.4"
		if j.Timeout == 0 {
			j.Timeout = 3 * time.Second
		}
		start := time.Now()
		err := h.Apply(ctx, j, func(s string) { t.Log(s) })
		t.Logf("after %.2f s: %v; hint: %s", time.Since(start).Seconds(), err, fail.HintOf(err))
		if err == nil {
			t.Fatal("no error")
		}
		if strings.Contains(err.Error()+fail.HintOf(err), strings.SplitN(token, ".", 2)[1]) {
			t.Error("the error shows the token")
		}
		for _, left := range []string{host.JoinPath, host.DiscoveryPath} {
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", left, err)
			}
		}
		return err
	}
	for _, c := range []struct {
		name, document string
		join           change.Join
		want           string
	}{
		{"nothing wrong, with a pin", good, change.Join{}, found},
		{"nothing wrong, with a CA certificate", token, change.Join{Endpoint: lab.APIEndpoint, CACert: ca}, found},
		{"nothing wrong, the configuration's pin beside the document's wrong one", strings.Replace(good, pin, "sha256:"+strings.Repeat("ab", 32), 1), change.Join{CACertHashes: []string{pin}}, found},
		{"another pin", strings.Replace(good, pin, "sha256:"+strings.Repeat("ab", 32), 1), change.Join{}, "is not the pinned one"},
		{"no pin", token, change.Join{Endpoint: lab.APIEndpoint}, "nothing says which CA"},
		{"no endpoint", token, change.Join{CACertHashes: []string{pin}}, "where the API server is"},
		{"another CA certificate", token, change.Join{Endpoint: lab.APIEndpoint, CACert: other}, "not signed by the given CA"},
		{"another secret", strings.Replace(good, token, token[:7]+"0000000000000000", 1), change.Join{}, "another secret part"},
		{"a token that never existed", strings.Replace(good, token, "nosuch.0000000000000000", 1), change.Join{}, "expired or never existed"},
		{"nothing listens", strings.Replace(good, ":6443", ":6444", 1), change.Join{}, "connection refused"},
		{"a name that isn't one", strings.Replace(good, "cp.lab.test", "nosuch.lab.test", 1), change.Join{}, "does not resolve"},
		{"no TLS there", strings.Replace(good, lab.APIEndpoint, "repo.lab.test:80", 1), change.Join{}, "doesn't speak TLS"},
		{"a name the certificate isn't for", strings.Replace(good, "cp.lab.test", "alias.lab.test", 1), change.Join{}, "not for alias.lab.test but for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := try(t, c.document, c.join); !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error doesn't say %q", c.want)
			}
		})
	}
	t.Run("an expired token with a CA certificate", func(t *testing.T) {
		if err := try(t, "nosuch.0000000000000000", change.Join{Endpoint: lab.APIEndpoint, CACert: ca, Timeout: time.Minute}); !strings.Contains(err.Error(), "expired or never existed") {
			t.Error("another error")
		}
	})
	t.Run("an expired token", func(t *testing.T) {
		old := must(l.JoinCommand(ctx, time.Second))(t)
		check(t, l.WaitTokenGone(ctx, old, time.Minute))
		if err := try(t, old, change.Join{Timeout: time.Minute}); !strings.Contains(err.Error(), "expired or never existed") {
			t.Error("another error")
		}
	})
	t.Run("a signer that doesn't run, and then does", func(t *testing.T) {
		pid := must(processNamed("kube-controller"))(t)
		check(t, syscall.Kill(pid, syscall.SIGSTOP))
		defer syscall.Kill(pid, syscall.SIGCONT)
		out := must(l.Kubectl(ctx, "get", "configmap", "cluster-info", "--namespace=kube-public", `--output=go-template={{range $k, $v := .data}}{{$k}} {{end}}`))(t)
		var ops []string
		for _, key := range strings.Fields(out) {
			if strings.HasPrefix(key, "jws-") {
				ops = append(ops, fmt.Sprintf(`{"op":"remove","path":"/data/%s"}`, key))
			}
		}
		must(l.Kubectl(ctx, "patch", "configmap", "cluster-info", "--namespace=kube-public", "--type=json", "--patch=["+strings.Join(ops, ",")+"]"))(t)
		if err := try(t, good, change.Join{}); !strings.Contains(err.Error(), "token signer isn't running") {
			t.Error("another error")
		}
		if err := try(t, strings.Replace(good, token, "nosuch.0000000000000000", 1), change.Join{}); !strings.Contains(err.Error(), "expired or never existed") {
			t.Error("another error for a token that is gone")
		}
		timer := time.AfterFunc(3*time.Second, func() { syscall.Kill(pid, syscall.SIGCONT) })
		defer timer.Stop()
		if err := try(t, good, change.Join{Timeout: time.Minute}); !strings.Contains(err.Error(), found) {
			t.Error("it didn't wait for the signer")
		}
	})
}

// TestTheNodesOwnCredentialReadsAndWatchesItsNode proves readiness without any
// credential but kubelet.conf, over a connection that breaks.
func TestTheNodesOwnCredentialReadsAndWatchesItsNode(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	const name = "waiter"
	relay := newRelay(t, lab.APIEndpoint)
	check(t, writeKubeletConf(name, "https://"+relay.addr()))
	t.Cleanup(func() { os.Remove(host.KubeletConf) })
	node := func(t *testing.T) host.Node {
		t.Helper()
		start := time.Now()
		n := must(host.New().Node(ctx, ""))(t)
		t.Logf("%.3f s: %+v", time.Since(start).Seconds(), n)
		return n
	}
	wait := func(limit time.Duration, say func(string)) error {
		return host.New().Apply(ctx, change.WaitReady{NodeName: name, Timeout: limit}, say)
	}
	status := func(ready, reason, message string) {
		t.Helper()
		must(l.Kubectl(ctx, "patch", "node", name, "--subresource=status", "--type=merge", "--patch",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q,"lastHeartbeatTime":"2026-03-01T12:00:00Z","lastTransitionTime":"2026-03-01T12:00:00Z"}]}}`, ready, reason, message)))(t)
	}
	const noCNI = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"

	if n := node(t); !n.Joined || !n.Reached || n.Ready || n.Unmet != "kubelet has not registered the node yet" || n.Name != name || !strings.HasPrefix(n.CAHash, "sha256:") {
		t.Errorf("before there is a Node: %+v", n)
	}
	if err := wait(2*time.Second, nil); fail.KindOf(err) != fail.Timeout || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("before there is a Node: %v", err)
	}
	check(t, l.Apply(ctx, "apiVersion: v1\nkind: Node\nmetadata: {name: "+name+", labels: {type: physical}}\n"))
	t.Cleanup(func() { l.Kubectl(context.Background(), "delete", "node", name) })
	status("False", "KubeletNotReady", noCNI)
	if n := node(t); !n.Reached || n.Ready || n.Unmet != noCNI || n.Labels["type"] != "physical" {
		t.Errorf("not Ready: %+v", n)
	}
	err := wait(2*time.Second, nil)
	if fail.KindOf(err) != fail.Timeout || !strings.Contains(err.Error(), "cni plugin not initialized") || !strings.Contains(fail.HintOf(err), "network plugin") {
		t.Errorf("not Ready: %v, hint %s", err, fail.HintOf(err))
	}

	var mu sync.Mutex
	var said []string
	done := make(chan error, 1)
	heard := func(part string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(strings.Join(said, "\n"), part) {
			return nil
		}
		return fmt.Errorf("said so far: %q", said)
	}
	go func() {
		done <- wait(2*time.Minute, func(s string) { mu.Lock(); said = append(said, s); mu.Unlock() })
	}()
	hears := func(part string) {
		t.Helper()
		check(t, lab.WaitFor(ctx, "progress "+part, 30*time.Second, func(context.Context) error { return heard(part) }))
	}
	hears("cni plugin not initialized")
	relay.cut()
	hears("the watch broke")
	relay.mend()
	status("False", "KubeletNotReady", "something else is missing")
	hears("something else is missing")
	must(l.Kubectl(ctx, "delete", "node", name))(t)
	hears("not registered")
	check(t, l.Apply(ctx, "apiVersion: v1\nkind: Node\nmetadata: {name: "+name+"}\n"))
	status("True", "KubeletReady", "kubelet is posting ready status")
	ready := time.Now()
	if err := <-done; err != nil {
		t.Errorf("Ready: %v", err)
	}
	t.Logf("known %.3f s after the status was set", time.Since(ready).Seconds())
	if n := node(t); !n.Ready || n.Unmet != "" {
		t.Errorf("Ready: %+v", n)
	}
	relay.cut()
	if n := node(t); !n.Joined || n.Reached || n.Problem == "" {
		t.Errorf("without a connection: %+v", n)
	}
	if err := wait(2*time.Second, nil); fail.KindOf(err) != fail.Timeout || !strings.Contains(err.Error(), "doesn't answer") {
		t.Errorf("without a connection: %v", err)
	}
}

// writeKubeletConf makes what kubelet has after its TLS bootstrap: kubelet.conf
// and a client certificate for the node, signed by the cluster.
func writeKubeletConf(name, server string) error {
	const current = "/etc/kubernetes/kubelet-client-current.pem"
	both, err := nodeCredential(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(current, both, 0o600); err != nil {
		return err
	}
	return os.WriteFile("/etc/kubernetes/kubelet.conf", kubeletConf(server, current), 0o600)
}

// kubeletConf is a kubelet.conf whose certificate and key are in one file, as
// kubelet writes it.
func kubeletConf(server, current string) []byte {
	host, _, _ := net.SplitHostPort(lab.APIEndpoint)
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- {name: kubernetes, cluster: {server: %q, tls-server-name: %s, certificate-authority: /etc/kubernetes/pki/ca.crt}}
contexts:
- {name: ctx, context: {cluster: kubernetes, user: default-auth}}
current-context: ctx
users:
- {name: default-auth, user: {client-certificate: %[3]s, client-key: %[3]s}}
`, server, host, current)
}

// nodeCredential is a client certificate for a node, signed by the cluster, and
// its key.
func nodeCredential(name string) ([]byte, error) {
	const pki = "/etc/kubernetes/pki/"
	caPEM, err := os.ReadFile(pki + "ca.crt")
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(pki + "ca.key")
	if err != nil {
		return nil, err
	}
	caBlock, _ := pem.Decode(caPEM)
	ca, err := x509.ParseCertificate(caBlock.Bytes)
	if err != nil {
		return nil, err
	}
	keyBlock, _ := pem.Decode(keyPEM)
	caKey, err := x509.ParsePKCS1PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})...), nil
}

// relay passes connections on until it is cut.
type relay struct {
	l    net.Listener
	mu   sync.Mutex
	open []net.Conn
	down bool
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r := &relay{l: l}
	t.Cleanup(func() { l.Close(); r.cut() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			down := r.down
			r.mu.Unlock()
			b, err := net.Dial("tcp", to)
			if err != nil || down {
				a.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, a, b)
			r.mu.Unlock()
			go func() { io.Copy(a, b); a.Close() }()
			go func() { io.Copy(b, a); b.Close() }()
		}
	}()
	return r
}

func (r *relay) addr() string { return r.l.Addr().String() }

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for _, c := range r.open {
		c.Close()
	}
	r.open = nil
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// processNamed finds a process of the lab's namespace by the beginning of its
// name (the kernel keeps 15 bytes).
func processNamed(name string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && strings.HasPrefix(string(b), name) {
			return strconv.Atoi(filepath.Base(filepath.Dir(p)))
		}
	}
	return 0, fmt.Errorf("no process %s", name)
}
