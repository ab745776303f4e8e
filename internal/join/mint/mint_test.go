package mint

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/join/token"
)

const made = "abcdef.0123456789abcdef"

// The golden file is what `kubeadm token create --ttl 20m` makes, with our
// description.
func TestTheSecretIsTheOneThatKubeadmMakes(t *testing.T) {
	b, err := Secret(made, "prdk8snod001", time.Date(2026, 3, 1, 12, 20, 0, 0, time.FixedZone("", 3600)))
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, b, "", "  "))
	want, err := os.ReadFile("testdata/secret.json")
	require.NoError(t, err)
	require.Equal(t, string(want), pretty.String()+"\n")
	_, err = Secret("abcdef0123456789abcdef", "n", time.Now())
	require.ErrorContains(t, err, "not a bootstrap token")
	require.NotContains(t, err.Error(), "0123")
}

func TestEveryTokenIsNewAndValid(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		s, id, err := Token()
		require.NoError(t, err)
		require.True(t, token.Valid(s))
		require.Equal(t, s[:6], id)
		require.False(t, seen[s])
		seen[s] = true
	}
}

func TestARecordComesBackAndSaysNothingSecret(t *testing.T) {
	for _, r := range []Record{{Kubeconfig: "/a", TokenID: "abcdef", Expires: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, {GuestInfo: "x"}} {
		got, err := Decode(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	for _, s := range []string{"", "{", "{}", `{"tokenID":"abcdef"}`, `{"kubeconfig":"/a"}`} {
		_, err := Decode([]byte(s))
		require.ErrorContains(t, err, RecordPath, s)
	}
}
