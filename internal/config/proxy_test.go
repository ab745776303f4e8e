package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProxyIsChecked(t *testing.T) {
	for _, c := range []struct{ proxy, want string }{
		{"{http: 'proxy.example:3128'}", `spec.proxy.http: "proxy.example:3128" is not a proxy`},
		{"{http: 'socks5://proxy.example:1080'}", "is not a proxy"},
		{"{https: 'http://:3128'}", "spec.proxy.https"},
		{"{https: 'http://proxy.example:3128/path'}", "is not a proxy"},
		{"{https: 'http://proxy.example:3128?x'}", "is not a proxy"},
		{"{https: 'http://proxy.example:port'}", "is not a proxy"},
		{"{https: \"http://proxy.example:3128\\nX\"}", "is not a proxy"},
		{"{https: 'http://a\"b:3128'}", "is not a proxy"},
		{"{https: 'http://.example:3128'}", "is not a proxy"},
		{"{http: 'http://p.example:1', noProxy: ['::1%a,b']}", "is not a host"},
		{"{https: 'http://proxy.example'}", `"http://proxy.example" has no port`},
		{"{noProxy: [a.example]}", "spec.proxy.noProxy: names exceptions, and there is no proxy"},
		{"{http: 'http://p.example:1', noProxy: ['*']}", "spec.proxy.noProxy[0]: an exception for everything"},
		{"{http: 'http://p.example:1', noProxy: [a.example, '*.b.example']}", `spec.proxy.noProxy[1]: "*.b.example": curl`},
		{"{http: 'http://p.example:1', noProxy: ['a,b']}", `"a,b" is not a host`},
		{"{http: 'http://p.example:1', noProxy: ['http://a.example']}", "is not a host"},
		{"{http: 'http://p.example:1', noProxy: ['']}", `"" is not a host`},
		{"{http: 'http://p.example:1', noProxy: [10.1.2.3/8]}", "10.1.2.3/8 has bits set beyond its prefix"},
	} {
		_, err := load(t, smallest+"  proxy: "+c.proxy+"\n")
		require.ErrorContains(t, err, c.want, c.proxy)
	}
	_, err := load(t, smallest+"  proxy: {http: 'http://p.example:3128/', https: 'https://[fd00::1]:3128', noProxy: [a, .b.example, 'c.example:8443', 10.0.0.0/8, 'fd00::/8', 192.0.2.1, '::2']}\n")
	require.NoError(t, err)
}

func TestAPasswordOfAProxyIsRefusedAndNotRepeated(t *testing.T) {
	for _, raw := range []string{"http://u:hunter2@proxy.example:3128", "http://u:hunter2@proxy.example:x", "u:hunter2@proxy.example:3128", "http://hunter2@proxy.example:3128"} {
		_, err := load(t, smallest+"  proxy: {https: '"+raw+"'}\n")
		require.ErrorContains(t, err, "spec.proxy.https: a user or password for the proxy would be readable", raw)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestHalfAProxyIsWarnedOf(t *testing.T) {
	for proxy, want := range map[string]string{
		"{http: 'http://p.example:3128'}":                                 "spec.proxy.https isn't given",
		"{https: 'http://p.example:3128'}":                                "spec.proxy.http isn't given",
		"{http: 'http://p.example:3128', https: 'http://p.example:3128'}": "",
	} {
		c, err := load(t, smallest+"  proxy: "+proxy+"\n")
		require.NoError(t, err)
		require.Equal(t, want != "", strings.Contains(strings.Join(c.Warnings, "\n"), "spec.proxy"), c.Warnings)
		require.Contains(t, strings.Join(c.Warnings, "\n"), want)
	}
}

func TestWhatIsNeverReachedThroughTheProxy(t *testing.T) {
	s := Default().Spec
	require.Empty(t, s.ProxyVariables("host"))
	s.Proxy = Proxy{HTTPS: "http://p.example:3128", NoProxy: []string{".corp.example", "localhost"}}
	s.Join.Endpoint = "[fd00::5]:6443"
	s.Firewall.TrustedSources = []string{"10.244.0.0/16"}
	require.Equal(t, []string{"HTTPS_PROXY=http://p.example:3128", "NO_PROXY=localhost,127.0.0.0/8,::1,worker-1,fd00::5,10.244.0.0/16,.corp.example"}, s.ProxyVariables("Worker-1\n"))
	s.Hostname, s.Join.Endpoint, s.Proxy.HTTP = "node1", "", "http://q.example:80"
	require.Equal(t, []string{"HTTP_PROXY=http://q.example:80", "HTTPS_PROXY=http://p.example:3128", "NO_PROXY=localhost,127.0.0.0/8,::1,node1,10.244.0.0/16,.corp.example"}, s.ProxyVariables("host"))
}

func FuzzProxyIsOneVariable(f *testing.F) {
	f.Add("http://proxy.example:3128", ".example")
	f.Add("https://[::1]:1", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, proxy, except string) {
		k := &checker{d: &decoder{}}
		s := &Spec{Proxy: Proxy{HTTPS: proxy, NoProxy: []string{except}}}
		k.proxy(s)
		if len(k.d.problems) > 0 || proxy == "" {
			return
		}
		for _, v := range s.ProxyVariables("h") {
			if strings.ContainsAny(v, " \n\r\t\x00@") {
				t.Fatalf("%q", v)
			}
		}
		if strings.Contains(except, ",") {
			t.Fatalf("%q is more than one exception", except)
		}
	})
}
