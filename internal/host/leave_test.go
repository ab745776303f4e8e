package host

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// inNamespaces runs the calling test once more in a mount and network namespace
// of its own, and tells whether this is that run.
func inNamespaces(t *testing.T) bool {
	t.Helper()
	const env = "NODEAGENT_TEST_NAMESPACES"
	if os.Getenv(env) != "" {
		require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("mounts and changes rules in namespaces of its own, which needs root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Log(string(out))
	require.Contains(t, string(out), "--- PASS")
	return false
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		out = append(out, strings.TrimPrefix(p, dir))
		return err
	}))
	sort.Strings(out)
	return out
}

func TestNothingIsDeletedAcrossAMountOrALink(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	dir := t.TempDir()
	precious, state := filepath.Join(dir, "precious"), filepath.Join(dir, "kubelet", "pods")
	put(t, filepath.Join(precious, "etc", "passwd"), "the only copy")
	put(t, filepath.Join(state, "0a1b", "volumes", "empty", "file"), "x")
	put(t, filepath.Join(dir, "kubelet", "mine"), "the administrator's")
	require.NoError(t, os.Symlink(precious, filepath.Join(state, "link")))
	bind := filepath.Join(state, "0a1b", "bind")
	require.NoError(t, os.Mkdir(bind, 0o755))
	require.NoError(t, unix.Mount(precious, bind, "", unix.MS_BIND, ""))
	before := list(t, state)
	ctx, l := t.Context(), New()
	remove := change.RemoveState{Paths: []string{state}}

	err := l.Apply(ctx, remove, nil)
	require.Equal(t, fail.Safety, fail.KindOf(err), "%v", err)
	require.ErrorContains(t, err, bind)
	require.Equal(t, before, list(t, state), "refused before anything is removed")

	// Even if nobody had looked before, the kernel stops at the mount.
	require.Equal(t, fail.Safety, fail.KindOf(removeTree(state)))
	require.Equal(t, []string{"", "/etc", "/etc/passwd"}, list(t, precious))

	require.NoError(t, l.Apply(ctx, change.UnmountVolumes{Targets: []string{bind}}, nil))
	require.NoError(t, l.Apply(ctx, change.UnmountVolumes{Targets: []string{bind}}, nil), "what is unmounted already is fine")
	require.NoError(t, l.Apply(ctx, remove, nil))
	require.NoError(t, l.Apply(ctx, remove, nil), "what is gone already is fine")
	require.Equal(t, []string{"", "/mine"}, list(t, filepath.Join(dir, "kubelet")))
	require.Equal(t, []string{"", "/etc", "/etc/passwd"}, list(t, precious), "what the bind mount and the link led to is whole")
}

func TestWhatBelongsToAClusterIsRemovedByNameAndTheRestStays(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for _, p := range []string{"iptables", "nft", "ip"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s here", p)
		}
	}
	run := func(script string) string {
		out, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
		return string(out)
	}
	show := func() string {
		return run(`iptables-nft-save | grep -v '^#' | sed 's/\[[0-9:]*\]//'; nft --stateless list table ip mine; ip -o link show | cut -d: -f2`)
	}
	ctx, l := t.Context(), New()
	run(`iptables -N KUBE-OLD; iptables -A FORWARD -m comment --comment "somebody's" -j KUBE-OLD
iptables -A INPUT -p tcp --dport 22 -j ACCEPT
iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE
nft add table ip mine; nft add chain ip mine c`)
	prior, err := l.ClusterNetwork(ctx)
	require.NoError(t, err)
	require.Equal(t, ClusterNetwork{Chains: []string{"nft ipv4 filter KUBE-OLD"}}, prior)
	before := show()
	run(`iptables -t nat -N KUBE-SERVICES; iptables -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
iptables -t nat -N KUBE-MARK-MASQ; iptables -t nat -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 443 -j KUBE-MARK-MASQ
iptables -t mangle -N KUBE-KUBELET-CANARY
iptables -N KUBE-FIREWALL; iptables -I INPUT -j KUBE-FIREWALL
ip6tables -t nat -N CNI-abc || true
nft add table ip kube-proxy; nft add chain ip kube-proxy services
ip link add cni0 type bridge`)
	l.forget()
	now, err := l.ClusterNetwork(ctx)
	require.NoError(t, err)
	after := now.Without(prior)
	t.Log(after)
	require.Subset(t, after.Chains, []string{"nft ipv4 nat KUBE-SERVICES", "nft ipv4 nat KUBE-MARK-MASQ", "nft ipv4 mangle KUBE-KUBELET-CANARY", "nft ipv4 filter KUBE-FIREWALL"})
	require.Equal(t, []string{"ip kube-proxy"}, after.Tables)
	require.Equal(t, []string{"cni0"}, after.Links)

	require.NoError(t, l.Apply(ctx, change.CleanNetwork(after), nil))
	require.NoError(t, l.Apply(ctx, change.CleanNetwork(after), nil), "what is gone already is fine")
	left, err := l.ClusterNetwork(ctx)
	require.NoError(t, err)
	require.Equal(t, prior, left)
	// A table that was made for the first time stays, empty.
	require.Equal(t, strings.Fields(before), strings.Fields(strings.NewReplacer("*mangle", "").Replace(dropEmptyTable(show(), "mangle"))))
}

// dropEmptyTable leaves a table without rules out of a save.
func dropEmptyTable(text, table string) string {
	var out strings.Builder
	in := false
	for line := range strings.Lines(text) {
		switch {
		case strings.TrimSpace(line) == "*"+table:
			in = true
		case in && strings.HasPrefix(line, "COMMIT"):
			in = false
		case in && strings.HasPrefix(line, ":"):
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestVirtualServicesAreReadFromTheKernelsTable(t *testing.T) {
	const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> C0000201:192B      Masq    1      0          0
UDP  [2001:0db8:0000:0000:0000:0000:0000:000a]:0035 rr
FWM  00000001 rr
TCP  0A6000:01BB rr
`
	var got []string
	for _, s := range parseIPVS(table) {
		got = append(got, s.String())
	}
	require.Equal(t, []string{"TCP 10.96.0.1:443", "UDP [2001:db8::a]:53"}, got)
}

func FuzzParseIPVS(f *testing.F) {
	f.Add("TCP  0A600001:01BB rr\nUDP  [2001:0db8::a]:0035 rr\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseIPVS(text) {
			if !s.at.IsValid() {
				t.Fatal(s)
			}
		}
	})
}

// sandbox is a PodSandbox of the CRI on the wire.
func sandbox(id, namespace, name string) []byte {
	str := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	meta := append(str(1, name), str(3, namespace)...)
	meta = protowire.AppendVarint(protowire.AppendTag(meta, 4, protowire.VarintType), 1)
	pod := append(str(1, id), protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), meta)...)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), pod)
}

func TestPodsAreListedStoppedAndRemovedThroughTheCRI(t *testing.T) {
	pods := map[string][]byte{"1": sandbox("1", "kube-system", "proxy"), "2": sandbox("2", "default", "web")}
	stopped := map[string]bool{}
	var calls []string
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		var answer []byte
		id := ""
		_ = fields(body[5:], func(n protowire.Number, v []byte) error { id = string(v); return nil })
		switch method := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; method {
		case "ListPodSandbox":
			answer = append(append(answer, pods["1"]...), pods["2"]...)
		case "StopPodSandbox":
			stopped[id] = true
			calls = append(calls, method+id)
		case "RemovePodSandbox":
			if stopped[id] {
				delete(pods, id)
			}
			calls = append(calls, method+id)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Write(frame(answer))
		w.Header().Set("Grpc-Status", "0")
	})
	l := New()
	got, err := l.Pods(t.Context(), socket)
	require.NoError(t, err)
	require.Equal(t, []string{"default/web", "kube-system/proxy"}, got)
	require.NoError(t, l.Apply(t.Context(), change.StopPods{Socket: socket, Pods: got}, nil))
	require.Equal(t, []string{"StopPodSandbox1", "RemovePodSandbox1", "StopPodSandbox2", "RemovePodSandbox2"}, calls)
	got, err = l.Pods(t.Context(), socket)
	require.NoError(t, err)
	require.Empty(t, got)
}

func FuzzParsePods(f *testing.F) {
	f.Add(frame(append(sandbox("1", "kube-system", "proxy"), sandbox("2", "default", "web")...)))
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		pods, err := parsePods(b)
		for _, p := range pods {
			if err == nil && p.id == "" {
				t.Fatal("a pod has an id")
			}
		}
	})
}

func TestASecretFileIsPutBackFromItsCopyAndTheCopyGoes(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	// The copies lie in a fixed place: here in a tmpfs of this namespace.
	require.NoError(t, unix.Mount("none", "/var/lib", "tmpfs", 0, ""))
	ctx, l := t.Context(), New()
	path := filepath.Join(t.TempDir(), "secret")
	put(t, path, "before")
	for _, content := range []string{"ours", "ours, too"} {
		require.NoError(t, l.Apply(ctx, change.WriteFile{Path: path, Mode: "0600", Owner: "root:root", Content: content, Secret: true}, nil))
	}
	info, err := l.Stat(change.KeepsakePath(path))
	require.NoError(t, err)
	require.Equal(t, "0600 root:root", fmt.Sprintf("%04o %s", info.Mode, info.Owner))
	require.NoError(t, l.Apply(ctx, change.RestoreFile{Path: path}, nil))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before", string(b))
	require.NoDirExists(t, change.SavedDirectory)
}
