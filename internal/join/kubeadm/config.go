// Package kubeadm makes the JoinConfiguration and reads what kubeadm join
// says when it fails.
package kubeadm

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"sigs.k8s.io/yaml"

	"nodeagent/internal/change"
	"nodeagent/internal/kubelet/release"
)

// Discovery is how kubeadm finds and trusts the cluster.
type Discovery struct {
	Token    string // bootstrap token; empty when File has a user of its own
	Endpoint string // host:port; with File it is in there
	Pins     []string
	File     string // kubeconfig with the CA: discovery by file, without waiting for a signature
}

// Limits inside kubeadm. Discovery has been proved to work before kubeadm runs
// (internal/host), so it gets little.
const (
	discoveryLimit = 2 * time.Minute
	apiCallLimit   = time.Minute
	kubeletLimit   = 4 * time.Minute // kubeadm's own default
)

// Configuration is the YAML of the JoinConfiguration: v1beta4, and v1beta3 for
// kubeadm before 1.31, which knows no other. It holds the token.
func Configuration(j change.Join, d Discovery) ([]byte, error) {
	c := v1beta4.JoinConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "JoinConfiguration"},
		NodeRegistration: v1beta4.NodeRegistrationOptions{
			Name:      j.NodeName,
			CRISocket: j.Socket,
			// Not nil, which would mean kubeadm's own default.
			Taints:                []corev1.Taint{},
			IgnorePreflightErrors: j.IgnorePreflightErrors,
		},
		Timeouts: &v1beta4.Timeouts{
			Discovery:          limit(discoveryLimit, j.Timeout),
			KubernetesAPICall:  limit(apiCallLimit, j.Timeout),
			KubeletHealthCheck: limit(kubeletLimit, j.Timeout),
			TLSBootstrap:       limit(j.Timeout, j.Timeout),
		},
	}
	for _, t := range j.Taints {
		c.NodeRegistration.Taints = append(c.NodeRegistration.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	for _, a := range j.KubeletArgs {
		c.NodeRegistration.KubeletExtraArgs = append(c.NodeRegistration.KubeletExtraArgs, v1beta4.Arg{Name: a.Name, Value: a.Value})
	}
	if j.PatchDirectory != "" {
		c.Patches = &v1beta4.Patches{Directory: j.PatchDirectory}
	}
	if d.File != "" {
		c.Discovery.File = &v1beta4.FileDiscovery{KubeConfigPath: d.File}
		c.Discovery.TLSBootstrapToken = d.Token
	} else {
		c.Discovery.BootstrapToken = &v1beta4.BootstrapTokenDiscovery{Token: d.Token, APIServerEndpoint: d.Endpoint, CACertHashes: d.Pins}
	}
	if minor, ok := release.Minor(j.KubernetesVersion); ok && minor < 31 {
		return v1beta3(c)
	}
	return yaml.Marshal(c)
}

// v1beta3 differs in that flags are a map and that timeouts are elsewhere or
// don't exist.
func v1beta3(c v1beta4.JoinConfiguration) ([]byte, error) {
	args := map[string]string{}
	for _, a := range c.NodeRegistration.KubeletExtraArgs {
		args[a.Name] = a.Value
	}
	registration := map[string]any{"name": c.NodeRegistration.Name, "criSocket": c.NodeRegistration.CRISocket, "taints": c.NodeRegistration.Taints}
	if len(args) > 0 {
		registration["kubeletExtraArgs"] = args
	}
	if len(c.NodeRegistration.IgnorePreflightErrors) > 0 {
		registration["ignorePreflightErrors"] = c.NodeRegistration.IgnorePreflightErrors
	}
	discovery := map[string]any{"timeout": c.Timeouts.TLSBootstrap}
	if f := c.Discovery.File; f != nil {
		discovery["file"] = f
		discovery["tlsBootstrapToken"] = c.Discovery.TLSBootstrapToken
	} else {
		discovery["bootstrapToken"] = c.Discovery.BootstrapToken
	}
	out := map[string]any{"apiVersion": "kubeadm.k8s.io/v1beta3", "kind": c.Kind, "nodeRegistration": registration, "discovery": discovery}
	if c.Patches != nil {
		out["patches"] = c.Patches
	}
	return yaml.Marshal(out)
}

func limit(d, whole time.Duration) *metav1.Duration {
	if whole > 0 && whole < d {
		d = whole
	}
	return &metav1.Duration{Duration: d}
}

// DiscoveryFile is the kubeconfig of discovery by file: server and CA, and no
// user, since the token goes into the JoinConfiguration alone.
func DiscoveryFile(endpoint string, ca []byte) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "join",
		"clusters": []any{map[string]any{"name": "cluster", "cluster": map[string]any{"server": "https://" + endpoint, "certificate-authority-data": ca}}},
		"contexts": []any{map[string]any{"name": "join", "context": map[string]any{"cluster": "cluster", "user": "join"}}},
		"users":    []any{map[string]any{"name": "join", "user": map[string]any{}}},
	})
}
