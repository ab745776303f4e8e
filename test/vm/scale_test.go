package vm_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// tokenServer hands out one join command and sheds the first requests, as a
// server does that was just started or is behind a rate limit.
type tokenServer struct {
	*httptest.Server
	document string
	shed     int

	mu     sync.Mutex
	seen   map[string]int // requests by host
	served map[string]int // answers with the token by host
	first  time.Time
	last   time.Time
}

func newTokenServer(document string, shed int) *tokenServer {
	s := &tokenServer{document: document, shed: shed, seen: map[string]int{}, served: map[string]int{}}
	s.Server = httptest.NewTLSServer(s)
	return s
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if s.first.IsZero() {
		s.first = s.last
	}
	host := r.URL.Query().Get("host")
	s.seen[host]++
	if s.shed > 0 {
		s.shed--
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.served[host]++
	fmt.Fprintln(w, s.document)
}

// agent is a host of which only what a join touches is its own: /run, /var/lib,
// /etc/kubernetes, its name. Its kubeadm runs the real one as far as discovery
// and preflight go, and then leaves what kubelet would have got.
const agent = `set -e
cd %[1]s
mount --make-rprivate /
for d in /run /var/lib /usr/local/sbin; do mount -t tmpfs agent $d; done
mount --bind kubernetes /etc/kubernetes
mount --bind hostname /etc/hostname
mkdir -p /etc/nodeagent
mount --bind nodeagent /etc/nodeagent
hostname %[2]s
cat >/usr/local/sbin/kubeadm <<'EOF'
#!/bin/sh
set -e
[ "$1 $2" != "config validate" ] || exit 0
echo >>%[1]s/kubeadm-runs
%[3]s join phase preflight --config "$3" --ignore-preflight-errors=all
cp -r %[1]s/joined/. /etc/kubernetes
mkdir -p /var/lib/kubelet
EOF
chmod 755 /usr/local/sbin/kubeadm
exec %[4]s up --config /etc/nodeagent/config.yaml --yes %[5]s
`

const agentConfig = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: %[1]s
  kubernetes: {version: v1.35.4}
  network: {defaultRoute: {family: none}}
  join:
    token: {https: {url: "%[2]s/token", caFile: /etc/nodeagent/server.pem, query: {host: "{{ .Hostname }}"}}}
    timeout: 5m
    waitReady: 0
`

// notHere are the steps that such a host has nothing for.
var notHere = []string{"preflight", "identity", "packages", "swap", "disks", "files", "kernel", "firewall", "runtime", "kubelet", "route", "pre-join", "post-join", "ready"}

// TestManyHostsJoinAtTheSameMoment starts the shipped binary on many hosts at
// once: one token server, which sheds load at first, and one real API server. All
// get through, and what each asks is counted.
func TestManyHostsJoinAtTheSameMoment(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	hosts := 40
	if lab.Whole() {
		hosts = 200
	}
	server := newTokenServer(must(l.JoinCommand(ctx, time.Hour))(t), hosts/2)
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ca := must(os.ReadFile("/etc/kubernetes/pki/ca.crt"))(t)
	var skip []string
	for _, s := range notHere {
		skip = append(skip, "--skip "+s)
	}
	kubeadm, _ := filepath.Abs(filepath.Join(l.Assets.Bin, "kubeadm"))
	names := make([]string, hosts)
	scripts := make([]string, hosts)
	for i := range hosts {
		name := fmt.Sprintf("scale%03d", i)
		dir := filepath.Join(l.RunDir, "scale", name)
		names[i] = name
		scripts[i] = fmt.Sprintf(agent, dir, name, kubeadm, binary(t), strings.Join(skip, " "))
		for path, content := range map[string][]byte{
			"hostname":                          []byte(name + "\n"),
			"nodeagent/config.yaml":             fmt.Appendf(nil, agentConfig, name, server.URL),
			"nodeagent/server.pem":              certificate,
			"kubernetes/.keep":                  nil,
			"joined/pki/ca.crt":                 ca,
			"joined/kubelet-client-current.pem": must(nodeCredential(name))(t),
			"joined/kubelet.conf":               kubeletConf("https://"+lab.APIEndpoint, "/etc/kubernetes/kubelet-client-current.pem"),
		} {
			check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
			check(t, os.WriteFile(filepath.Join(dir, path), content, 0o600))
		}
	}
	before := apiRequests(t, l)
	outs := make([]bytes.Buffer, hosts)
	errs := make([]error, hosts)
	begin := make(chan struct{})
	var all sync.WaitGroup
	start := time.Now()
	for i := range hosts {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, "unshare", "--mount", "--uts", "sh", "-c", scripts[i])
			cmd.Stdout, cmd.Stderr = &outs[i], &outs[i]
			<-begin
			errs[i] = cmd.Run()
		})
	}
	close(begin)
	all.Wait()
	took := time.Since(start)
	after := apiRequests(t, l)
	bad, most := 0, 0
	for i, name := range names {
		most = max(most, server.seen[name])
		runs, _ := os.ReadFile(filepath.Join(l.RunDir, "scale", name, "kubeadm-runs"))
		if errs[i] != nil || server.served[name] != 1 || len(runs) != 1 {
			if bad++; bad <= 3 {
				t.Errorf("%s: %v; %d requests for a token, %d answered, kubeadm ran %d times\n%s", name, errs[i], server.seen[name], server.served[name], len(runs), &outs[i])
			}
		}
	}
	if bad > 3 {
		t.Errorf("%d hosts of %d failed", bad, hosts)
	}
	total := 0
	for _, n := range server.seen {
		total += n
	}
	// A host that was shed asks again; nobody asks without a refusal.
	if total != hosts+hosts/2 {
		t.Errorf("%d requests for tokens: %d hosts and %d refusals make %d", total, hosts, hosts/2, hosts+hosts/2)
	}
	t.Logf("%d hosts in %.1f s; %d requests for tokens (%d refused), at most %d by one host, spread over %.1f s", hosts, took.Seconds(), total, hosts/2, most, server.last.Sub(server.first).Seconds())
	var kinds []string
	for kind, n := range after {
		if d := n - before[kind]; d >= hosts/2 {
			kinds = append(kinds, fmt.Sprintf("%s: %.2f", kind, float64(d)/float64(hosts)))
		}
	}
	slices.Sort(kinds)
	t.Logf("requests to the API server, per host: %s", strings.Join(kinds, "; "))
	// Ours and kubeadm's looks at cluster-info, and what kubeadm reads then.
	if d := after["GET configmaps"] - before["GET configmaps"]; d > 8*hosts {
		t.Errorf("%d reads of ConfigMaps by %d hosts", d, hosts)
	}
}

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} ([0-9.e+]+)$`)

// apiRequests is what the API server has counted, by verb and resource.
func apiRequests(t *testing.T, l *lab.Lab) map[string]int {
	t.Helper()
	out := map[string]int{}
	text := must(l.Kubectl(context.Background(), "get", "--raw", "/metrics"))(t)
	label := func(set, name string) string {
		_, rest, _ := strings.Cut(set, name+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for _, m := range requestTotal.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		check(t, err)
		out[label(m[1], "verb")+" "+label(m[1], "resource")] += int(n)
	}
	return out
}
