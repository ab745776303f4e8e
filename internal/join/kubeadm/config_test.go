package kubeadm

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
)

func asked() change.Join {
	return change.Join{NodeName: "prdk8snod001", Socket: "unix:///run/containerd/containerd.sock", PatchDirectory: "/etc/kubernetes/patches", Timeout: 10 * time.Minute, KubernetesVersion: "v1.35.4",
		KubeletArgs: []change.NameValue{{Name: "node-ip", Value: "192.0.2.10"}, {Name: "node-labels", Value: "type=physical"}},
		Taints:      []change.NodeTaint{{Key: "dedicated", Value: "lab", Effect: "NoSchedule"}}, IgnorePreflightErrors: []string{"Swap"}}
}

var discovery = Discovery{Token: "abcdef.0123456789abcdef", Endpoint: "cp.example:6443", Pins: []string{"sha256:aa"}}

const v4 = `apiVersion: kubeadm.k8s.io/v1beta4
discovery:
  bootstrapToken:
    apiServerEndpoint: cp.example:6443
    caCertHashes:
    - sha256:aa
    token: abcdef.0123456789abcdef
kind: JoinConfiguration
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  ignorePreflightErrors:
  - Swap
  kubeletExtraArgs:
  - name: node-ip
    value: 192.0.2.10
  - name: node-labels
    value: type=physical
  name: prdk8snod001
  taints:
  - effect: NoSchedule
    key: dedicated
    value: lab
patches:
  directory: /etc/kubernetes/patches
timeouts:
  discovery: 2m0s
  kubeletHealthCheck: 4m0s
  kubernetesAPICall: 1m0s
  tlsBootstrap: 10m0s
`

const v3 = `apiVersion: kubeadm.k8s.io/v1beta3
discovery:
  bootstrapToken:
    apiServerEndpoint: cp.example:6443
    caCertHashes:
    - sha256:aa
    token: abcdef.0123456789abcdef
  timeout: 10m0s
kind: JoinConfiguration
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  ignorePreflightErrors:
  - Swap
  kubeletExtraArgs:
    node-ip: 192.0.2.10
    node-labels: type=physical
  name: prdk8snod001
  taints:
  - effect: NoSchedule
    key: dedicated
    value: lab
patches:
  directory: /etc/kubernetes/patches
`

func TestTheJoinConfigurationIsOfTheVersionThatKubeadmReads(t *testing.T) {
	for version, want := range map[string]string{"v1.35.4": v4, "v1.31.0": v4, "v1.37.2": v4, "v1.30.14": v3, "v1.28.3": v3} {
		j := asked()
		j.KubernetesVersion = version
		b, err := Configuration(j, discovery)
		require.NoError(t, err)
		require.Equal(t, want, string(b), version)
	}
}

func TestNoTaintsIsAnEmptyListAndNeverSkipsTheCA(t *testing.T) {
	for _, version := range []string{"v1.35.4", "v1.30.14"} {
		b, err := Configuration(change.Join{NodeName: "x", Timeout: time.Minute, KubernetesVersion: version}, discovery)
		require.NoError(t, err)
		require.Contains(t, string(b), "taints: []\n")
		require.NotContains(t, string(b), "unsafe")
	}
}

func TestDiscoveryByFileCarriesTheTokenOnlyInTheJoinConfiguration(t *testing.T) {
	for _, version := range []string{"v1.35.4", "v1.30.14"} {
		j := asked()
		j.KubernetesVersion = version
		b, err := Configuration(j, Discovery{Token: discovery.Token, File: "/run/nodeagent/discovery.conf"})
		require.NoError(t, err)
		require.Contains(t, string(b), "  file:\n    kubeConfigPath: /run/nodeagent/discovery.conf\n")
		require.Contains(t, string(b), "  tlsBootstrapToken: abcdef.0123456789abcdef\n")
		require.NotContains(t, string(b), "bootstrapToken:")
	}
	b, err := DiscoveryFile("[2001:db8::1]:6443", []byte("PEM"))
	require.NoError(t, err)
	require.Contains(t, string(b), "certificate-authority-data: UEVN\n")
	require.Contains(t, string(b), "server: https://[2001:db8::1]:6443\n")
	require.False(t, strings.Contains(string(b), "0123456789abcdef"))
}
