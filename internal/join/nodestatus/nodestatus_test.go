package nodestatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const notReady = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","resourceVersion":"366","labels":{"type":"physical"}},"status":{"conditions":[
{"type":"MemoryPressure","status":"False","message":"kubelet has sufficient memory available"},
{"type":"Ready","status":"False","lastHeartbeatTime":"2026-12-01T13:05:02Z","reason":"KubeletNotReady","message":"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"}],
"nodeInfo":{"kubeletVersion":"v1.35.4"}}}`

func TestTheMissingConditionIsSaidInTheAPIsOwnWordsWithANextAction(t *testing.T) {
	s, err := Parse([]byte(notReady))
	require.NoError(t, err)
	require.False(t, s.Ready)
	require.Equal(t, "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized", s.Unmet)
	require.Contains(t, Hint("n1", s), "network plugin")
	require.Equal(t, "v1.35.4", s.Version)
	require.Equal(t, map[string]string{"type": "physical"}, s.Labels)
	require.Equal(t, time.Date(2026, 12, 1, 13, 5, 2, 0, time.UTC), s.Heartbeat.UTC())

	for unmet, hint := range map[string]string{
		"Kubelet stopped posting node status.":                 "journalctl -u kubelet",
		"[container runtime is down, PLEG is not healthy]":     "journalctl -u containerd",
		"PLEG is not healthy, failed to initialize CSINode: x": "CSINode",
		NotRegistered:                    "journalctl -u kubelet",
		"something that nobody has seen": "",
	} {
		h := Hint("n1", Status{Unmet: unmet})
		if hint == "" {
			require.Empty(t, h)
		}
		require.Contains(t, h, hint)
	}
}

func TestANodeWithoutWordsIsDescribedByItsCondition(t *testing.T) {
	s, err := Parse([]byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`))
	require.NoError(t, err)
	require.Equal(t, "condition Ready is Unknown (NodeStatusUnknown)", s.Unmet)
	s, err = Parse([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, "kubelet has not reported a status yet", s.Unmet)
	s, err = Parse([]byte(`{"status":{"conditions":[{"type":"Ready","status":"True","message":"kubelet is posting ready status"}]}}`))
	require.NoError(t, err)
	require.True(t, s.Ready)
	require.Empty(t, s.Unmet)
}

func TestAStatusFromBeforeKubeletsStartIsStale(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 700_000_000, time.UTC)
	require.True(t, Stale(start.Add(-time.Second), start))
	require.False(t, Stale(start.Truncate(time.Second), start), "the API keeps whole seconds")
	require.False(t, Stale(start.Add(time.Second), start))
	require.False(t, Stale(time.Time{}, start), "not known")
	require.False(t, Stale(start, time.Time{}))
}

func TestListsAndWatchesAreRead(t *testing.T) {
	s, found, version, err := ParseList([]byte(`{"kind":"NodeList","metadata":{"resourceVersion":"370"},"items":[` + notReady + `]}`))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "370", version)
	require.Equal(t, "n1", s.Name)
	s, found, version, err = ParseList([]byte(`{"metadata":{"resourceVersion":"1"},"items":[]}`))
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, "1", version)
	require.Equal(t, NotRegistered, s.Unmet)

	e, err := ParseEvent([]byte(`{"type":"MODIFIED","object":` + notReady + `}`))
	require.NoError(t, err)
	require.Equal(t, "MODIFIED", e.Type)
	require.Equal(t, "n1", e.Status.Name)
	e, err = ParseEvent([]byte(`{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"400"}}}`))
	require.NoError(t, err)
	require.Equal(t, "BOOKMARK", e.Type)
	e, err = ParseEvent([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (400)"}}`))
	require.NoError(t, err)
	require.Equal(t, 410, e.Code)
	require.Equal(t, "too old resource version: 1 (400)", e.Text)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(notReady))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Parse(b); err == nil {
			require.Equal(t, s.Ready, s.Unmet == "")
			Hint("n", s)
		}
		_, _, _, _ = ParseList(b)
		_, _ = ParseEvent(b)
		_, _ = StatusText(b)
	})
}
