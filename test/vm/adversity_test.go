package vm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	wire "encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// watch is output that is looked at while it comes.
type watch struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(p)
}

func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// TestAConnectionThatDropsDuringARunByHand starts up over ssh, with the
// configuration on standard input, and loses the connection while packages are
// installed. The run goes on, status tells, and the node is Ready.
func TestAConnectionThatDropsDuringARunByHand(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	const name = "dropped"
	g := newGuest(t, l, lab.Rocky9, name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	g.Seed(lab.CNIConfig)
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}.String()
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	check(t, g.SCP(ctx, binary(t), lab.Binary))
	must(g.RunWithInput(ctx, join, "umask 077; mkdir -p /etc/nodeagent; cat >"+lab.TokenFile))(t)

	lost, drop := context.WithCancel(ctx)
	var out watch
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.StreamWithInput(lost, config, &out, "nodeagent up --config -")
	}()
	check(t, lab.WaitFor(ctx, "packages to be installed", 5*time.Minute, func(context.Context) error {
		if strings.Contains(out.String(), "installing kubelet") {
			return nil
		}
		return fmt.Errorf("the last of it: %s", lastLine(out.String()))
	}))
	drop()
	<-ended
	t.Logf("the connection is gone; what came over it:\n%s", out.String())

	running := must(g.Run(ctx, "nodeagent status"))(t)
	if !strings.Contains(running, "running: up, pid ") || !strings.Contains(running, "step packages") {
		t.Errorf("status says %s", running)
	}
	if r := must(g.Exec(ctx, "nodeagent up --config - <<'EOF'\n"+config+"EOF"))(t); r.Code != 6 || !strings.Contains(r.Stderr, "in step packages") {
		t.Errorf("another run beside it: exit %d: %s", r.Code, r.Stderr)
	}
	check(t, lab.WaitFor(ctx, "the run to end", 10*time.Minute, func(ctx context.Context) error {
		out, err := g.Run(ctx, "nodeagent status")
		if err == nil && strings.Contains(out, "running: ") {
			err = fmt.Errorf("%s", lastLine(out))
		}
		return err
	}))
	told := must(g.Run(ctx, "nodeagent status"))(t)
	t.Log(told)
	if last := lastRunOf(t, g); last.Result != "converged" || !strings.Contains(told, "last run: up converged") {
		t.Fatalf("the run that nobody saw: %+v", last)
	}
	if n := must(nodeOf(ctx, l, name))(t); !n.ready() {
		t.Error("not Ready")
	}
	if r := must(g.Exec(ctx, "nodeagent up --config - <<'EOF'\n"+config+"EOF"))(t); r.Code != converged || lastRunOf(t, g).Changes != 0 {
		t.Errorf("the next run: exit %d: %s", r.Code, r.Stdout+r.Stderr)
	}
	checkMounts(t, g, twoXFS)
	checkNoToken(t, g, tokenSecret(t, join))
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\n")+1:]
}

// TestEverythingComesLate boots a host whose clock is ten years ahead, in a
// network that isn't ready: no lease, then no time, no names, a token that the
// cluster doesn't know any more, and no API server. Nobody helps; each cause is
// told on the console while it lasts, and the node is Ready at the end.
func TestEverythingComesLate(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	const name = "late"
	g := newGuest(t, l, lab.Rocky9Boot, name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	g.Clock = time.Now().UTC().AddDate(10, 0, 0).Format("2006-01-02T15:04:05")

	expired := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	must(l.Kubectl(ctx, "--namespace=kube-system", "delete", "secret", "bootstrap-token-"+regexp.MustCompile(`--token (\w+)\.`).FindStringSubmatch(expired)[1]))(t)
	fresh := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	asked := make(chan struct{})
	var once sync.Once
	server := listenTLS(t, "192.0.2.1:8444", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		first := false
		once.Do(func() { first = true; close(asked) })
		if first {
			fmt.Fprintln(w, expired)
			return
		}
		fmt.Fprintln(w, fresh)
	}))
	pin := sha256.Sum256(server.Certificate().RawSubjectPublicKeyInfo)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}.String()
	config = strings.Replace(config, "token: {file: "+lab.TokenFile+"}", fmt.Sprintf(`token: {https: {url: "%s/token", pins: ["sha256:%s"]}}`, server.URL, hex.EncodeToString(pin[:])), 1)
	config = strings.Replace(config, "  runtime:", "  time: {servers: [192.0.2.1]}\n  runtime:", 1)
	g.Seed(lab.CNIConfig, lab.File{Path: lab.Binary, Mode: 0o755, From: binary(t)}, lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: config})
	g.Seed(firstBootUnit(t)...)

	noNames := must(g.Drop(ctx, "udp dport 53"))(t)
	noAPI := must(g.Drop(ctx, "tcp dport 6443"))(t)
	console := func(what, line string) {
		t.Helper()
		re := regexp.MustCompile(line)
		check(t, lab.WaitFor(ctx, what, 8*time.Minute, func(context.Context) error {
			b, err := os.ReadFile(g.Console())
			if err == nil && !re.Match(b) {
				err = fmt.Errorf("no %q on the console; the last line is %q", line, lastLine(string(b)))
			}
			return err
		}))
		t.Logf("told: %s", re.Find(must(os.ReadFile(g.Console()))(t)))
	}

	g.LateLease = true
	start := time.Now()
	check(t, g.Boot(ctx))
	check(t, g.LeaseAfterFirstAsk(ctx, 5*time.Second))
	console("the missing route to be told", `nodeagent\[\d+\]: +no default route yet.*|nodeagent\[\d+\]: time +.*default route.*`)
	console("the wait for the time to be told", `nodeagent\[\d+\]: time +wait .*192\.0\.2\.1.*`)
	time.Sleep(10 * time.Second) // the time server is away a while longer
	serveTime(t, "192.0.2.1:123")
	console("the missing names to be told", `nodeagent\[\d+\]: error: .*can't be found: the name.*`)
	check(t, g.WaitSSH(ctx, 2*time.Minute))
	if year := strings.TrimSpace(must(g.Run(ctx, "date +%Y"))(t)); year != time.Now().UTC().Format("2006") {
		t.Errorf("the host is in %s and fetches already", year)
	}
	told := must(g.Run(ctx, "nodeagent status; cat /var/lib/nodeagent/last-run.json"))(t)
	if !strings.Contains(told, "can't be found") || !strings.Contains(told, "hint") {
		t.Errorf("status and last-run.json say %s", told)
	}
	check(t, noNames())
	select {
	case <-asked:
	case <-time.After(15 * time.Minute):
		t.Fatalf("nobody asked for the token: %s", must(g.Run(ctx, "journalctl --no-pager --unit nodeagent.service | tail -30"))(t))
	}
	t.Logf("the token was asked for %.0f s after power-on; the API server is away for two minutes", time.Since(start).Seconds())
	time.Sleep(2 * time.Minute)
	check(t, noAPI())
	if err := lab.WaitFor(ctx, "the node to be Ready", 12*time.Minute, func(ctx context.Context) error {
		n, err := nodeOf(ctx, l, name)
		if err == nil && !n.ready() {
			err = fmt.Errorf("not Ready")
		}
		return err
	}); err != nil {
		t.Fatalf("%v\n%s", err, must(g.Run(ctx, "journalctl --no-pager --unit nodeagent.service | tail -60"))(t))
	}
	t.Logf("Ready %.0f s after power-on", time.Since(start).Seconds())
	t.Log(must(g.Run(ctx, "journalctl --no-pager --output=cat --unit nodeagent.service | grep -e error: -e hint: -e token -e join; chronyc -n sources"))(t))
	settled(t, g, tokenSecret(t, fresh))
	checkNoToken(t, g, tokenSecret(t, expired))
}

// listenTLS serves h on an address of the lab machine until the test ends.
func listenTLS(t *testing.T, addr string, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = must(net.Listen("tcp", addr))(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// serveTime answers NTP (RFC 5905) with the lab machine's clock until the test
// ends.
func serveTime(t *testing.T, addr string) {
	t.Helper()
	conn := must(net.ListenPacket("udp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	stamp := func(b []byte, at time.Time) {
		wire.BigEndian.PutUint32(b, uint32(at.Unix()+2208988800)) // seconds since 1900
		wire.BigEndian.PutUint32(b[4:], uint32((uint64(at.Nanosecond())<<32)/1e9))
	}
	go func() {
		in := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(in)
			if err != nil {
				return
			}
			if n < 48 {
				continue
			}
			now := time.Now()
			out := make([]byte, 48)
			out[0] = 4<<3 | 4 // version 4, server
			out[1] = 1        // a primary server
			out[2], out[3] = in[2], 0xec
			copy(out[12:], "LAB\x00")
			stamp(out[16:], now)
			copy(out[24:32], in[40:48])
			stamp(out[32:], now)
			stamp(out[40:], now)
			conn.WriteTo(out, from)
		}
	}()
}
