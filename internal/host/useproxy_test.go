package host

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
)

// unproxied is an environment without a proxy, put back after the test.
func unproxied(t *testing.T) {
	t.Helper()
	for _, name := range proxyNames {
		t.Setenv(name, "")
		t.Setenv(strings.ToUpper(name), "")
	}
}

// connectProxy is a proxy that counts what goes through it and takes it to one
// server, whatever name was asked for.
type connectProxy struct {
	*httptest.Server
	tunnels, plain atomic.Int64
}

func newConnectProxy(t *testing.T, server string) *connectProxy {
	p := &connectProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			p.plain.Add(1)
			fmt.Fprint(w, "through the proxy: "+r.URL.String())
			return
		}
		p.tunnels.Add(1)
		to, err := net.Dial("tcp", server)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			to.Close()
			return
		}
		go func() { _, _ = io.Copy(to, buffered); to.Close() }()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	t.Cleanup(p.Close)
	return p
}

func fetched(t *testing.T, source string) (string, error) {
	t.Helper()
	var b strings.Builder
	err := New().fetch(hasty(context.Background()), source, 1<<20, func() (io.Writer, error) { return &b, nil })
	return b.String(), err
}

func TestFetchesGoThroughTheProxyOfTheConfiguration(t *testing.T) {
	unproxied(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "content") }))
	t.Cleanup(s.Close)
	before := addedAuthorities
	t.Cleanup(func() { addedAuthorities = before })
	addedAuthorities = []string{given(t, "nodeagent-test.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}
	p := newConnectProxy(t, s.Listener.Addr().String())
	t.Setenv("https_proxy", "http://127.0.0.1:1") // what the environment said before counts no more
	l := New()
	require.NoError(t, l.UseProxy([]string{"HTTP_PROXY=" + p.URL, "HTTPS_PROXY=" + p.URL, "NO_PROXY=localhost,direct.invalid"}))

	// The test server's certificate is for example.com, which only the proxy
	// takes to it.
	got, err := fetched(t, "https://example.com/file")
	require.NoError(t, err)
	require.Equal(t, "content", got)
	require.EqualValues(t, 1, p.tunnels.Load())

	got, err = fetched(t, "http://mirror.invalid/file")
	require.NoError(t, err)
	require.Equal(t, "through the proxy: http://mirror.invalid/file", got)
	require.EqualValues(t, 1, p.plain.Load())

	_, err = fetched(t, "http://direct.invalid/file")
	require.Error(t, err, "no name is resolved for it, and the proxy isn't asked")
	require.EqualValues(t, 1, p.plain.Load())
	require.EqualValues(t, 1, p.tunnels.Load())

	// Another configuration within the same process counts at once.
	require.NoError(t, l.UseProxy([]string{"HTTP_PROXY=http://127.0.0.1:1"}))
	_, err = fetched(t, "http://mirror.invalid/file")
	require.Error(t, err)
	require.EqualValues(t, 1, p.plain.Load())
	require.Empty(t, os.Getenv("https_proxy"))
}

func TestWhatIsExceptedFromTheProxyIsReachedDirectly(t *testing.T) {
	address := ownAddress(t)
	unproxied(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "directly") })}}
	s.Start()
	t.Cleanup(s.Close)
	p := newConnectProxy(t, "")
	for _, c := range []struct {
		except, want string
		through      int64
	}{
		{"localhost", "through the proxy: " + s.URL + "/", 1},
		{"localhost," + address, "directly", 1},
		{address + "/32", "directly", 1},
	} {
		require.NoError(t, New().UseProxy([]string{"HTTP_PROXY=" + p.URL, "NO_PROXY=" + c.except}))
		got, err := fetched(t, s.URL+"/")
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.except)
		require.Equal(t, c.through, p.plain.Load(), c.except)
	}
}

// ownAddress is an IPv4 address of this host that isn't the loopback's, which
// no client ever asks a proxy for.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this host has no address but the loopback's")
	return ""
}

func TestProgramsGetTheProxyOfTheConfigurationAndKubeadmJoinGetsNone(t *testing.T) {
	unproxied(t)
	t.Setenv("ALL_PROXY", "http://other.example:3128")
	l := New()
	require.NoError(t, l.UseProxy([]string{"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=localhost"}))
	r, err := l.exec(context.Background(), program{name: "env"})
	require.NoError(t, err)
	for _, want := range []string{"HTTPS_PROXY=http://proxy.example:3128\n", "https_proxy=http://proxy.example:3128\n", "NO_PROXY=localhost\n", "no_proxy=localhost\n"} {
		require.Contains(t, string(r.stdout), want)
	}
	require.NotContains(t, string(r.stdout), "other.example")
	require.NotContains(t, strings.Join(proxies(), "\n"), "other.example")

	r, err = l.exec(context.Background(), program{name: "env", direct: true})
	require.NoError(t, err)
	require.NotContains(t, strings.ToLower(string(r.stdout)), "proxy")
}

func TestWithoutAProxyInTheConfigurationTheEnvironmentStays(t *testing.T) {
	unproxied(t)
	t.Setenv("https_proxy", "http://proxy.example:3128")
	require.NoError(t, New().UseProxy(nil))
	r, err := http.NewRequest(http.MethodGet, "https://a.example/", nil)
	require.NoError(t, err)
	u, err := proxyOf(r)
	require.NoError(t, err)
	require.Equal(t, &url.URL{Scheme: "http", Host: "proxy.example:3128"}, u)
}

func TestAHookReachesTheJoinedClusterDirectly(t *testing.T) {
	unproxied(t)
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(root+"/etc/kubernetes", 0o755))
	l := At(root)
	require.NoError(t, l.UseProxy([]string{"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=localhost,cp.example"}))
	require.Empty(t, l.hookProxy(), "nothing is joined")
	for server, want := range map[string]string{
		"https://10.0.0.5:6443":   "localhost,cp.example,10.0.0.5",
		"https://[fd00::5]:6443":  "localhost,cp.example,fd00::5",
		"https://cp.example:6443": "localhost,cp.example",
	} {
		conf := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
		require.NoError(t, os.WriteFile(root+KubeletConf, []byte(conf), 0o600))
		require.Equal(t, []string{"NO_PROXY=" + want, "no_proxy=" + want}, l.hookProxy())
	}
}

func TestAHookGetsTheProxy(t *testing.T) {
	unproxied(t)
	l := New()
	require.NoError(t, l.UseProxy([]string{"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=localhost"}))
	told := ""
	err := l.applyRunHook(context.Background(), change.RunHook{When: "preJoin", Marker: t.TempDir() + "/done", Command: "echo $https_proxy; exit 1"}, func(s string) { told += s })
	require.Error(t, err)
	require.Equal(t, "http://proxy.example:3128", told)
}
