package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/join/mint"
	"nodeagent/internal/reset"
	"nodeagent/internal/run"
)

// Configurations whose token comes from elsewhere than a file.
const (
	tokenOfItsOwn = `    kubelet: {labels: {type: physical, node-role.kubernetes.io/worker: ""}}
    join: {token: {kubeconfig: {file: /etc/nodeagent/minter.conf}}}
`
	tokenFromAServer = `    join:
      token:
        https:
          url: https://tokens.example/join?serial={{ .Serial }}&sig=h1dd3n-url
          query: {uuid: "{{ .UUID }}", key: h1dd3n-query}
          headers: {X-Host: "{{ .Hostname }} {{ .MAC }}", X-Secret: h1dd3n-header}
          bearerTokenFile: /etc/nodeagent/bearer
`
	tokenInGuestInfo = `    join: {endpoint: "192.0.2.1:6443", token: {guestinfo: nodeagent.token}}
`
)

// minter is the kubeconfig of these configurations.
const minter = "/etc/nodeagent/minter.conf"

// sourceSecrets are what the configurations and their files hold.
var sourceSecrets = []string{"h1dd3n", hosttest.AdminSecret}

func tokenSpec(t *testing.T, rest string) config.Spec {
	t.Helper()
	doc := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n    kubernetes: {version: v1.35.4}\n" + rest
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(doc)}}, config.Identity{Hostname: "prdk8snod001"})
	require.NoError(t, err)
	return c.Spec
}

// withoutDocument is a host on which no token document lies.
func withoutDocument() *hosttest.World {
	w := withRepository()
	delete(w.Files, "/etc/nodeagent/join-command")
	return w
}

func withKubeconfig() *hosttest.World {
	w := withoutDocument()
	w.GiveKubeconfig(minter)
	return w
}

func withServer() *hosttest.World {
	w := withoutDocument()
	w.Files["/etc/nodeagent/bearer"] = hosttest.File{Content: "bearer\n", Mode: "0600"}
	return w
}

func withGuestInfo() *hosttest.World {
	w := withoutDocument()
	w.Files["/usr/bin/vmware-rpctool"] = hosttest.File{Mode: "0755"}
	return w
}

func TestATokenOfItsOwnIsGoneAfterTheJoinWhateverDies(t *testing.T) {
	spec := tokenSpec(t, tokenOfItsOwn)
	reference := withKubeconfig()
	reference.DieAt(0, hosttest.Before)
	_, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Empty(t, reference.Minted)
	require.NotContains(t, reference.Files, mint.RecordPath)
	require.Equal(t, "", reference.NodeObject.Labels["node-role.kubernetes.io/worker"])
	require.Contains(t, reference.NodeObject.Labels, "node-role.kubernetes.io/worker")
	require.NotContains(t, reference.Files["/var/lib/kubelet/kubeadm-flags.env"].Content, "node-role")
	require.Contains(t, reference.Files["/var/lib/kubelet/kubeadm-flags.env"].Content, "type=physical")
	left := 0
	for n := 1; n <= reference.Effects(); n++ {
		w := withKubeconfig()
		w.DieAt(n, hosttest.After)
		_, err := up(w, spec)
		require.Error(t, err)
		if len(w.Minted) == 0 {
			continue
		}
		left++
		// The next run deletes it; after its end there is nothing to delete.
		for _, late := range []time.Duration{0, time.Hour} {
			w := w.Clone()
			w.Restart()
			w.Later(late)
			last, err := up(w, spec)
			require.NoError(t, err, "%s", run.Describe(err))
			require.NotContains(t, w.Files, mint.RecordPath)
			if late == 0 {
				require.Empty(t, w.Minted)
				require.Contains(t, changes(last), "delete the join token with id abcdef")
			} else {
				require.Contains(t, changes(last), "it has ended")
			}
		}
		// And so does a reset.
		w.Restart()
		_, err = resetWorld(w, reset.Options{})
		require.NoError(t, err, "%s", run.Describe(err))
		require.Empty(t, w.Minted)
		require.NotContains(t, w.Files, mint.RecordPath)
	}
	require.NotZero(t, left)
}

func changes(last run.LastRun) string {
	var all []string
	for _, s := range last.Steps {
		all = append(all, s.Changes...)
	}
	return strings.Join(all, "\n")
}

func TestTheKubeconfigIsShreddedOnlyOnceTheNodeIsReady(t *testing.T) {
	spec := tokenSpec(t, strings.Replace(tokenOfItsOwn, "minter.conf", "minter.conf, shred: true", 1))
	reference := withKubeconfig()
	reference.DieAt(0, hosttest.Before)
	last, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.NotContains(t, reference.Files, minter)
	all := changes(last)
	require.Less(t, strings.Index(all, "to be Ready"), strings.Index(all, "shred the kubeconfig"))
	total := reference.Effects()
	second, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Zero(t, second.Changes)
	for n := 1; n <= total; n++ {
		w := withKubeconfig()
		w.DieAt(n, hosttest.After)
		_, err := up(w, spec)
		require.Error(t, err)
		if _, there := w.Files[minter]; !there {
			require.True(t, w.NodeObject.Ready)
			require.Empty(t, w.Minted)
		}
		w.Restart()
		_, err = up(w, spec)
		require.NoError(t, err, "%s", run.Describe(err))
		require.Equal(t, reference.String(), w.String())
	}
	// What it can't do any more, it says.
	delete(reference.NodeObject.Labels, "node-role.kubernetes.io/worker")
	last, err = up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Contains(t, strings.Join(last.Warnings, "\n"), "kubectl label --overwrite node worker-1 node-role.kubernetes.io/worker=")
}

func TestALabelThatANodeMayNotGiveItselfComesBack(t *testing.T) {
	spec := tokenSpec(t, tokenOfItsOwn)
	w := withKubeconfig()
	_, err := up(w, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	w.NodeObject.Labels["node-role.kubernetes.io/worker"] = "other"
	last, err := up(w, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Equal(t, 1, last.Changes)
	require.Contains(t, changes(last), "label node worker-1 with /etc/nodeagent/minter.conf: node-role.kubernetes.io/worker=")
	require.Equal(t, "", w.NodeObject.Labels["node-role.kubernetes.io/worker"])
}

func TestATokenInGuestInfoIsOverwrittenOnceAndOnlyAfterTheJoin(t *testing.T) {
	spec := tokenSpec(t, tokenInGuestInfo)
	reference := withGuestInfo()
	reference.DieAt(0, hosttest.Before)
	_, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Equal(t, []string{"nodeagent.token"}, reference.Spent)
	for n := 1; n <= reference.Effects(); n++ {
		w := withGuestInfo()
		w.DieAt(n, hosttest.After)
		_, err := up(w, spec)
		require.Error(t, err)
		require.False(t, !w.NodeObject.Joined && len(w.Spent) > 0)
		w.Restart()
		_, err = up(w, spec)
		require.NoError(t, err, "%s", run.Describe(err))
		require.Equal(t, []string{"nodeagent.token"}, w.Spent)
	}
}
