package token

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

const (
	tok  = "abcdef.0123456789abcdef"
	pinA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	pinB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	nbsp = "\u00a0"
)

const initOutput = `Your Kubernetes control-plane has initialized successfully!

You can now join any number of the control-plane nodes running the following command on each as root:

  kubeadm join cp.example:6443 --token abcdef.0123456789abcdef \
	--discovery-token-ca-cert-hash ` + pinA + ` \
	--control-plane --certificate-key 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0

Please note that the certificate-key gives access to cluster sensitive data, keep it secret!

Then you can join any number of worker nodes by running the following on each as root:

kubeadm join cp.example:6443 --token abcdef.0123456789abcdef \
	--discovery-token-ca-cert-hash ` + pinA + ` 
`

func kubeconfigOf(user string) string {
	return `apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster:
    server: https://cp.example:6443
    certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte("PEM")) + `
contexts:
- name: c
  context: {cluster: k, user: u}
users:
- name: u
  user: ` + user + "\n"
}

func TestEveryFormOfATokenDocumentIsRead(t *testing.T) {
	worker := Document{Token: tok, Endpoint: "192.0.2.10:6443", CACertHashes: []string{pinA}}
	line := "kubeadm join 192.0.2.10:6443 --token " + tok + " --discovery-token-ca-cert-hash " + pinA
	for name, c := range map[string]struct {
		in   string
		want Document
	}{
		"a bare token":                                       {tok, Document{Token: tok}},
		"J3: a bare token and a newline":                     {tok + "\n", Document{Token: tok}},
		"a bare token in quotes":                             {`"` + tok + `"` + "\r\n", Document{Token: tok}},
		"a bare token below a klog line":                     {"W0302 11:02:03.123456    4242 version.go:109] could not fetch\n" + tok + "\n", Document{Token: tok}},
		"a bare token with a byte order mark":                {"\ufeff" + tok, Document{Token: tok}},
		"J1: a join line":                                    {line + " \n", worker},
		"J1: a join line with continuation":                  {"kubeadm join 192.0.2.10:6443 --token " + tok + " \\\n    --discovery-token-ca-cert-hash " + pinA + "\n", worker},
		"J1: a klog line before it":                          {"I0302 11:02:03.123456    4242 version.go:261] remote version is much newer: v1.37.2; falling back to: stable-1.35\n" + line, worker},
		"J1: continuation and Windows lines":                 {"kubeadm join 192.0.2.10:6443 --token " + tok + " \\\r\n    --discovery-token-ca-cert-hash " + pinA + "\r\n", worker},
		"J1: a backslash and a blank at the end of the line": {"kubeadm join 192.0.2.10:6443 --token " + tok + " \\ \n    --discovery-token-ca-cert-hash " + pinA, worker},
		"a line that a mail broke":                           {"kubeadm join 192.0.2.10:6443 --token " + tok + "\n--discovery-token-ca-cert-hash " + pinA, worker},
		"a continuation on one line":                         {"kubeadm join 192.0.2.10:6443 --token " + tok + ` \ --discovery-token-ca-cert-hash ` + pinA, worker},
		"sudo in front, a prompt and a full path":            {"$ sudo /usr/bin/kubeadm join 192.0.2.10:6443 --token " + tok + " --discovery-token-ca-cert-hash " + pinA, worker},
		"flags with an equals sign":                          {"kubeadm join --token=" + tok + " --discovery-token-ca-cert-hash=" + pinA + " 192.0.2.10:6443", worker},
		"the whole line in quotes":                           {`"` + line + `"`, worker},
		"values in quotes":                                   {`kubeadm join '192.0.2.10:6443' --token "` + tok + `" --discovery-token-ca-cert-hash “` + pinA + `”`, worker},
		"non-breaking spaces":                                {strings.ReplaceAll(line, " ", nbsp), worker},
		"en dashes for two dashes":                           {strings.ReplaceAll(line, " --", " –"), worker},
		"em dashes for two dashes":                           {strings.ReplaceAll(line, " --", " —"), worker},
		"non-breaking hyphens":                               {strings.ReplaceAll(line, "-", "\u2011"), worker},
		"two en dashes":                                      {strings.ReplaceAll(line, "--", "––"), worker},
		"a shell goes on after it":                           {line + " && echo success > /run/x", worker},
		"the legacy flag for the token":                      {strings.Replace(line, "--token", "--discovery-token", 1), worker},
		"J2: several pins": {line + " --discovery-token-ca-cert-hash " + pinB + " --discovery-token-ca-cert-hash " + pinA,
			Document{Token: tok, Endpoint: "192.0.2.10:6443", CACertHashes: []string{pinA, pinB}}},
		"an IPv6 endpoint": {strings.Replace(line, "192.0.2.10:6443", "[2001:db8::1]:6443", 1),
			Document{Token: tok, Endpoint: "[2001:db8::1]:6443", CACertHashes: []string{pinA}}},
		"an endpoint in capitals": {strings.Replace(line, "192.0.2.10:6443", "CP.Example:6443", 1),
			Document{Token: tok, Endpoint: "cp.example:6443", CACertHashes: []string{pinA}}},
		"flags that the configuration decides": {line + " --node-name x --cri-socket unix:///run/crio.sock -v=5",
			Document{Token: tok, Endpoint: "192.0.2.10:6443", CACertHashes: []string{pinA}, Ignored: []string{"--node-name", "--cri-socket", "--v"}}},
		"no pin at all": {"kubeadm join 192.0.2.10:6443 --token " + tok + " --discovery-token-unsafe-skip-ca-verification",
			Document{Token: tok, Endpoint: "192.0.2.10:6443"}},
		"what kubeadm init prints: the line for workers": {initOutput, Document{Token: tok, Endpoint: "cp.example:6443", CACertHashes: []string{pinA}}},
		"YAML": {"token: " + tok + "\nendpoint: cp.example:6443\ncaCertHashes: [" + pinA + "]\nexpiration: \"2026-03-01T12:00:00Z\"\n",
			Document{Token: tok, Endpoint: "cp.example:6443", CACertHashes: []string{pinA}, Expiration: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}},
		"YAML with a bare time": {"token: " + tok + "\nexpiration: 2026-03-01T12:00:00Z\n",
			Document{Token: tok, Expiration: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}},
		"JSON": {`{"token":"` + tok + `","endpoint":"cp.example:6443","caCertHashes":["` + pinA + `"]}`,
			Document{Token: tok, Endpoint: "cp.example:6443", CACertHashes: []string{pinA}}},
		"what kubeadm token list -o json prints": {`{"kind": "BootstrapToken","apiVersion": "output.kubeadm.k8s.io/v1alpha3","creationTimestamp": null,"token": "` + tok +
			`","expires": "2026-03-02T12:00:00Z","usages": ["authentication","signing"],"groups": ["system:bootstrappers:kubeadm:default-node-token"]}`,
			Document{Token: tok, Expiration: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}},
		"a JoinConfiguration v1beta4 beside another document": {"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {name: x}\ndiscovery:\n  bootstrapToken:\n    token: " + tok + "\n    apiServerEndpoint: 192.0.2.10:6443\n    caCertHashes: [" + pinA + "]\n",
			Document{Token: tok, Endpoint: "192.0.2.10:6443", CACertHashes: []string{pinA}, Ignored: []string{"nodeRegistration"}}},
		"a JoinConfiguration v1beta3":         {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken: {token: " + tok + ", apiServerEndpoint: '192.0.2.10:6443', caCertHashes: [" + pinA + "]}\n  tlsBootstrapToken: " + tok + "\n", worker},
		"a kubeconfig with a bootstrap token": {kubeconfigOf("{token: " + tok + "}"), Document{Token: tok, Endpoint: "cp.example:6443", CACert: []byte("PEM")}},
		"a kubeconfig with another token": {kubeconfigOf("{token: eyJhbGciOi.x.y}"),
			Document{Endpoint: "cp.example:6443", CACert: []byte("PEM"), Kubeconfig: []byte(kubeconfigOf("{token: eyJhbGciOi.x.y}"))}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.in))
			require.NoError(t, err)
			require.True(t, got.Expiration.Equal(c.want.Expiration))
			got.Expiration, c.want.Expiration = time.Time{}, time.Time{}
			require.Equal(t, c.want, got)
		})
	}
}

func TestADocumentThatCannotBeUsedSaysWhyAndNeverShowsTheToken(t *testing.T) {
	line := "kubeadm join 192.0.2.10:6443 --token " + tok + " --discovery-token-ca-cert-hash " + pinA
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\ntoken: " + tok + "\n"
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                           {" \n", "is empty"},
		"too large":                         {strings.Repeat("x", MaxSize+1), "larger than 64 KiB"},
		"prose":                             {"please ask the platform team", "neither a token"},
		"a token in capitals":               {"ABCDEF.0123456789ABCDEF", "not a bootstrap token"},
		"a token that lost its end":         {"abcdef.0123456789", "not a bootstrap token"},
		"two tokens":                        {tok + "\nghijkl.0123456789abcdef\n", "neither a token"},
		"J2: for a control plane":           {line + " --control-plane --certificate-key " + strings.Repeat("ab", 32), "workers only"},
		"a JoinConfiguration for one":       {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ncontrolPlane: {}\n", "workers only"},
		"no token flag":                     {"kubeadm join 192.0.2.10:6443 --discovery-token-ca-cert-hash " + pinA, "without --token"},
		"a flag without its value":          {"kubeadm join 192.0.2.10:6443 --token", "ends after --token"},
		"a flag that isn't one":             {line + " --tokn x", "--tokn"},
		"the token where a flag should be":  {"kubeadm join 192.0.2.10:6443 --" + tok, "does not have"},
		"the token where the endpoint is":   {"kubeadm join " + tok + " --token " + tok, "endpoint"},
		"an endpoint without port":          {"kubeadm join 192.0.2.10 --token " + tok, "host:port"},
		"a bare IPv6 endpoint":              {"kubeadm join 2001:db8::1:6443 --token " + tok, "host:port"},
		"two endpoints":                     {line + " other:6443", "more than one endpoint"},
		"two join commands":                 {line + "\n" + strings.Replace(line, "abcdef.", "ghijkl.", 1), "two different kubeadm join commands"},
		"a pin that isn't one":              {strings.Replace(line, pinA, "sha256:abc", 1), "CA pin"},
		"a discovery file elsewhere":        {"kubeadm join --discovery-file /x --token " + tok, "points elsewhere"},
		"an alias bomb":                     {bomb, "anchors"},
		"an unknown key":                    {"token: " + tok + "\nendpont: x\n", "unknown key endpont in line 2"},
		"the token as a key":                {"{\"" + tok + "\": 1}", "(redacted)"},
		"broken YAML":                       {"token: \"" + tok + "\nendpoint: x\n", "not readable as JSON or YAML"},
		"a list for a token":                {"token: [" + tok + "]\n", "wrong type"},
		"an expiration in words":            {"token: " + tok + "\nexpiration: tomorrow\n", "expiration"},
		"an old JoinConfiguration":          {"apiVersion: kubeadm.k8s.io/v1beta2\nkind: JoinConfiguration\n", "v1beta3 or v1beta4"},
		"two different tokens in one":       {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: " + tok + "}, tlsBootstrapToken: ghijkl.0123456789abcdef}\n", "two different tokens"},
		"a kubeconfig without verification": {strings.Replace(kubeconfigOf("{token: "+tok+"}"), "    certificate-authority-data", "    insecure-skip-tls-verify: true\n    certificate-authority-data", 1), "pose as the API server"},
		"a kubeconfig with a certificate":   {kubeconfigOf("{client-certificate-data: eA==, client-key-data: eA==}"), "no token"},
		"another kind of object":            {"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", "without a token"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.in))
			require.ErrorContains(t, err, c.want)
			require.NotEmpty(t, fail.HintOf(err))
			shown := err.Error() + fail.HintOf(err)
			require.NotContains(t, shown, "0123456789")
			require.NotContains(t, strings.ToLower(shown), "0123456789abcdef")
		})
	}
}

func TestADocumentIsNeverPrinted(t *testing.T) {
	d := Document{Token: tok, Kubeconfig: []byte("secret")}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, "(join token, redacted)", fmt.Sprintf(form, d))
		require.NotContains(t, fmt.Sprintf(form, &d), "0123456789")
	}
}

func TestTokensAreTakenOutOfOutput(t *testing.T) {
	d := Document{Token: tok}
	got := d.Redact("using token " + tok + ", secret 0123456789abcdef, other ghijkl.0123456789abcdeg")
	require.Equal(t, "using token (token abcdef, redacted), secret (redacted), other (redacted)", got)
}

func TestATokenIsOverAtItsExpiration(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.False(t, Document{}.Expired(at))
	require.False(t, Document{Expiration: at}.Expired(at.Add(-time.Second)))
	require.True(t, Document{Expiration: at}.Expired(at))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{tok, initOutput, kubeconfigOf("{token: " + tok + "}"), `{"token":"` + tok + `"}`, "kubeadm join a:1 --token " + tok,
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: " + tok + "}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			shown := err.Error() + fail.HintOf(err)
			for _, secret := range inText.FindAllString(string(b), -1) {
				require.NotContains(t, shown, secret)
			}
			return
		}
		require.True(t, Valid(d.Token) || len(d.Kubeconfig) > 0)
		for _, h := range d.CACertHashes {
			require.Regexp(t, `^sha256:[0-9a-f]{64}$`, h)
		}
	})
}
