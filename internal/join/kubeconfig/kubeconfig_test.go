package kubeconfig

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// As kubelet writes it after its TLS bootstrap.
const kubeletConf = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: UEVN
    server: https://cp.example:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
`

// As kubeadm init puts it into cluster-info: no context, no user.
const clusterInfo = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: UEVN
    server: https://192.0.2.1
  name: ""
contexts: null
current-context: ""
kind: Config
users: null
`

func TestKubeletsAndClusterInfosKubeconfigsAreRead(t *testing.T) {
	c, err := Parse([]byte(kubeletConf))
	require.NoError(t, err)
	const pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	require.Equal(t, Config{Server: "https://cp.example:6443", CA: []byte("PEM"), CertFile: pem, KeyFile: pem}, c)
	require.Equal(t, "cp.example:6443", c.Host())

	c, err = Parse([]byte(clusterInfo))
	require.NoError(t, err)
	require.Equal(t, Config{Server: "https://192.0.2.1", CA: []byte("PEM")}, c)
	require.Equal(t, "192.0.2.1:443", c.Host())
}

func TestAKubeconfigThatCannotBeTrustedOrReadIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":                     {"", "no current context"},
		"cut off by a power loss":   {kubeletConf[:40], "no"},
		"no YAML":                   {"\x00\x00", "not a kubeconfig"},
		"another type":              {"clusters: 1", "not a kubeconfig"},
		"http":                      {strings.Replace(kubeletConf, "https:", "http:", 1), "no https server"},
		"without verification":      {strings.Replace(kubeletConf, "    server", "    insecure-skip-tls-verify: true\n    server", 1), "doesn't verify"},
		"another context":           {strings.Replace(kubeletConf, "current-context: default-context", "current-context: x", 1), "no current context"},
		"data that is not base64":   {strings.Replace(kubeletConf, "UEVN", "U_E", 1), "isn't base64"},
		"larger than anything real": {strings.Repeat(" ", maxSize+1), "larger"},
	} {
		_, err := Parse([]byte(c.in))
		require.ErrorContains(t, err, c.want, name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(kubeletConf))
	f.Add([]byte(clusterInfo))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := Parse(b); err == nil {
			require.True(t, strings.HasPrefix(c.Server, "https://"))
			c.Host()
		}
	})
}

func TestAUserThatCannotBeUsedForRequestsSaysWhy(t *testing.T) {
	pem := []byte("x")
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"a token":                {Config{CA: pem, Token: "t"}, ""},
		"a token in a file":      {Config{CA: pem, TokenFile: "/t"}, ""},
		"a certificate":          {Config{CAFile: "/ca", Cert: pem, Key: pem}, ""},
		"a certificate in files": {Config{CA: pem, CertFile: "/c", KeyFile: "/k"}, ""},
		"a program":              {Config{CA: pem, Token: "t", Foreign: "a program (exec)"}, "authenticates with a program (exec)"},
		"half a certificate":     {Config{CA: pem, Cert: pem}, "without its key"},
		"half a certificate too": {Config{CA: pem, Token: "t", KeyFile: "/k"}, "without its key"},
		"nobody":                 {Config{CA: pem}, "has no user"},
		"no CA":                  {Config{Token: "t"}, "has no CA"},
	} {
		text, hint := c.config.Access()
		require.Equal(t, c.want == "", text == "", name)
		require.Contains(t, text, c.want, name)
		require.Equal(t, text == "", hint == "", name)
	}
}

func TestAServerThatOtherHostsCannotJoinByIsKnown(t *testing.T) {
	for server, want := range map[string]bool{"https://cp.example:6443": true, "https://cp.example/": true, "https://192.0.2.1": true, "https://[2001:db8::1]:6443": true,
		"https://127.0.0.1:6443": false, "https://localhost:6443": false, "https://[::1]:6443": false, "https://rancher.example/k8s/clusters/c-1": false} {
		require.Equal(t, want, Config{Server: server}.Direct(), server)
	}
}
