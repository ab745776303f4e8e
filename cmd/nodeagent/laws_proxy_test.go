package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/reset"
)

// proxied asks for a proxy as well.
func proxied(spec config.Spec) config.Spec {
	spec.Proxy = config.Proxy{HTTP: "http://proxy.example:3128", HTTPS: "http://proxy.example:3128", NoProxy: []string{".corp.example"}}
	return spec
}

const proxyDropIn = "/etc/systemd/system/containerd.service.d/10-nodeagent-proxy.conf"

func TestAProxyThatComesLaterReachesTheRuntimeWhateverDies(t *testing.T) {
	spec := lawCases(t)["minimal"].spec
	joined := hosttest.Rocky9()
	_, err := up(joined, spec)
	require.NoError(t, err)
	reference := joined.Clone()
	reference.DieAt(0, hosttest.Before)
	last, err := up(reference, proxied(spec))
	require.NoError(t, err)
	require.Equal(t, 2, last.Changes)
	require.Contains(t, reference.Files[proxyDropIn].Content, `Environment="HTTPS_PROXY=http://proxy.example:3128"`)
	for _, how := range []hosttest.Death{hosttest.Before, hosttest.After, hosttest.Torn} {
		for n := 1; n <= reference.Effects(); n++ {
			w := joined.Clone()
			w.DieAt(n, how)
			_, err := up(w, proxied(spec))
			require.Error(t, err)
			w.Restart()
			_, err = up(w, proxied(spec))
			require.NoError(t, err)
			require.Equal(t, reference.String(), w.String(), "death %d at effect %d", how, n)
			require.Greater(t, w.UnitStates["containerd.service"].StartedAt, w.Files[proxyDropIn].Modified, "death %d at effect %d", how, n)
		}
	}
}

func TestAResetTakesTheProxyOfTheRuntimeAway(t *testing.T) {
	w := hosttest.Rocky9()
	_, err := up(w, proxied(lawCases(t)["minimal"].spec))
	require.NoError(t, err)
	require.Contains(t, w.Files, proxyDropIn)
	_, err = resetWorld(w, reset.Options{})
	require.NoError(t, err)
	require.NotContains(t, w.Files, proxyDropIn)
}

func TestTheProxyOfTheConfigurationIsThatOfTheProcess(t *testing.T) {
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "all_proxy"} {
		t.Setenv(name, "")
		t.Setenv(strings.ToUpper(name), "")
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: node1
  kubernetes: {version: v1.35.4}
  proxy: {https: "http://proxy.example:3128", noProxy: [.corp.example]}
  firewall: {trustedSources: [10.244.0.0/16]}
  join: {endpoint: "cp.example:6443", token: {file: /t}}
`), 0o600))
	a := &app{configs: []string{file}, errs: os.Stderr}
	_, err := a.load(t.Context(), host.At(t.TempDir()), false)
	require.NoError(t, err)
	require.Empty(t, os.Getenv("HTTPS_PROXY"), "a tree of files is only looked at")

	_, err = a.load(t.Context(), host.New(), false)
	require.NoError(t, err)
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		require.Equal(t, "http://proxy.example:3128", os.Getenv(name))
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		require.Equal(t, "localhost,127.0.0.0/8,::1,node1,cp.example,10.244.0.0/16,.corp.example", os.Getenv(name))
	}
	require.Empty(t, os.Getenv("HTTP_PROXY"))
}

func TestARenderedArtefactFetchesTheBinaryThroughTheProxy(t *testing.T) {
	one := strings.Replace(served, "  hostname: served\n", "  hostname: served\n  proxy: {http: 'http://proxy.example:3128', https: 'http://proxy.example:3128', noProxy: [boot.example]}\n", 1)
	code, out, errs := rendering(t, map[string]string{"c.yaml": one})("script", "--config", "c.yaml", "--binary-url", "https://a.example/n", "--binary-sha256", strings.Repeat("0a", 32))
	require.Zero(t, code, errs)
	require.Contains(t, out, "https_proxy='http://proxy.example:3128'\nexport https_proxy\n")
	require.Regexp(t, `(?m)^no_proxy='localhost,127.0.0.0/8,::1,(\S+,)?boot.example'$`, out)
	require.NotRegexp(t, `(?m)^no_proxy=.*served`, out)
}
