package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

// with is the smallest configuration with another token and more of spec.
func with(token, more string) string {
	return strings.Replace(smallest, "{token: {file: /etc/nodeagent/join-command}}", "{token: {"+token+"}}", 1) + more
}

const someHash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestEverySourceOfATokenIsRead(t *testing.T) {
	for token, want := range map[string]Token{
		"credential: join-token":                                           {Credential: "join-token"},
		"guestinfo: nodeagent.token":                                       {GuestInfo: "nodeagent.token"},
		"kubeconfig: {file: /etc/nodeagent/minter.conf}":                   {Kubeconfig: &TokenKubeconfig{File: "/etc/nodeagent/minter.conf", TTL: Duration{20 * time.Minute, true}}},
		"kubeconfig: {file: /a, ttl: 1h, shred: true}":                     {Kubeconfig: &TokenKubeconfig{File: "/a", TTL: Duration{time.Hour, true}, Shred: true}},
		"https: {url: 'https://t.example:8443/join?serial={{ .Serial }}'}": {HTTPS: &TokenServer{URL: "https://t.example:8443/join?serial={{ .Serial }}"}},
		"https: {url: 'http://[::1]/x', bearerTokenFile: /b, headers: {X-Rack: 7, X-Host: '{{ .Hostname }}'}, query: {mac: '{{ .MAC }}', n: 1.50}}": {HTTPS: &TokenServer{URL: "http://[::1]/x", BearerTokenFile: "/b",
			Headers: map[string]string{"X-Rack": "7", "X-Host": "{{ .Hostname }}"}, Query: map[string]string{"mac": "{{ .MAC }}", "n": "1.50"}}},
		"https: {url: 'https://t.example', caFile: /ca, pins: ['" + someHash + "'], clientCert: /c, clientKey: /c}": {HTTPS: &TokenServer{URL: "https://t.example", CAFile: "/ca", Pins: []string{someHash}, ClientCert: "/c", ClientKey: "/c"}},
	} {
		c, err := load(t, with(token, ""))
		require.NoError(t, err, token)
		require.Equal(t, want, c.Spec.Join.Token)
		require.Len(t, want.Named(), 1)
	}
}

func TestASourceThatCannotBeUsedIsRefusedAtItsPlace(t *testing.T) {
	https := func(fields string) string { return "https: {" + fields + "}" }
	const url = "url: 'https://t.example/join', "
	for name, c := range map[string]struct{ token, want, hint string }{
		"two sources":                {"credential: x, https: {url: 'https://t.example'}", "c.yaml:5:17: spec.join.token: names 2 sources: https and credential", "keep one"},
		"all of them":                {"file: /f, value: v, command: c, https: {url: 'https://t.example'}, kubeconfig: {file: /k}, credential: x, guestinfo: y", "names 7 sources: file and value and command and https and kubeconfig and credential and guestinfo", "keep one"},
		"an unknown key":             {https("url: 'https://t.example', bearerToken: h1dd3n"), "spec.join.token.https.bearerToken: unknown key", "bearerTokenFile"},
		"a URL alone":                {"https: 'https://t.example/?k=h1dd3n'", "spec.join.token.https: want a mapping, found a single value", ""},
		"a secret number":            {"value: 123456", "spec.join.token.value: want a string, found a single value", ""},
		"no URL":                     {https("caFile: /ca"), "spec.join.token.https.url: missing", "such as"},
		"not a URL":                  {https("url: 'https://%zz/?h1dd3n'"), "c.yaml:5:31: spec.join.token.https.url: is not a URL", "such as"},
		"no host":                    {https("url: 'https:///join'"), "is not a URL", ""},
		"another scheme":             {https("url: 'ftp://t.example/x'"), "is not an https URL", ""},
		"plain http":                 {https("url: 'http://t.example/x'"), "plain http is refused", "use https"},
		"plain http, a near miss":    {https("url: 'http://127.0.0.1.example/x'"), "plain http is refused", "use https"},
		"plain http with a CA":       {https("url: 'http://127.0.0.1/x', caFile: /ca"), "proves nobody's identity", ""},
		"a password in the URL":      {https("url: 'https://u:h1dd3n@t.example/x'"), "a password in a URL", "bearerTokenFile"},
		"a fragment":                 {https("url: 'https://t.example/x#h1dd3n'"), "never sent", ""},
		"a template in the path":     {https("url: 'https://t.example/{{ .Serial }}'"), "only values of the query", "into the query"},
		"an unknown field":           {https("url: 'https://t.example/?a=h1dd3n{{ .Serail }}'"), "the query's a has the unknown field {{ .Serail }}", "{{ .Serial }}"},
		"an unknown field, a header": {https(url + "headers: {X-A: '{{ .Rack }}'}"), "c.yaml:5:72: spec.join.token.https.headers.X-A: has the unknown field {{ .Rack }}", "{{ .Serial }}"},
		"an unknown field, query":    {https(url + "query: {a: '{{ h1dd3n }}'}"), "c.yaml:5:68: spec.join.token.https.query.a: has something between", "{{ .Serial }}"},
		"an open field":              {https(url + "query: {a: '{{ .MAC'}"), "has a {{ without its }}", "{{ .Serial }}"},
		"a parameter twice":          {https("url: 'https://t.example/?a=1', query: {a: h1dd3n}"), "spec.join.token.https.query.a: stands in the URL as well", "keep one"},
		"not a pin":                  {https(url + "pins: [abc]"), "spec.join.token.https.pins[0]: \"abc\" is not a pin", "64 lower-case"},
		"a relative file":            {https(url + "bearerTokenFile: bearer"), "spec.join.token.https.bearerTokenFile: \"bearer\" is not a clean absolute path", ""},
		"a certificate alone":        {https(url + "clientCert: /c"), "spec.join.token.https: a client certificate goes with its key", ""},
		"a key alone":                {https(url + "clientKey: /c"), "spec.join.token.https: a client certificate goes with its key", ""},
		"no header's name":           {https(url + "headers: {'X A': h1dd3n}"), "spec.join.token.https.headers: \"X A\" can't be the name of a header", ""},
		"a header of the request":    {https(url + "headers: {host: h1dd3n}"), "Host belongs to the request itself", ""},
		"two authorizations":         {https(url + "bearerTokenFile: /b, headers: {authorization: h1dd3n}"), "given beside bearerTokenFile", "keep one"},
		"a header with a line break": {https(url + `headers: {X-A: "h1dd3n\nX-B: c"}`), "line breaks", ""},
		"no kubeconfig":              {"kubeconfig: {ttl: 5m}", "spec.join.token.kubeconfig.file: missing", ""},
		"a token without an end":     {"kubeconfig: {file: /k, ttl: 0}", "c.yaml:5:46: spec.join.token.kubeconfig.ttl: 0s is not between 1m0s and 24h0m0s", "20m"},
		"a token of a week":          {"kubeconfig: {file: /k, ttl: 168h}", "is not between", "20m"},
		"a credential with a path":   {"credential: /run/x", "spec.join.token.credential: \"/run/x\" can't be the name of a credential", "LoadCredential="},
		"a credential upwards":       {"credential: ..", "can't be the name", ""},
		"guestinfo with its prefix":  {"guestinfo: guestinfo.token", "the prefix guestinfo. is added by itself", "write token"},
		"guestinfo with more":        {"guestinfo: 'a b'", "can't be a key of guestinfo", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, with(c.token, ""))
			require.ErrorContains(t, err, c.want)
			require.Equal(t, fail.Usage, fail.KindOf(err))
			require.Contains(t, fail.HintOf(err), c.hint)
			require.NotContains(t, err.Error()+fail.HintOf(err), "h1dd3n")
			require.NotContains(t, err.Error()+fail.HintOf(err), "123456")
		})
	}
}

func TestALabelThatANodeMayNotGiveItselfNeedsAKubeconfig(t *testing.T) {
	for key, allowed := range map[string]bool{"type": true, "node.kubernetes.io/rack": true, "topology.kubernetes.io/zone": true, "kubernetes.io/os": true,
		"node-role.kubernetes.io/worker": false, "example.k8s.io/x": false, "node-restriction.kubernetes.io/x": false, "kubernetes.io/role": false} {
		more := "  kubelet: {labels: {" + key + ": \"\"}}\n"
		_, err := load(t, with("file: /f", more))
		if allowed {
			require.NoError(t, err, key)
		} else {
			require.ErrorContains(t, err, "c.yaml:6:", key)
			require.ErrorContains(t, err, "spec.kubelet.labels."+key+": a node can't give itself a label of", key)
			require.Contains(t, fail.HintOf(err), "spec.join.token.kubeconfig", key)
			require.Contains(t, fail.HintOf(err), "kubectl label node", key)
		}
		_, err = load(t, with("kubeconfig: {file: /k}", more))
		require.NoError(t, err, key)
	}
}

func TestAKubeconfigThatIsWrittenInEveryRunIsNotShredded(t *testing.T) {
	files := "  files: [{path: /k, content: x, permissions: \"0600\"}]\n"
	_, err := load(t, with("kubeconfig: {file: /k, shred: true}", files))
	require.ErrorContains(t, err, "c.yaml:5:48: spec.join.token.kubeconfig.shred: spec.files would write /k again in every run")
	_, err = load(t, with("kubeconfig: {file: /k}", files))
	require.NoError(t, err)
}

func TestACredentialForTheTokensServerIsNamed(t *testing.T) {
	for token, want := range map[string]string{
		"https: {url: 'https://t.example', headers: {X-API-Key: x}}":     "a credential for the token's server",
		"https: {url: 'https://t.example', query: {signature: x}}":       "a credential for the token's server",
		"https: {url: 'https://t.example/?token=x'}":                     "a credential for the token's server",
		"https: {url: 'https://t.example/?serial=x', headers: {A: b}}":   "",
		"https: {url: 'https://t.example', bearerTokenFile: /etc/token}": "",
	} {
		c, err := load(t, with(token, ""))
		require.NoError(t, err)
		require.Equal(t, want, c.Spec.Secret(), token)
	}
}
