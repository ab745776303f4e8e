package join_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/join"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/hooks"
	"nodeagent/internal/join/ready"
	"nodeagent/internal/kubelet"
	"nodeagent/internal/report"
	"nodeagent/internal/run"
)

var steps = []run.Step{
	run.NewStep("kubelet", kubelet.Observe, kubelet.Plan),
	run.NewStep("prejoin", hooks.ObservePre, hooks.PlanPre),
	run.NewStep("token", credential.Observe, credential.Plan),
	run.NewStep("join", join.Observe, join.Plan),
	run.NewStep("postjoin", hooks.ObservePost, hooks.PlanPost),
	run.NewStep("ready", ready.Observe, ready.Plan),
}

const pinned = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// load fills in defaults and validates, as the program does.
func load(t *testing.T, kubelet, rest string) config.Spec {
	doc := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  kubelet: " + kubelet + "\n  join: {token: {file: /etc/nodeagent/join-command}}\n" + rest
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(doc)}}, config.Identity{Hostname: "prdk8snod001"})
	require.NoError(t, err)
	return c.Spec
}

// world is a host where every earlier step is done.
func world() *hosttest.World {
	w := hosttest.Rocky9()
	w.Net.Defaults = append(w.Net.Defaults, *w.LateRoute)
	w.Swaps = nil
	w.UnitStates["kubelet.service"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled"}
	return w
}

func up(w *hosttest.World, spec config.Spec) (run.LastRun, error) {
	tick := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	return run.Up(context.Background(), w, spec, steps, run.Options{ID: "law", Version: "test", Now: now}, func(report.Event) {})
}

const asked = "{config: {maxPods: 55, protectKernelDefaults: true, streamingConnectionIdleTimeout: 5m}, extraArgs: [{name: node-ip, value: 192.0.2.10}], labels: {type: physical}, taints: [{key: dedicated, value: lab, effect: NoSchedule}]}"

func TestARunThatDiesAnywhereIsFinishedByTheNextAndThenNothingIsLeft(t *testing.T) {
	spec := load(t, asked, "  hooks: {preJoin: ['touch /a', 'touch /a'], postJoin: ['touch /b']}\n")
	reference := world()
	reference.DieAt(0, hosttest.Before)
	_, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	want, total := reference.String(), reference.Effects()
	for _, how := range []hosttest.Death{hosttest.Before, hosttest.After, hosttest.Torn} {
		for n := 1; n <= total; n++ {
			at := fmt.Sprintf("death %d at effect %d of %d", how, n, total)
			w := world()
			w.DieAt(n, how)
			_, err := up(w, spec)
			require.Error(t, err, at)
			w.Restart()
			_, err = up(w, spec)
			require.NoError(t, err, "%s: %s", at, run.Describe(err))
			require.Equal(t, want, w.String(), at)
			last, err := up(w, spec)
			require.NoError(t, err, at)
			require.Zero(t, last.Changes, at)
		}
	}
}

func TestDriftOnAJoinedNodeIsMendedWithOneRestartWhateverDies(t *testing.T) {
	spec := load(t, asked, "")
	drifted := func() *hosttest.World {
		w := world()
		_, err := up(w, spec)
		require.NoError(t, err)
		w.Files[kubelet.ConfigPath] = hosttest.File{Content: "apiVersion: kubelet.config.k8s.io/v1beta1\nclusterDNS:\n- 10.96.0.10\nmaxPods: 110\nstreamingConnectionIdleTimeout: 5m0s\nresolvConf: /run/systemd/resolve/resolv.conf\n", Mode: "0600"}
		w.Files[kubelet.FlagsPath] = hosttest.File{Content: "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=registry.k8s.io/pause:3.10 --node-ip=192.0.2.99 --node-labels=type=physical\"\n"}
		return w
	}
	reference := drifted()
	before := len(reference.Log())
	reference.DieAt(0, hosttest.Before)
	_, err := up(reference, spec)
	require.NoError(t, err, "%s", run.Describe(err))
	require.Equal(t, []string{"file:/var/lib/nodeagent/kubelet-restart", "file:/var/lib/kubelet/config.yaml", "file:/var/lib/kubelet/kubeadm-flags.env", "unit:kubelet.service", "remove:/var/lib/nodeagent/kubelet-restart"}, reference.Log()[before:])
	require.Equal(t, "apiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\nclusterDNS:\n- 10.96.0.10\nkind: KubeletConfiguration\nmaxPods: 55\nprotectKernelDefaults: true\nresolvConf: /etc/resolv.conf\nstreamingConnectionIdleTimeout: 5m\n", reference.Files[kubelet.ConfigPath].Content)
	require.Equal(t, "0600", reference.Files[kubelet.ConfigPath].Mode)
	require.Equal(t, "KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.10 --node-labels=type=physical\"\n", reference.Files[kubelet.FlagsPath].Content)
	want, total := reference.String(), reference.Effects()
	for _, how := range []hosttest.Death{hosttest.Before, hosttest.After} {
		for n := 1; n <= total; n++ {
			w := drifted()
			w.DieAt(n, how)
			_, err := up(w, spec)
			require.Error(t, err)
			w.Restart()
			_, err = up(w, spec)
			require.NoError(t, err, "%s", run.Describe(err))
			require.Equal(t, want, w.String())
			log := w.Log()
			lastWrite, lastRestart := 0, 0
			for i, id := range log {
				switch id {
				case "file:/var/lib/kubelet/config.yaml", "file:/var/lib/kubelet/kubeadm-flags.env":
					lastWrite = i
				case "unit:kubelet.service":
					lastRestart = i
				}
			}
			require.Greater(t, lastRestart, lastWrite, "kubelet reads what was written last")
		}
	}
}
