package vm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// render runs the shipped binary's render on a configuration, with the token as
// a file of its own, as docs/boot.md says.
func render(t *testing.T, config, join string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "worker.yaml")
	check(t, os.WriteFile(file, []byte(config), 0o600))
	if join != "" {
		token := filepath.Join(dir, "join-command")
		check(t, os.WriteFile(token, []byte(join), 0o600))
		args = append(args, "--with-secrets", "--secret", lab.TokenFile+"="+token)
	}
	cmd := exec.CommandContext(t.Context(), binary(t), slices.Concat([]string{"render"}, args, []string{"--config", file})...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render %s: %v: %s", args, err, &errs)
	}
	t.Logf("render %s: %d bytes; %s", args[0], len(out), strings.TrimSpace(errs.String()))
	return out
}

// bare is a stock guest with two blank disks, on which nothing of nodeagent is.
func bare(t *testing.T, l *lab.Lab, name string) *lab.Guest {
	t.Helper()
	g := newGuest(t, l, lab.Rocky9Boot, name)
	for range 2 {
		must(g.AddDisk(20, ""))(t)
	}
	g.Seed(lab.CNIConfig)
	return g
}

// settled is what holds on every host whose first boot went well: its last run
// converged, another one changes nothing, the token is nowhere.
func settled(t *testing.T, g *lab.Guest, secret string, rootOnly ...string) {
	t.Helper()
	ctx := t.Context()
	check(t, g.WaitSSH(ctx, 2*time.Minute))
	check(t, lab.WaitFor(ctx, "the unit to be done", 2*time.Minute, func(ctx context.Context) error {
		_, err := g.Run(ctx, "systemctl is-active nodeagent.service")
		return err
	}))
	if last := lastRunOf(t, g); last.Result != "converged" || last.Changes == 0 {
		t.Errorf("the first boot's run: %+v", last)
	}
	if out := must(g.Run(ctx, "systemctl is-enabled nodeagent.service; nodeagent status"))(t); !strings.Contains(out, "enabled") {
		t.Error(out)
	}
	if out, code := up(t, g, ""); code != converged || lastRunOf(t, g).Changes != 0 {
		t.Errorf("another run: exit %d: %s", code, out)
	}
	if secret != "" {
		checkNoToken(t, g, secret, rootOnly...)
	}
}

// TestCloudInitFromPowerOn gives a bare host rendered user-data on a NoCloud
// medium, and real cloud-init does the rest.
func TestCloudInitFromPowerOn(t *testing.T) {
	l := needLab(t)
	const name = "cloud1"
	g := bare(t, l, name)
	join := must(l.JoinCommand(t.Context(), 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}.String()
	check(t, g.AddNoCloud(t.Context(), render(t, config, join, "cloud-init")))
	powerOnToReady(t, l, g)
	// cloud-init keeps the user-data it was given, for root alone.
	settled(t, g, tokenSecret(t, join), "/var/lib/cloud/", "/run/cloud-init/")
	checkMounts(t, g, twoXFS)
	out := must(g.Run(t.Context(), "cloud-init status --wait; cloud-init status --long"))(t)
	t.Log(out)
	if !strings.Contains(out, "status: done") {
		t.Errorf("cloud-init says %s", out)
	}
}

// TestIgnitionFromPowerOn gives a bare host a rendered Ignition config, which
// the real Ignition applies in the initrd.
func TestIgnitionFromPowerOn(t *testing.T) {
	l := needLab(t)
	const name = "ignition1"
	g := bare(t, l, name)
	join := must(l.JoinCommand(t.Context(), 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}.String()
	g.Seed(lab.File{Path: "/etc/lab/config.ign", Mode: 0o600, Content: string(render(t, config, join, "ignition"))})
	powerOnToReady(t, l, g)
	settled(t, g, tokenSecret(t, join), "/etc/lab/config.ign", "/run/ignition.json")
	checkMounts(t, g, twoXFS)
}

// role is one of the machines of a fleet.
type role struct {
	name  string
	disks int
	spec  string // YAML below spec
	guest *lab.Guest
}

// TestAFleetBootsFromTheNetwork lets three machines with three roles boot over
// iPXE: kernel and initrd over HTTP, one fleet document whose digest is on the
// kernel's command line, the token from a server of its own.
func TestAFleetBootsFromTheNetwork(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	document := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	tokens := newTokenServer(document, 0)
	tokens.Close() // of the one on the loopback address only the handler is used
	listener := must(net.Listen("tcp", "192.0.2.1:8443"))(t)
	server := httptest.NewUnstartedServer(tokens)
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	pin := sha256.Sum256(server.Certificate().RawSubjectPublicKeyInfo)

	roles := []*role{
		{name: "pxe-worker", disks: 2, spec: "  kubelet: {labels: {role: worker}}\n"},
		{name: "pxe-storage", disks: 1, spec: `  kubelet:
    labels: {role: storage}
    taints: [{key: dedicated, value: storage, effect: NoSchedule}]
  disks:
  - name: kubelet
    select: {blank: {minSize: 15GiB}}
    filesystem: {type: ext4, label: kubelet}
    mountPath: /var/lib/kubelet
`},
		{name: "pxe-edge", spec: "  kubelet: {labels: {role: edge}}\n  disks: []\n"},
	}
	all := lab.NodeConfig{HostName: "none", Addr: "192.0.2.9", TokenFile: lab.TokenFile}.String()
	all = strings.Replace(all, "  hostname: none\n", "", 1)
	all = strings.Replace(all, "    extraArgs:\n    - {name: node-ip, value: 192.0.2.9}\n    labels: {type: physical}\n    taints:\n    - {key: dedicated, value: lab, effect: NoSchedule}\n", "", 1)
	all = strings.Replace(all, "token: {file: "+lab.TokenFile+"}",
		fmt.Sprintf(`token: {https: {url: "https://192.0.2.1:8443/token", pins: ["sha256:%s"], query: {host: "{{ .Hostname }}"}}}`, hex.EncodeToString(pin[:])), 1)
	fleet := all
	for _, r := range roles {
		r.guest = newGuest(t, l, lab.Rocky9Boot, r.name)
		r.guest.HostName, r.guest.NetBoot = "localhost", true
		for range r.disks {
			must(r.guest.AddDisk(20, ""))(t)
		}
		r.guest.Seed(lab.CNIConfig, lab.File{Path: lab.Binary, Mode: 0o755, From: binary(t)})
		r.guest.Seed(firstBootUnit(t)...)
		fleet += fmt.Sprintf("---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {name: %[1]s, match: {mac: [\"%[2]s\"]}}\nspec:\n  hostname: %[1]s\n%[3]s",
			r.name, strings.ToUpper(r.guest.MAC()), r.spec)
	}
	vmlinuz, initrd := l.KernelFiles()
	file := func(path string) string {
		return l.Publish("/pxe/"+filepath.Base(path), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	}
	text := func(path string, b []byte) string {
		return l.Publish(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }))
	}
	script := render(t, fleet, "", "ipxe", "--config-url", text("/pxe/fleet.yaml", []byte(fleet)),
		"--kernel", file(vmlinuz), "--initrd", file(initrd), "--append", roles[0].guest.KernelArguments())
	t.Logf("%s", script)
	text(lab.BootScript, script)

	start := time.Now()
	for _, r := range roles {
		check(t, r.guest.Boot(ctx))
	}
	for _, r := range roles {
		if err := lab.WaitFor(ctx, r.name+" to be Ready", 15*time.Minute, func(ctx context.Context) error {
			n, err := nodeOf(ctx, l, r.name)
			if err == nil && !n.ready() {
				err = errors.New("not Ready")
			}
			return err
		}); err != nil {
			out, _ := r.guest.Run(ctx, "journalctl --no-pager --unit nodeagent.service")
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s is Ready %.1f s after power-on", r.name, time.Since(start).Seconds())
	}
	for _, r := range roles {
		n := must(nodeOf(ctx, l, r.name))(t)
		if want := strings.TrimPrefix(r.name, "pxe-"); n.Metadata.Labels["role"] != want {
			t.Errorf("%s has the labels %v", r.name, n.Metadata.Labels)
		}
		settled(t, r.guest, tokenSecret(t, document))
		if tokens.served[r.name] != 1 {
			t.Errorf("%s was given %d tokens", r.name, tokens.served[r.name])
		}
	}
	checkMounts(t, roles[0].guest, twoXFS)
	checkMounts(t, roles[1].guest, map[string]string{"/var/lib/kubelet": "ext4 kubelet"})
	if n := must(nodeOf(ctx, l, roles[1].name))(t); !strings.Contains(fmt.Sprint(n.Spec.Taints), "{dedicated storage NoSchedule}") {
		t.Errorf("the taints of %s: %v", roles[1].name, n.Spec.Taints)
	}
}
