package label

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksAreNamedAsUdevNamesThem(t *testing.T) {
	for label, want := range map[string]string{
		"kubelet": "kubelet", "var-lib_kubelet.1": "var-lib_kubelet.1", "two words": `two\x20words`, "a/b": `a\x2fb`, `a\b`: `a\x5cb`,
		"100%": `100\x25`, "größe": "größe", "a\xffb": `a\xffb`, "$HOME": `\x24HOME`,
	} {
		require.Equal(t, want, Link(label), label)
	}
}

func TestLimitsAreTheOnesOfMkfs(t *testing.T) {
	require.Equal(t, []int{12, 16, 0}, []int{Limit("xfs"), Limit("ext4"), Limit("zfs")})
}

func FuzzLink(f *testing.F) {
	f.Add("two words")
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range Link(s) {
			if c == '/' || c == ' ' || c == 0 {
				t.Fatalf("%q", Link(s))
			}
		}
	})
}
