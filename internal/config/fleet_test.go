package config

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryHostOfAFleetIsLoadedAsThatHostLoadsIt(t *testing.T) {
	const fleet = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  kubernetes: &k {version: v1.35.4}
  kubelet: {labels: {type: physical}}
  join: {token: {file: /t}}
---
apiVersion: nodeagent/v1alpha1
kind: NodeConfig
metadata: {match: {serial: [A]}}
spec:
  hostname: a
  kubelet: {labels: {rack: r1}}
---
apiVersion: nodeagent/v1alpha1
kind: NodeConfig
metadata: {match: {serial: [B]}}
spec: {hostname: b}
`
	sources := []Source{{Name: "fleet.yaml", Data: []byte(fleet)}}
	all, err := LoadAll(sources)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for i, serial := range []string{"A", "B"} {
		own, err := Load(sources, Identity{Serial: serial})
		require.NoError(t, err)
		require.Equal(t, own, all[i], "what is laid over for one host leaves the next one's as it is")
	}
	require.Equal(t, map[string]string{"type": "physical", "rack": "r1"}, all[0].Spec.Kubelet.Labels)
	require.Equal(t, map[string]string{"type": "physical"}, all[1].Spec.Kubelet.Labels)

	one, err := LoadAll([]Source{{Name: "one.yaml", Data: []byte("apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}\n")}})
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Equal(t, []string{"/t"}, one[0].Spec.NeededFiles())

	_, err = LoadAll([]Source{{Name: "empty.yaml"}})
	require.ErrorContains(t, err, "no document")
	_, err = LoadAll(append(sources, Source{Name: "more.yaml", Data: []byte("apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {serial: [C]}}\nspec: {hostname: C_c}\n")}))
	var problems Problems
	require.True(t, errors.As(err, &problems))
	require.Equal(t, "more.yaml", problems[0].File)
	require.Equal(t, 4, problems[0].Line)
}
