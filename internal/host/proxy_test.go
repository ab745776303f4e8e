package host

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProxyOfThePackageManagerIsRead(t *testing.T) {
	for conf, want := range map[string]string{
		"[main]\ngpgcheck=1\nproxy = http://proxy.example:3128\n":                        "http://proxy.example:3128",
		"[main]\nproxy=http://proxy.example:3128/\nproxy_username=u\nproxy_password=p\n": "http://u:p@proxy.example:3128/",
		"[main]\nproxy=\n":                     "",
		"[main]\nproxy=_none_\n":               "",
		"[repo]\nproxy=http://other.example\n": "",
		"proxy=http://x.example":               "",
		"":                                     "",
	} {
		u := parseProxy(conf)
		if want == "" {
			require.Nil(t, u, conf)
			continue
		}
		require.Equal(t, want, u.String())
	}
}

func TestThisHostIsReachedWithoutAProxy(t *testing.T) {
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "")
	}
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8000/", nil)
	require.NoError(t, err)
	u, err := proxyOf(r)
	require.NoError(t, err)
	require.Nil(t, u)
}

func FuzzParseProxyNeverPanics(f *testing.F) {
	f.Add("[main]\nproxy=http://a:b@c\n")
	f.Fuzz(func(t *testing.T, s string) { parseProxy(s) })
}
