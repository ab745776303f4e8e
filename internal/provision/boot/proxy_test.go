package boot

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/stretchr/testify/require"

	"nodeagent/internal/provision/source"
)

func TestTheBinaryIsFetchedThroughTheProxy(t *testing.T) {
	o := Options{Config: []byte(documents["plain"]), BinarySource: source.Source{URL: "https://boot.example/nodeagent", SHA256: strings.Repeat("0b", 32)},
		Proxy: []string{"HTTP_PROXY=http://proxy.example:3128", "HTTPS_PROXY=http://proxy.example:3129", "NO_PROXY=localhost,.corp.example"}}
	const lines = "http_proxy='http://proxy.example:3128'\nexport http_proxy\nhttps_proxy='http://proxy.example:3129'\nexport https_proxy\nno_proxy='localhost,.corp.example'\nexport no_proxy\n"
	b, err := CloudInit(o, false)
	require.NoError(t, err)
	require.Contains(t, string(cloudFiles(t, b)[getPath].Content), lines)
	b, err = Script(o)
	require.NoError(t, err)
	require.Contains(t, string(b), lines)
	b, err = Kickstart(o)
	require.NoError(t, err)
	require.Contains(t, string(b), lines)
	for _, spec := range []string{"3.3", "3.4"} {
		b, err = Ignition(o, spec)
		require.NoError(t, err)
		var c types.Config
		require.NoError(t, json.Unmarshal(b, &c))
		require.Equal(t, types.Proxy{HTTPProxy: ptr("http://proxy.example:3128"), HTTPSProxy: ptr("http://proxy.example:3129"), NoProxy: []types.NoProxyItem{"localhost", ".corp.example"}}, c.Ignition.Proxy)
	}

	o.BinarySource, o.Binary = source.Source{}, binary
	for _, spec := range Specs() {
		b, err = Ignition(o, spec)
		require.NoError(t, err)
		require.NotContains(t, string(b), "proxy.example", "nothing is fetched")
	}
	b, err = Script(o)
	require.NoError(t, err)
	require.NotContains(t, string(b), "proxy.example")
}

// The script that the unit runs gives the proxy to the program that fetches.
func TestTheProgramThatFetchesGetsTheProxy(t *testing.T) {
	dir := t.TempDir()
	o := Options{Config: []byte("x"), BinaryPath: dir + "/bin/nodeagent", BinarySource: source.Source{URL: "https://boot.example/nodeagent", SHA256: source.Digest([]byte("http://proxy.example:3128 localhost\n"))},
		Proxy: []string{"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=localhost"}}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "path"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "path", "curl"), []byte("#!/bin/sh\necho \"$https_proxy $no_proxy\"\n"), 0o755))
	cmd := exec.Command("sh", "-s")
	cmd.Stdin = strings.NewReader(o.getBinary())
	cmd.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(o.BinaryPath)
	require.NoError(t, err)
	require.Equal(t, "http://proxy.example:3128 localhost\n", string(b))
}
