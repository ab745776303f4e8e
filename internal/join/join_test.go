package join_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/join"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/hooks"
	"nodeagent/internal/join/ready"
)

const (
	secret = "0123456789abcdef"
	line   = "kubeadm join 192.0.2.1:6443 --token abcdef." + secret + " --discovery-token-ca-cert-hash " + pinned + " \n"
	begun  = "/var/lib/nodeagent/joining"
	marker = "/run/cluster-api/bootstrap-success.complete"
)

func plan(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	f, err := join.Observe(context.Background(), w, s)
	require.NoError(t, err)
	b, err := json.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(b), secret)
	var again join.Facts
	require.NoError(t, json.Unmarshal(b, &again))
	require.Equal(t, ids(join.Plan(s, f)), ids(join.Plan(s, again)))
	return join.Plan(s, again)
}

func ids(p change.Plan) []string {
	out := []string{}
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return out
}

// minimal is the smallest configuration with more of spec.join.
func minimal(t *testing.T, joinFields string) config.Spec {
	doc := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /etc/nodeagent/join-command}" + joinFields + "}\n"
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(doc)}}, config.Identity{Hostname: "prdk8snod001"})
	require.NoError(t, err)
	return c.Spec
}

func document(w *hosttest.World, s string) *hosttest.World {
	w.Files["/etc/nodeagent/join-command"] = hosttest.File{Content: s, Mode: "0600"}
	return w
}

func TestAFreshHostJoinsAndOnlyThenGetsTheSuccessMarker(t *testing.T) {
	p := plan(t, document(world(), line), load(t, asked, ""))
	require.Empty(t, p.Blocked)
	require.Equal(t, []string{"file:" + begun, "join", "file:" + marker, "remove:" + begun}, ids(p))
	require.Equal(t, change.Join{NodeName: "prdk8snod001", Endpoint: "192.0.2.1:6443", Socket: "unix:///run/containerd/containerd.sock", PatchDirectory: "/etc/kubernetes/patches",
		KubeletArgs: []change.NameValue{{Name: "node-ip", Value: "192.0.2.10"}, {Name: "node-labels", Value: "type=physical"}},
		Taints:      []change.NodeTaint{{Key: "dedicated", Value: "lab", Effect: "NoSchedule"}}, Timeout: 10 * time.Minute, KubernetesVersion: "v1.35.4"}, p.Changes[1])
}

func TestTheHostNameInLowerCaseIsTheNodeName(t *testing.T) {
	w := document(world(), line)
	w.Sys.Hostname = "PHost01"
	for _, c := range plan(t, w, minimal(t, "")).Changes {
		if j, ok := c.(change.Join); ok {
			require.Equal(t, "phost01", j.NodeName) // J9
		}
	}
}

func TestWhatAJoinLacksIsToldBeforeAnythingIsDone(t *testing.T) {
	for name, c := range map[string]struct {
		doc, fields, want string
		kind              fail.Kind
	}{
		"no pin anywhere":                     {"abcdef." + secret, ", endpoint: '192.0.2.1:6443'", "pins the cluster's CA", fail.Safety},
		"a document that skips the pin":       {"kubeadm join 192.0.2.1:6443 --token abcdef." + secret + " --discovery-token-unsafe-skip-ca-verification", "", "pins the cluster's CA", fail.Safety},
		"no endpoint anywhere":                {"abcdef." + secret, ", caCertHashes: ['" + pinned + "']", "where the API server is", fail.Usage},
		"a CA file that isn't there":          {line, ", caCertFile: /etc/ca.crt", "/etc/ca.crt does not exist", fail.Usage},
		"pin and endpoint from configuration": {"abcdef." + secret, ", endpoint: '192.0.2.1:6443', caCertHashes: ['" + pinned + "']", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, document(world(), c.doc), minimal(t, c.fields))
			if c.want == "" {
				require.Empty(t, p.Blocked)
				return
			}
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], c.want)
			require.Equal(t, c.kind, fail.KindOf(p.Blocked[0]))
			require.Empty(t, p.Changes)
		})
	}
}

func TestJ5WhatIsJoinedHalfJoinedOrSomebodyElsesIsToldApart(t *testing.T) {
	other := "sha256:" + strings.Repeat("1", 64)
	joinedAs := func(name, ca string) func(*hosttest.World) {
		return func(w *hosttest.World) {
			w.NodeObject.Joined, w.NodeObject.Name, w.NodeObject.CAHash = true, name, ca
			w.Files["/etc/kubernetes/kubelet.conf"] = hosttest.File{Content: "x"}
			w.Files["/etc/kubernetes/pki/ca.crt"] = hosttest.File{Content: "x"}
		}
	}
	leftover := func(paths ...string) func(*hosttest.World) {
		return func(w *hosttest.World) {
			for _, p := range paths {
				w.Files[p] = hosttest.File{Content: "x"}
			}
		}
	}
	all := func(f ...func(*hosttest.World)) func(*hosttest.World) {
		return func(w *hosttest.World) {
			for _, g := range f {
				g(w)
			}
		}
	}
	const name, bootstrap = "prdk8snod001", "/etc/kubernetes/bootstrap-kubelet.conf"
	for title, c := range map[string]struct {
		set     func(*hosttest.World)
		fields  string
		want    []string
		resume  bool
		blocked string
		kind    fail.Kind
	}{
		"joined to this cluster":                             {joinedAs(name, pinned), "", []string{}, false, "", 0},
		"joined, by hand, under a name of the cluster's own": {joinedAs(name, pinned), ", endpoint: 'other.example:6443'", []string{}, false, "", 0},
		"joined, the token document is gone":                 {all(joinedAs(name, pinned), func(w *hosttest.World) { delete(w.Files, "/etc/nodeagent/join-command") }), "", []string{}, false, "", 0},
		"joined to another cluster":                          {joinedAs(name, other), "", nil, false, "joined another cluster: it is a node at https://192.0.2.1:6443 with CA " + other, fail.Safety},
		"joined while the cluster's CA is being replaced":    {all(joinedAs(name, other), func(w *hosttest.World) { w.NodeObject.CAHashes = []string{other, pinned} }), "", []string{}, false, "", 0},
		"joined under another name":                          {joinedAs("old-name", pinned), "", nil, false, "as node old-name, but is to be node " + name, fail.Safety},
		"joined, killed before the marker":                   {all(joinedAs(name, pinned), leftover(begun)), "", []string{"file:" + marker, "remove:" + begun}, false, "", 0},
		"joined, killed after the marker":                    {all(joinedAs(name, pinned), leftover(begun), func(w *hosttest.World) { w.Files[marker] = hosttest.File{Content: "success\n"} }), "", []string{"remove:" + begun}, false, "", 0},
		"joined, the token is left over":                     {all(joinedAs(name, pinned), leftover(bootstrap)), "", []string{"remove:" + bootstrap}, false, "", 0},
		"joined once, the certificate has ended": {func(w *hosttest.World) {
			w.NodeObject.Expired, w.NodeObject.Name, w.NodeObject.Problem = true, name, "kubelet's certificate ended on 2025-01-01T00:00:00Z"
		}, "", nil, false, "kubelet's certificate ended on 2025-01-01T00:00:00Z", fail.Step},
		"joined, the clock is wrong": {func(w *hosttest.World) {
			w.NodeObject.Early, w.NodeObject.Name, w.NodeObject.Problem = true, name, "valid only from 2026 on"
		}, "", nil, false, "valid only from 2026 on", fail.Step},
		"a half join of ours":                                        {leftover(begun, bootstrap, "/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml"), "", []string{"file:" + begun, "join", "file:" + marker, "remove:" + begun}, true, "", 0},
		"a join of ours that left nothing":                           {leftover(begun), "", []string{"file:" + begun, "join", "file:" + marker, "remove:" + begun}, false, "", 0},
		"a half join that isn't ours":                                {leftover(bootstrap), "", nil, false, "which nodeagent did not begin, has left " + bootstrap, fail.Safety},
		"a CA certificate that isn't ours":                           {leftover("/etc/kubernetes/pki/ca.crt"), "", nil, false, "has left /etc/kubernetes/pki/ca.crt", fail.Safety},
		"leftovers that kubeadm overwrites":                          {leftover("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env"), "", []string{"file:" + begun, "join", "file:" + marker, "remove:" + begun}, false, "", 0},
		"a success marker of an earlier life goes before a new join": {leftover(marker), "", []string{"remove:" + marker, "file:" + begun, "join", "file:" + marker, "remove:" + begun}, false, "", 0},
	} {
		t.Run(title, func(t *testing.T) {
			w := document(world(), line)
			c.set(w)
			p := plan(t, w, minimal(t, c.fields))
			if c.blocked != "" {
				require.Len(t, p.Blocked, 1)
				require.ErrorContains(t, p.Blocked[0], c.blocked)
				require.Equal(t, c.kind, fail.KindOf(p.Blocked[0]))
				require.NotEmpty(t, fail.HintOf(p.Blocked[0]))
				return
			}
			require.Empty(t, p.Blocked)
			require.Equal(t, c.want, ids(p))
			for _, ch := range p.Changes {
				if j, ok := ch.(change.Join); ok {
					require.Equal(t, c.resume, j.Resume)
				}
			}
		})
	}
}

func TestTheTokenIsFetchedOnlyByAHostThatNeedsItAndAGoodDocument(t *testing.T) {
	for name, c := range map[string]struct {
		doc, mode string
		hooks     bool
		joined    bool
		want      int
		blocked   string
		warning   string
	}{
		"good":                            {line, "0600", false, false, 1, "", ""},
		"joined":                          {"", "", false, true, 0, "", ""},
		"not there":                       {"", "", false, false, 0, "/etc/nodeagent/join-command does not exist", ""},
		"not there, a hook may bring it":  {"", "", true, false, 1, "", "does not exist"},
		"unreadable":                      {"hello", "0600", false, false, 0, "not a bootstrap token", ""},
		"for a control plane":             {strings.TrimSpace(line) + " --control-plane", "0600", false, false, 0, "workers only", ""},
		"expired":                         {"{token: abcdef." + secret + ", expiration: '2026-02-28T00:00:00Z'}", "0600", false, false, 0, "expired on 2026-02-28T00:00:00Z", ""},
		"readable by everybody":           {line, "0644", false, false, 1, "", "chmod 600"},
		"with what configuration decides": {strings.TrimSpace(line) + " --node-name x", "0600", false, false, 1, "", "--node-name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world()
			delete(w.Files, "/etc/nodeagent/join-command")
			if c.doc != "" {
				w.Files["/etc/nodeagent/join-command"] = hosttest.File{Content: c.doc, Mode: c.mode}
			}
			w.NodeObject.Joined = c.joined
			s := minimal(t, "")
			if c.hooks {
				s.Hooks.PreJoin = []string{"fetch"}
			}
			f, err := credential.Observe(context.Background(), w, s)
			require.NoError(t, err)
			b, err := json.Marshal(f)
			require.NoError(t, err)
			require.NotContains(t, string(b), secret)
			p := credential.Plan(s, f)
			require.Len(t, p.Changes, c.want)
			if c.blocked != "" {
				require.Len(t, p.Blocked, 1)
				require.ErrorContains(t, p.Blocked[0], c.blocked)
				require.NotContains(t, p.Blocked[0].Error(), secret)
			} else {
				require.Empty(t, p.Blocked)
			}
			require.Contains(t, strings.Join(p.Warnings, "\n"), c.warning)
			if c.warning == "" {
				require.Empty(t, p.Warnings)
			}
		})
	}
}

func TestAnInlineTokenIsInNoEncodingOfItsChange(t *testing.T) {
	s := minimal(t, "")
	s.Join.Token = config.Token{Command: line}
	f, err := credential.Observe(context.Background(), world(), s)
	require.NoError(t, err)
	p := credential.Plan(s, f)
	require.Len(t, p.Changes, 1)
	require.Equal(t, line, p.Changes[0].(change.FetchToken).Inline)
	b, err := change.Encode(p.Changes[0])
	require.NoError(t, err)
	require.NotContains(t, string(b), secret)
}

func TestHooksRunOncePerHostAndTextAndNotBeforeAJoinThatIsDone(t *testing.T) {
	s := minimal(t, "")
	s.Hooks = config.Hooks{PreJoin: []string{"a", "b", "a"}, PostJoin: []string{"a"}}
	w := world()
	pre := func() change.Plan {
		f, err := hooks.ObservePre(context.Background(), w, s)
		require.NoError(t, err)
		return hooks.PlanPre(s, f)
	}
	post := func() change.Plan {
		f, err := hooks.ObservePost(context.Background(), w, s)
		require.NoError(t, err)
		return hooks.PlanPost(s, f)
	}
	first := pre()
	require.Len(t, first.Changes, 3)
	require.Len(t, map[string]bool{ids(first)[0]: true, ids(first)[1]: true, ids(first)[2]: true, ids(post())[0]: true}, 4, "each has a marker of its own")
	for _, c := range first.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
	require.Empty(t, pre().Changes)
	s.Hooks.PreJoin = []string{"b", "a", "c"}
	require.Len(t, pre().Changes, 1, "only the new one")
	w.NodeObject.Joined = true
	require.Empty(t, pre().Changes)
	require.Len(t, post().Changes, 1)
}

func TestReadinessIsAwaitedUnlessItIsThereOrNotWanted(t *testing.T) {
	for name, c := range map[string]struct {
		node    host.Node
		wait    string
		want    int
		warning string
	}{
		"not joined yet":          {host.Node{}, "", 1, ""},
		"joined, not Ready":       {host.Node{Joined: true, Reached: true, Unmet: "x", Name: "prdk8snod001"}, "", 1, ""},
		"joined, not reached":     {host.Node{Joined: true, Problem: "x"}, "", 1, ""},
		"Ready":                   {host.Node{Joined: true, Reached: true, Ready: true, Labels: map[string]string{"type": "physical"}}, "", 0, ""},
		"Ready without its label": {host.Node{Joined: true, Reached: true, Ready: true, Name: "n1", Labels: map[string]string{"type": "other"}}, "", 0, "kubectl label --overwrite node n1 type=physical"},
		"nobody wants to wait":    {host.Node{}, ", waitReady: 0", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := world()
			w.NodeObject = c.node
			s := minimal(t, c.wait)
			s.Kubelet.Labels = map[string]string{"type": "physical"}
			f, err := ready.Observe(context.Background(), w, s)
			require.NoError(t, err)
			p := ready.Plan(s, f)
			require.Len(t, p.Changes, c.want)
			require.Contains(t, strings.Join(p.Warnings, "\n"), c.warning)
			if c.warning == "" {
				require.Empty(t, p.Warnings)
			}
			for _, ch := range p.Changes {
				require.Equal(t, change.WaitReady{NodeName: "prdk8snod001", Timeout: 10 * time.Minute}, ch)
			}
		})
	}
}
