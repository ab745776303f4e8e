package runtime

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

const proxied = "  hostname: node1\n  proxy: {http: 'http://proxy.example:3128', https: 'http://proxy.example:3128', noProxy: [.corp.example]}\n"

func TestTheRuntimeGetsTheProxyInADropIn(t *testing.T) {
	w := packaged()
	converge(t, w, load(t, ""))
	p := converge(t, w, load(t, proxied))
	const path = "/etc/systemd/system/containerd.service.d/10-nodeagent-proxy.conf"
	require.Equal(t, []string{"file:" + path, "unit:containerd.service"}, ids(p))
	require.Equal(t, `# Kept by nodeagent (spec.proxy).
[Service]
Environment="HTTP_PROXY=http://proxy.example:3128"
Environment="HTTPS_PROXY=http://proxy.example:3128"
Environment="NO_PROXY=localhost,127.0.0.0/8,::1,node1,.corp.example"
`, w.Files[path].Content)
	require.Equal(t, change.SetUnit{Unit: "containerd.service", Socket: config.DefaultSocket, Reload: true, Restart: true, Why: "its configuration changes"}, p.Changes[1])

	p = converge(t, w, load(t, strings.ReplaceAll(proxied, "3128", "8080")))
	require.Equal(t, []string{"file:" + path, "unit:containerd.service"}, ids(p), "another proxy")
}

func TestARunThatDiedBeforeTheRestartForTheProxyIsFinished(t *testing.T) {
	w := packaged()
	converge(t, w, load(t, ""))
	require.NoError(t, w.Apply(context.Background(), plan(t, w, load(t, proxied)).Changes[0], nil))
	p := converge(t, w, load(t, proxied))
	require.Equal(t, []string{"unit:containerd.service"}, ids(p))
	require.True(t, p.Changes[0].(change.SetUnit).Restart)
}

func TestAProxyThatIsNotAskedForAnyMoreIsTold(t *testing.T) {
	w := packaged()
	converge(t, w, load(t, proxied))
	p := plan(t, w, load(t, ""))
	require.Empty(t, p.Changes)
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "/etc/systemd/system/containerd.service.d/10-nodeagent-proxy.conf is of an earlier configuration")
	require.Empty(t, plan(t, packaged(), load(t, "")).Warnings)
}

func TestTheHostsOwnNameIsExceptedWhenTheConfigurationGivesNone(t *testing.T) {
	w := packaged()
	w.Sys.Hostname = "Worker-7"
	p := plan(t, w, load(t, strings.Replace(proxied, "  hostname: node1\n", "", 1)))
	require.Contains(t, p.Changes[1].(change.WriteFile).Content, ",::1,worker-7,.corp")
}

func TestARuntimeOfSomebodyElseGetsNoProxyAndThatIsTold(t *testing.T) {
	spec := load(t, proxied)
	text, _, err := edit(fresh(3), settings{socket: defaultSocket}, 3)
	require.NoError(t, err)
	p := Plan(spec, Facts{CRI: &host.RuntimeVersion{Name: "containerd", Version: "2.2.1"}, Unit: host.Unit{LoadState: "not-found"}, Present: Present{Socket: true},
		Config: Config{host.Text{Exists: true, Content: text}}})
	require.Empty(t, p.Changes)
	require.Contains(t, strings.Join(p.Warnings, "\n"), "spec.proxy doesn't reach the runtime at unix:///run/containerd/containerd.sock")
}

func TestCRIOGetsTheProxyToo(t *testing.T) {
	spec := load(t, proxied)
	spec.Runtime.Socket = "unix:///run/crio/crio.sock"
	p := Plan(spec, Facts{Present: Present{Binary: "/usr/bin/crio", Runc: true}, CRI: &host.RuntimeVersion{Name: "cri-o", Version: "1.35.0"},
		Unit: host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}})
	require.Equal(t, []string{"file:/etc/systemd/system/crio.service.d/10-nodeagent-proxy.conf", "unit:crio.service"}, ids(p))
}

func TestNoProxyNoFactOfIt(t *testing.T) {
	f, err := Observe(context.Background(), hosttest.Rocky9(), load(t, ""))
	require.NoError(t, err)
	require.Zero(t, f.Proxy)
	require.Empty(t, f.Hostname)
}

func TestTheDropInIsQuotedForSystemd(t *testing.T) {
	vars := []string{`NO_PROXY=a%b "c" \d`, "HTTP_PROXY=http://[fe80::1%25eth0]:3128"}
	text := proxyFile(vars)
	require.Contains(t, text, `Environment="NO_PROXY=a%%b \"c\" \\d"`+"\n")
	require.Contains(t, text, `Environment="HTTP_PROXY=http://[fe80::1%%25eth0]:3128"`+"\n")

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest asks systemd-analyze, which isn't here")
	}
	unit := filepath.Join(t.TempDir(), "proxied.service")
	require.NoError(t, os.WriteFile(unit, []byte(text+"ExecStart=/bin/true\n"), 0o644))
	out, err := exec.Command(analyze, "verify", unit).CombinedOutput()
	if strings.Contains(string(out), "Failed to initialize manager") {
		t.Skipf("systemd-analyze can't work here: %s", out)
	}
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Environment", "%s", out)
}
