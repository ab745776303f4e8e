package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

const smallest = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  kubernetes: {version: v1.35.4}
  join: {token: {file: /etc/nodeagent/join-command}}
`

func load(t *testing.T, text string) (Loaded, error) {
	t.Helper()
	return Load([]Source{{"c.yaml", []byte(text)}}, Identity{Hostname: "node1.example", Serial: "S1", MACs: []string{"52:54:00:00:00:01"}})
}

func TestTheSmallestFileGetsDefaultsThatFitAStockHost(t *testing.T) {
	c, err := load(t, smallest)
	require.NoError(t, err)
	s := c.Spec
	require.Equal(t, "v1.35.4", s.Kubernetes.Version)
	require.Equal(t, "disable", s.Swap.Mode)
	require.Equal(t, DefaultSocket, s.Runtime.Socket)
	require.Equal(t, 10*time.Minute, s.Join.WaitReady.Duration)
	require.True(t, *s.Packages.Lock)
}

func TestAnExplicitZeroDiffersFromAnAbsentDuration(t *testing.T) {
	c, err := load(t, smallest+"---\n"+strings.Replace(smallest, "join: {", "join: {waitReady: 0, ", 1))
	require.NoError(t, err)
	require.Zero(t, c.Spec.Join.WaitReady.Duration)
	require.True(t, c.Spec.Join.WaitReady.Set)
}

func TestErrorsNameFileLineColumnAndTheWayOut(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want, hint string }{
		"unknown key":         {"  kubernetes:", "  kubernets:", "c.yaml:4:3: spec.kubernets: unknown key", "did you mean kubernetes?"},
		"wrong type":          {"{version: v1.35.4}", "{version: 1.35}", "c.yaml:4:25: spec.kubernetes.version: want a string, found the number 1.35", `put it in quotes: "1.35"`},
		"wrong shape":         {"{version: v1.35.4}", "[v1.35.4]", "c.yaml:4:15: spec.kubernetes: want a mapping, found a list", ""},
		"key twice":           {"  join:", "  kubernetes: {version: v1.35.4}\n  join:", "c.yaml:5:3: spec.kubernetes: given twice, first in line 4", ""},
		"enum":                {"  join:", "  swap: {mode: disabled}\n  join:", "c.yaml:5:16: spec.swap.mode: \"disabled\" is not allowed", "did you mean disable?"},
		"two token sources":   {"{file: /etc/nodeagent/join-command}", "{file: /a, value: x}", "c.yaml:5:17: spec.join.token: names 2 sources: file and value", "keep one"},
		"no token source":     {"{token: {file: /etc/nodeagent/join-command}}", "{}", "c.yaml:5:9: spec.join.token: names no source for the join token", "for example file: /etc/nodeagent/join-command, which holds what kubeadm token create --print-join-command prints"},
		"D7 a kernel name":    {"  join:", "  disks: [{name: d, mountPath: /data, select: {path: /dev/nvme1n1}}]\n  join:", "c.yaml:5:54: spec.disks[0].select.path: /dev/nvme1n1 is not an identity", ""},
		"D4 a label too long": {"  join:", "  disks: [{name: HARV_LH_DEFAULT, mountPath: /data, select: {serial: x}}]\n  join:", "spec.disks[0].filesystem.label: \"HARV_LH_DEFAULT\" has 15 bytes", "xfs labels have 12 bytes at most"},
		"two selectors":       {"  join:", "  disks: [{name: d, mountPath: /data, select: {serial: x, wwn: y}}]\n  join:", "names the device in 2 ways: serial, wwn", "keep one"},
		"J9 a host name":      {"  join:", "  hostname: server_one\n  join:", `spec.hostname: "server_one" can't be a node name`, "a node name is lower-case letters, digits, dashes and dots: try server-one"},
		"a port":              {"  join:", "  firewall: {allow: [70000/tcp]}\n  join:", `spec.firewall.allow[0]: "70000/tcp" is not a port`, "such as 10250/tcp or 30000-32767/udp"},
		"trusting everything": {"  join:", "  firewall: {trustedSources: [0.0.0.0/0]}\n  join:", "0.0.0.0/0 would accept everything", ""},
		"duration":            {"  join: {", "  join: {timeout: 10, ", "c.yaml:5:19: spec.join.timeout: want a time span, found the number 10", "write it like 90s, 10m or 1h30m"},
		"syntax":              {"  join:", "\tjoin:", "c.yaml:5:1: found character that cannot start any token", ""},
		"a foreign document":  {"kind: NodeConfig", "kind: ConfigMap", `c.yaml:1:1: apiVersion "nodeagent/v1alpha1", kind "ConfigMap" is not a NodeConfig`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, smallest, c.from)
			_, err := load(t, strings.Replace(smallest, c.from, c.to, 1))
			require.ErrorContains(t, err, c.want)
			require.Equal(t, fail.Usage, fail.KindOf(err))
			if c.hint != "" {
				require.Equal(t, c.hint, fail.HintOf(err))
			}
		})
	}
}

func TestEveryErrorIsListedAtOnce(t *testing.T) {
	_, err := load(t, strings.Replace(smallest, "  kubernetes:", "  kubernets:", 1)+"  swop: {}\n")
	var p Problems
	require.True(t, errors.As(err, &p))
	require.Len(t, p, 2)
}

func TestTheDocumentThatMatchesIsLaidOverThoseForAll(t *testing.T) {
	role := func(match, version string) string {
		return "---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {" + match + "}}\nspec: {kubernetes: {version: " + version + "}}\n"
	}
	for name, c := range map[string]struct{ docs, want, err string }{
		"by mac":             {role("mac: [\"52-54-00-00-00-01\"]", "v1.34.1"), "v1.34.1", ""},
		"by short host name": {role("hostname: [node1]", "v1.34.2"), "v1.34.2", ""},
		"by serial":          {role("serial: [S1]", "v1.34.3"), "v1.34.3", ""},
		"another host":       {role("serial: [S2]", "v1.34.4"), "v1.35.4", ""},
		"two that match":     {role("serial: [S1]", "v1.34.3") + role("hostname: [node1]", "v1.34.2"), "", "2 documents match this host (hostname node1.example, serial S1, mac 52:54:00:00:00:01): c.yaml:7 and c.yaml:12"},
		"an empty match":     {role("", "v1.34.3"), "", "metadata.match: matches nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, smallest+c.docs)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Spec.Kubernetes.Version)
			require.Equal(t, "/etc/nodeagent/join-command", got.Spec.Join.Token.File)
		})
	}
}

func TestAFleetDocumentWithoutThisHostIsRefusedWithItsIdentity(t *testing.T) {
	_, err := load(t, strings.Replace(smallest, "spec:", "metadata: {match: {serial: [other]}}\nspec:", 1))
	require.ErrorContains(t, err, "none of 1 documents matches this host (hostname node1.example, serial S1, mac 52:54:00:00:00:01)")
}

func TestErrorsInALaterFileNameThatFile(t *testing.T) {
	over := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  swap: {mode: off}\n"
	_, err := Load([]Source{{"a.yaml", []byte(smallest)}, {"b.yaml", []byte(over)}}, Identity{})
	require.ErrorContains(t, err, "b.yaml:4:16: spec.swap.mode")
}

func TestAnAliasBombIsRefused(t *testing.T) {
	bomb := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += "      " + string(c) + ": &" + string(c) + " [*" + p + strings.Repeat(",*"+p, 9) + "]\n"
	}
	_, err := load(t, bomb)
	require.ErrorContains(t, err, "nested too deeply or expands to too many values")
}

func TestSizesAreReadWithBothKindsOfUnits(t *testing.T) {
	for s, want := range map[string]int64{"90GiB": 90 << 30, "100 GB": 100e9, "1.5TiB": 3 << 39, "512": 512} {
		got, err := ParseSize(s)
		require.NoError(t, err)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "GiB", "-1GiB", "1 GIB", "1e99TiB"} {
		_, err := ParseSize(s)
		require.Error(t, err, s)
	}
}

func TestEveryExampleIsValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		_, err = Load([]Source{{f, b}}, Identity{Hostname: "prdk8snod001"})
		require.NoError(t, err, f)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(smallest))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {mac: [x]}}\nspec: {kubelet: {config: {a: 2001-01-01, 1: b}}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := Load([]Source{{"f", b}}, Identity{Hostname: "h"})
		if err != nil && fail.KindOf(err) != fail.Usage {
			t.Fatalf("not a usage error: %v", err)
		}
	})
}

func TestWhatThisVersionDoesNotCarryOutIsRefused(t *testing.T) {
	const head = "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n"
	for path, text := range map[string]string{
		"spec.network.interfaces": "  network: {interfaces: [{name: eth0}]}\n",
		"spec.network.configure":  "  network: {configure: true}\n",
	} {
		_, err := Load([]Source{{Name: "test", Data: []byte(head + text)}}, Identity{})
		require.ErrorContains(t, err, path, text)
		require.ErrorContains(t, err, "doesn't carry it out yet", text)
	}
}

// Every kind of value that the types have can be decoded and has a schema.
func TestANumberThatIsNoneIsToldWithItsPlace(t *testing.T) {
	for _, value := range []string{"one", "1.5", "[1]", "99999999999999999999", "'1'"} {
		_, err := Load([]Source{{Name: "test", Data: []byte("apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  disks: [{name: a, select: {scsiUnit: " + value + "}, mountPath: /a}]\n")}}, Identity{})
		require.ErrorContains(t, err, "test:4:", value)
		require.ErrorContains(t, err, "want a whole number", value)
	}
}
