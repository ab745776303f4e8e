package ready

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

func TestLabelsThatANodeMayNotGiveItselfAreSetBeforeItIsAwaited(t *testing.T) {
	const role, file = "node-role.kubernetes.io/worker", "/etc/nodeagent/minter.conf"
	right := map[string]string{role: "", "type": "physical"}
	there := host.FileInfo{Exists: true}
	for name, c := range map[string]struct {
		node    host.Node
		conf    host.FileInfo
		shred   bool
		noWait  bool
		want    []string
		warning string
	}{
		"not joined":                       {node: host.Node{}, conf: there, want: []string{"labels", "ready"}},
		"not registered":                   {node: host.Node{Joined: true, Reached: true}, conf: there, want: []string{"labels", "ready"}},
		"registered without it":            {node: host.Node{Joined: true, Reached: true, Labels: map[string]string{"type": "physical"}}, conf: there, want: []string{"labels", "ready"}},
		"another value":                    {node: host.Node{Joined: true, Reached: true, Ready: true, Labels: map[string]string{role: "x", "type": "physical"}}, conf: there, want: []string{"labels"}},
		"right":                            {node: host.Node{Joined: true, Reached: true, Ready: true, Labels: right}, conf: there, want: nil},
		"can't be read now":                {node: host.Node{Joined: true}, conf: there, want: []string{"labels", "ready"}},
		"can't be read, nothing can label": {node: host.Node{Joined: true}, want: []string{"ready"}},
		"wrong, nothing can label":         {node: host.Node{Joined: true, Reached: true, Ready: true, Labels: map[string]string{"type": "physical"}}, warning: "kubectl label --overwrite node node1 " + role + "="},
		"the kubeconfig goes last":         {node: host.Node{}, conf: there, shred: true, want: []string{"labels", "ready", "remove:" + file}},
		"Ready, the kubeconfig is there":   {node: host.Node{Joined: true, Reached: true, Ready: true, Labels: right}, conf: there, shred: true, want: []string{"remove:" + file}},
		"the kubeconfig is a link":         {node: host.Node{Joined: true, Reached: true, Ready: true, Labels: right}, conf: host.FileInfo{Exists: true, Link: "/x"}, shred: true, warning: "is a link to /x, so it is not shredded"},
		"nobody waits for Ready":           {node: host.Node{Joined: true, Reached: true, Labels: right}, conf: there, shred: true, noWait: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := config.Default().Spec
			s.Kubelet.Labels = right
			s.Join.Token.Kubeconfig = &config.TokenKubeconfig{File: file, TTL: config.Duration{Duration: time.Minute}, Shred: c.shred}
			if c.noWait {
				s.Join.WaitReady = config.Duration{Set: true}
			}
			p := Plan(s, Facts{NodeName: "node1", Node: c.node, Kubeconfig: c.conf})
			var ids []string
			for _, ch := range p.Changes {
				ids = append(ids, ch.ID())
				if l, ok := ch.(change.LabelNode); ok {
					require.Equal(t, map[string]string{role: ""}, l.Labels, "only what the node may not do itself")
				}
			}
			require.Equal(t, c.want, ids)
			if c.warning == "" {
				require.Empty(t, p.Warnings)
			} else {
				require.Len(t, p.Warnings, 1)
				require.Contains(t, p.Warnings[0], c.warning)
			}
		})
	}
}
