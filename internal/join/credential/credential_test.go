package credential_test

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
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/join"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/mint"
)

const (
	line   = "kubeadm join 192.0.2.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:0000000000000000000000000000000000000000000000000000000000000000"
	minter = "/etc/nodeagent/minter.conf"
	server = "https: {url: 'https://t.example/join?serial={{ .Serial }}&k=h1dd3n', caFile: /etc/ca.pem, bearerTokenFile: /etc/bearer, headers: {X-Key: h1dd3n}}"
)

func load(t *testing.T, token, more string) config.Spec {
	t.Helper()
	doc := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {" + token + "}}\n" + more
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(doc)}}, config.Identity{Hostname: "prdk8snod001"})
	require.NoError(t, err)
	return c.Spec
}

// plan is the step's plan, from facts that were written and read again.
func plan(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	t.Helper()
	f, err := credential.Observe(context.Background(), w, s)
	require.NoError(t, err)
	b, err := json.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(b), "h1dd3n")
	require.NotContains(t, string(b), "0123456789abcdef")
	require.NotContains(t, string(b), hosttest.AdminSecret)
	var again credential.Facts
	require.NoError(t, json.Unmarshal(b, &again))
	return credential.Plan(s, again)
}

func TestEachSourceSaysWhatItLacksBeforeAnythingIsDone(t *testing.T) {
	given := func(files ...string) func(*hosttest.World) {
		return func(w *hosttest.World) {
			for _, f := range files {
				path, mode, _ := strings.Cut(f, " ")
				if mode == "" {
					mode = "0600"
				}
				w.Files[path] = hosttest.File{Content: "x\n", Mode: mode}
			}
		}
	}
	kubeconfig := func(change func(string) string) func(*hosttest.World) {
		return func(w *hosttest.World) {
			w.GiveKubeconfig(minter)
			f := w.Files[minter]
			f.Content = change(f.Content)
			w.Files[minter] = f
		}
	}
	for name, c := range map[string]struct {
		token, more string
		set         func(*hosttest.World)
		summary     string // of the fetch
		blocked     string
		hint        string
		warning     string
	}{
		"a server": {token: server, set: given("/etc/ca.pem 0644", "/etc/bearer"), summary: "fetch the join token from https://t.example/join (with k, serial)"},
		"a server, the bearer token for everybody": {token: server, set: given("/etc/ca.pem 0644", "/etc/bearer 0644"), summary: "fetch the join token from https://t.example/join (with k, serial)",
			warning: "/etc/bearer (mode 0644) can be read by every user of this host"},
		"a server, no bearer token":  {token: server, set: given("/etc/ca.pem"), blocked: "spec.join.token.https needs /etc/bearer, which does not exist", hint: "put it there"},
		"a server, a hook brings it": {token: server, more: "  hooks: {preJoin: [fetch]}\n", set: given("/etc/ca.pem"), summary: "fetch", warning: "needs /etc/bearer"},
		"a server, a file brings it": {token: server, more: "  files: [{path: /etc/bearer, content: x, permissions: \"0600\"}]\n", set: given("/etc/ca.pem"), summary: "fetch", warning: "needs /etc/bearer"},
		"a host without a serial":    {token: server, set: func(w *hosttest.World) { given("/etc/ca.pem", "/etc/bearer")(w); w.Sys.Serial = "" }, blocked: "uses {{ .Serial }}, and this host has none", hint: "another field"},
		"a host without a card":      {token: "https: {url: 'https://t.example/', headers: {X: '{{ .MAC }}'}}", set: func(w *hosttest.World) { w.Net.MACs = nil }, blocked: "uses {{ .MAC }}", hint: "another field"},
		"a kubeconfig":               {token: "kubeconfig: {file: " + minter + "}", set: kubeconfig(func(s string) string { return s }), summary: "make a join token that lives 20m0s, with " + minter},
		"a kubeconfig for everybody": {token: "kubeconfig: {file: " + minter + "}", set: func(w *hosttest.World) {
			w.GiveKubeconfig(minter)
			f := w.Files[minter]
			f.Mode = "0604"
			w.Files[minter] = f
		}, summary: "make", warning: "chmod 600 " + minter},
		"no kubeconfig":               {token: "kubeconfig: {file: " + minter + "}", blocked: "spec.join.token.kubeconfig needs " + minter, hint: "root only"},
		"a kubeconfig with a program": {token: "kubeconfig: {file: " + minter + "}", set: kubeconfig(func(s string) string { return strings.Replace(s, "{token: ", "{exec: {command: x}, token: ", 1) }), blocked: "authenticates with a program (exec)", hint: "no program is run"},
		"a kubeconfig without a CA":   {token: "kubeconfig: {file: " + minter + "}", set: kubeconfig(func(s string) string { return strings.Replace(s, "certificate-authority-data", "x", 1) }), blocked: "has no CA", hint: "admin.conf"},
		"something else":              {token: "kubeconfig: {file: " + minter + "}", set: given(minter), blocked: "is not a kubeconfig", hint: "kubectl"},
		"a credential": {token: "credential: join", set: func(w *hosttest.World) {
			w.Files["/run/credentials/@system/join"] = hosttest.File{Content: line, Mode: "0400"}
		}, summary: "read the join token from the systemd credential join"},
		"no credential": {token: "credential: join", blocked: "there is no systemd credential join: /run/credentials/@system/join does not exist", hint: "LoadCredential=join"},
		"a credential of nonsense": {token: "credential: join", set: func(w *hosttest.World) {
			w.Files["/run/credentials/@system/join"] = hosttest.File{Content: "h1dd3n", Mode: "0400"}
		}, blocked: "not a bootstrap token", hint: "kubeadm token create"},
		"guestinfo":                  {token: "guestinfo: nodeagent.token", set: given("/usr/bin/vmware-rpctool 0755"), summary: "read the join token from guestinfo.nodeagent.token"},
		"guestinfo without the tool": {token: "guestinfo: nodeagent.token", blocked: "vmware-rpctool is not on this host", hint: "open-vm-tools"},
		"guestinfo, the tool comes":  {token: "guestinfo: nodeagent.token", more: "  packages: {install: [open-vm-tools]}\n", summary: "read", warning: "vmware-rpctool is not on this host"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			if c.set != nil {
				c.set(w)
			}
			p := plan(t, w, load(t, c.token, c.more))
			if c.blocked != "" {
				require.Len(t, p.Blocked, 1)
				require.ErrorContains(t, p.Blocked[0], c.blocked)
				require.Contains(t, fail.HintOf(p.Blocked[0]), c.hint)
				require.Empty(t, p.Changes)
				return
			}
			require.Empty(t, p.Blocked)
			require.Len(t, p.Changes, 1)
			require.Contains(t, p.Changes[0].Summary(), c.summary)
			b, err := change.Encode(p.Changes[0])
			require.NoError(t, err)
			require.NotContains(t, string(b), "h1dd3n")
			require.Contains(t, strings.Join(p.Warnings, "\n"), c.warning)
			if c.warning == "" {
				require.Empty(t, p.Warnings)
			}
		})
	}
}

func TestWhatAServerIsAskedIsInTheChangeAndInNoEncodingOfIt(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/ca.pem"], w.Files["/etc/bearer"] = hosttest.File{Mode: "0600"}, hosttest.File{Mode: "0600"}
	c := plan(t, w, load(t, server, "")).Changes[0].(change.FetchToken)
	require.Equal(t, &change.TokenServer{URL: "https://t.example/join", CAFile: "/etc/ca.pem", BearerTokenFile: "/etc/bearer",
		Headers: map[string]string{"X-Key": "h1dd3n"}, Query: map[string][]string{"serial": {"{{ .Serial }}"}, "k": {"h1dd3n"}}}, c.HTTPS)
}

// With a kubeconfig the plan of the join knows the cluster; with a server it
// doesn't, and that is no reason to refuse.
func TestThePlanOfTheJoinKnowsWhatTheSourceTellsBeforehand(t *testing.T) {
	joins := func(w *hosttest.World, s config.Spec) (change.Plan, change.Join) {
		f, err := join.Observe(context.Background(), w, s)
		require.NoError(t, err)
		p := join.Plan(s, f)
		for _, c := range p.Changes {
			if j, ok := c.(change.Join); ok {
				return p, j
			}
		}
		return p, change.Join{}
	}
	w := hosttest.Rocky9()
	w.GiveKubeconfig(minter)
	p, j := joins(w, load(t, "kubeconfig: {file: "+minter+"}", ""))
	require.Empty(t, p.Blocked)
	require.Equal(t, "192.0.2.1:6443", j.Endpoint)
	require.Equal(t, change.DropToken{Kubeconfig: minter}, p.Changes[len(p.Changes)-1])
	p, j = joins(w, load(t, server, ""))
	require.Empty(t, p.Blocked)
	require.Equal(t, "join the cluster as node prdk8snod001", j.Summary())
	p, _ = joins(w, load(t, "guestinfo: k", ""))
	require.Equal(t, change.DropToken{GuestInfo: "k"}, p.Changes[len(p.Changes)-1])
	// A host that has joined another cluster than the kubeconfig's is told so.
	w.NodeObject.Joined, w.NodeObject.CAHash, w.NodeObject.Name = true, "sha256:1", "prdk8snod001"
	p, _ = joins(w, load(t, "kubeconfig: {file: "+minter+"}", ""))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "joined another cluster")
}

func TestWhatATokenOfAnEarlierRunHasLeftIsTakenAway(t *testing.T) {
	now := hosttest.Rocky9().Sys.Now
	ours := mint.Record{Kubeconfig: minter, TokenID: "abcdef", Expires: now.Add(time.Minute)}
	ended := ours
	ended.Expires = now
	for name, c := range map[string]struct {
		record     string
		joined     bool
		kubeconfig bool
		want       []string
		warning    string
	}{
		"nothing":                           {"", false, true, []string{"token"}, ""},
		"nothing, joined":                   {"", true, true, nil, ""},
		"a token on the cluster":            {string(ours.Encode()), false, true, []string{"token-drop", "token"}, ""},
		"a token on the cluster, joined":    {string(ours.Encode()), true, true, []string{"token-drop"}, ""},
		"one that has ended":                {string(ended.Encode()), true, true, []string{"remove:" + mint.RecordPath}, ""},
		"the kubeconfig is gone":            {string(ours.Encode()), true, false, []string{"remove:" + mint.RecordPath}, "can't be deleted, since that file is gone; it ends by itself at 2026-03-01T12:01:00Z"},
		"a torn record":                     {"{", true, true, []string{"remove:" + mint.RecordPath}, "can't be read"},
		"a token in guestinfo":              {string(mint.Record{GuestInfo: "k"}.Encode()), false, true, []string{"token"}, ""},
		"a used token in guestinfo, joined": {string(mint.Record{GuestInfo: "k"}.Encode()), true, true, []string{"token-drop"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			w.NodeObject.Joined = c.joined
			if c.kubeconfig {
				w.GiveKubeconfig(minter)
			}
			if c.record != "" {
				w.Files[mint.RecordPath] = hosttest.File{Content: c.record, Mode: "0600"}
			}
			p := plan(t, w, load(t, "kubeconfig: {file: "+minter+"}", ""))
			require.Empty(t, p.Blocked)
			var ids []string
			for _, ch := range p.Changes {
				ids = append(ids, ch.ID())
			}
			require.Equal(t, c.want, ids)
			require.Contains(t, strings.Join(p.Warnings, "\n"), c.warning)
		})
	}
}
