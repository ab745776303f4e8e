package clusterinfo

import (
	"encoding/json"
	"testing"
)

// Whatever an unknown server answers: without a pinned CA nothing is good, and
// only the token's own secret makes a signature good.
func FuzzJudge(f *testing.F) {
	f.Add([]byte(`{"data":{"kubeconfig":"clusters: [{cluster: {server: \"https://a:6443\", certificate-authority-data: QQ==}}]","jws-kubeconfig-abcdef":"eyJhbGciOiJIUzI1NiJ9..AAAA"}}`))
	f.Add([]byte(`{"data":{"kubeconfig":"a: &a [*a]"}}`))
	f.Add([]byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if i := Judge(b, "abcdef.0123456789abcdef", []string{"sha256:00"}); i.Verdict == Good || len(i.Pinned) > 0 {
			t.Fatalf("%q is good with a pin that fits nothing", b)
		}
		if i := Judge(b, "abcdef.0123456789abcdef", nil); i.Verdict == Good && (i.Server == "" || len(i.CA) == 0 || !json.Valid(b)) {
			t.Fatalf("good without a server or a CA: %q", b)
		}
	})
}
