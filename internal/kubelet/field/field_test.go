package field

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, s string) map[string]any {
	var m map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(s), &m))
	return m
}

func TestAFieldThatKubeletDoesNotHaveIsToldWithTheOneThatWasMeant(t *testing.T) {
	for name, c := range map[string]struct {
		in         string
		minor      int
		path, text string
		hint       string
	}{
		"misspelled":                 {"maxPod: 10", 35, "maxPod", "no such field", "did you mean maxPods?"},
		"in another case":            {"maxpods: 10", 35, "maxpods", "no such field", "did you mean maxPods?"},
		"clientCAFile at the top":    {"clientCAFile: /etc/kubernetes/pki/ca.crt", 35, "clientCAFile", "no such field", "authentication: {x509: {clientCAFile: …}}"},
		"a nested one misspelled":    {"authentication: {x509: {clientCAfile: /x}}", 35, "authentication.x509.clientCAfile", "no such field", "did you mean authentication.x509.clientCAFile?"},
		"nested at the wrong place":  {"swapBehavior: LimitedSwap", 35, "swapBehavior", "no such field", "did you mean memorySwap.swapBehavior?"},
		"too new":                    {"imagePullCredentialsVerificationPolicy: NeverVerify", 34, "imagePullCredentialsVerificationPolicy", "only from 1.35 on, and this is 1.34", "take it out"},
		"text for a number":          {"maxPods: \"10\"", 35, "maxPods", `wants a whole number, has "10"`, ""},
		"a fraction for a number":    {"maxPods: 1.5", 35, "maxPods", "wants a whole number, has 1.5", ""},
		"a number for a time span":   {"streamingConnectionIdleTimeout: 300", 35, "streamingConnectionIdleTimeout", "wants a time span such as 5m, has 300", ""},
		"text for a truth value":     {"protectKernelDefaults: \"yes\"", 35, "protectKernelDefaults", `wants true or false, has "yes"`, ""},
		"text for a list":            {"clusterDNS: 10.96.0.10", 35, "clusterDNS", "wants a list", ""},
		"a list for a mapping":       {"evictionHard: [memory]", 35, "evictionHard", "wants a mapping", ""},
		"something without any like": {"frobnicate: 1", 35, "frobnicate", "no such field", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(parse(t, c.in), c.minor)
			require.Len(t, got, 1)
			require.Equal(t, c.path, got[0].Path)
			require.Contains(t, got[0].Text, c.text)
			require.Contains(t, got[0].Hint, c.hint)
			require.False(t, got[0].Warning)
		})
	}
}

func TestWhatKubeletTakesPasses(t *testing.T) {
	require.Empty(t, Check(parse(t, `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
protectKernelDefaults: true
staticPodPath: null
tlsCertFile: /etc/kubernetes/pki/kubelet.crt
streamingConnectionIdleTimeout: 5m
imagePullCredentialsVerificationPolicy: NeverVerify
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
evictionHard: {memory.available: 200Mi}
logging: {format: json}
memoryThrottlingFactor: 0.9
maxPods: 200
`), 35))
}

func TestAnUnknownFieldOfAFutureReleaseIsOnlyAWarning(t *testing.T) {
	got := Check(map[string]any{"somethingNew": true}, Newest+1)
	require.Len(t, got, 1)
	require.True(t, got[0].Warning)
}

func TestDriftIsFoundByMeaningNotByText(t *testing.T) {
	config := `
failSwapOn: false
maxPods: 55
streamingConnectionIdleTimeout: 5m0s
imageMinimumGCAge: 0s
evictionHard: {memory.available: 200Mi, nodefs.available: 10%}
clusterDNS: [10.96.0.10]
staticPodPath: /etc/kubernetes/manifests
`
	for patch, want := range map[string][]string{
		"maxPods: 55":                                    nil,
		"maxPods: 56":                                    {"maxPods"},
		"streamingConnectionIdleTimeout: 5m":             nil,
		"streamingConnectionIdleTimeout: 300s":           nil,
		"streamingConnectionIdleTimeout: 6m":             {"streamingConnectionIdleTimeout"},
		"protectKernelDefaults: true":                    {"protectKernelDefaults"},
		"protectKernelDefaults: false":                   nil, // kubeadm leaves it out
		"readOnlyPort: 0":                                nil,
		"seccompDefault: false":                          {"seccompDefault"}, // a pointer: absent isn't false
		"staticPodPath: null":                            {"staticPodPath"},
		"podCIDR: null":                                  nil,
		"evictionHard: {memory.available: 200Mi}":        nil,
		"evictionHard: {memory.available: 300Mi}":        {"evictionHard.memory.available"},
		"clusterDNS: [10.96.0.10]":                       nil,
		"clusterDNS: [10.96.0.11]":                       {"clusterDNS"},
		"authentication: {x509: {clientCAFile: /etc/x}}": {"authentication.x509.clientCAFile"},
		"{kind: Other, failSwapOn: false}":               nil,
	} {
		p, c := parse(t, patch), parse(t, config)
		require.Equal(t, want, Differs(p, c), patch)
		require.Empty(t, Differs(p, Merge(c, p)), "merged: %s", patch)
	}
}

func FuzzMergeEndsDrift(f *testing.F) {
	f.Add("maxPods: 1\nevictionHard: {a: b}", "maxPods: 2\nevictionHard: {a: null, c: d}")
	f.Add("staticPodPath: /x", "staticPodPath: null")
	f.Fuzz(func(t *testing.T, a, b string) {
		var config, patch map[string]any
		if yaml.Unmarshal([]byte(a), &config) != nil || yaml.Unmarshal([]byte(b), &patch) != nil {
			return
		}
		if len(Check(patch, 35)) > 0 {
			return
		}
		require.Empty(t, Differs(patch, Merge(config, patch)))
	})
}
