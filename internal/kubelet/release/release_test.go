package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMinorReleaseOfAVersion(t *testing.T) {
	for in, want := range map[string]int{"v1.35.4": 35, "1.35.4": 35, "v1.9": 9, "v1.37.0-rc.1": 37} {
		n, ok := Minor(in)
		require.True(t, ok, in)
		require.Equal(t, want, n, in)
	}
	for _, in := range []string{"", "v2.0.0", "v1", "v1.", "v1.x.2", "v1.-3"} {
		_, ok := Minor(in)
		require.False(t, ok, in)
	}
}
