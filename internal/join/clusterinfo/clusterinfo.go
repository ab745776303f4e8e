// Package clusterinfo judges the ConfigMap kube-public/cluster-info, which
// every kubeadm cluster shows to anonymous clients: it holds the cluster's
// server and CA, signed once for each live join token.
//
// kubeadm reads it too, but waits in silence for five minutes and then says
// one sentence for three different causes. Here each cause is a Verdict.
package clusterinfo

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"nodeagent/internal/join/kubeconfig"
	"nodeagent/internal/join/pin"
)

// Verdict is what cluster-info means for a token and its CA pins.
type Verdict int

// Verdicts.
const (
	Good         Verdict = iota // signed for our token, and the CA is a pinned one
	NotThere                    // no kubeconfig in it: not made by kubeadm
	SignerDown                  // no signature at all: the controller-manager's signer isn't running, or no token is left
	TokenUnknown                // signed for other tokens only: ours has expired, never existed, or is too new
	WrongSecret                 // signed for our token's id with another secret
	WrongCA                     // no CA in it has a pinned key
	Unreadable                  // the kubeconfig in it can't be read
)

// Info is a ConfigMap, judged.
type Info struct {
	Verdict Verdict
	Server  string   // https://host:port that the cluster gives for itself
	CA      []byte   // PEM
	Pins    []string // of the CAs in it
	// Pinned are those of its CAs that are pinned. Until the signature has been
	// checked, the others may be anybody's.
	Pinned []*x509.Certificate
	Signed []string // ids of the tokens it is signed for
}

const (
	kubeconfigKey = "kubeconfig"
	signature     = "jws-kubeconfig-"
)

// Judge reads the ConfigMap's JSON. Without a token (discovery by file) only
// the CA is judged, without pins only the signature. The CA comes first: a
// cluster that isn't the pinned one needs to know no token.
func Judge(configMap []byte, token string, pins []string) Info {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if json.Unmarshal(configMap, &m) != nil || m.Data[kubeconfigKey] == "" {
		return Info{Verdict: NotThere}
	}
	var out Info
	for key := range m.Data {
		if id, ok := strings.CutPrefix(key, signature); ok {
			out.Signed = append(out.Signed, id)
		}
	}
	sort.Strings(out.Signed)
	content := m.Data[kubeconfigKey]
	if k, err := kubeconfig.Parse([]byte(content)); err == nil {
		out.Server, out.CA = k.Server, k.CA
	}
	certs, err := pin.Certificates(out.CA)
	if err != nil || out.Server == "" {
		out.Verdict = Unreadable
		return out
	}
	for _, c := range certs {
		out.Pins = append(out.Pins, pin.Of(c))
		if slices.Contains(pins, pin.Of(c)) {
			out.Pinned = append(out.Pinned, c)
		}
	}
	if len(pins) > 0 && len(out.Pinned) == 0 {
		out.Verdict = WrongCA
		return out
	}
	if token != "" {
		id, secret, _ := strings.Cut(token, ".")
		jws := m.Data[signature+id]
		switch {
		case len(out.Signed) == 0:
			out.Verdict = SignerDown
		case jws == "":
			out.Verdict = TokenUnknown
		case !signedWith(jws, content, secret):
			out.Verdict = WrongSecret
		}
	}
	return out
}

// signedWith checks a detached JWS with HS256 (RFC 7515, appendix F): header,
// two dots, signature. The key is the token's secret half.
func signedWith(jws, content, secret string) bool {
	header, sig, ok := strings.Cut(jws, "..")
	if !ok {
		return false
	}
	got, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(header)
	var h struct {
		Alg string `json:"alg"`
	}
	if err != nil || json.Unmarshal(raw, &h) != nil || h.Alg != "HS256" {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(content))))
	return hmac.Equal(mac.Sum(nil), got)
}
