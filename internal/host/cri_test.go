package host

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"nodeagent/internal/fail"
)

// serve answers on a unix socket in unencrypted HTTP/2, as a gRPC server does.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cri.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	p.SetHTTP1(true)
	s := &http.Server{Handler: h, Protocols: &p}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return "unix://" + path
}

func TestCRITellsNameAndVersionOfTheRuntime(t *testing.T) {
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || r.URL.Path != "/runtime.v1.RuntimeService/Version" || len(body) != 5+7 || r.Header.Get("TE") != "trailers" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		var b []byte
		for i, s := range []string{"0.1.0", "containerd", "v2.2.9", "v1"} {
			b = protowire.AppendString(protowire.AppendTag(b, protowire.Number(i+1), protowire.BytesType), s)
		}
		w.Write(frame(b))
		w.Header().Set("Grpc-Status", "0")
	})
	v, err := New().CRI(t.Context(), socket)
	require.NoError(t, err)
	require.Equal(t, RuntimeVersion{Name: "containerd", Version: "2.2.9"}, v)
}

func TestCRISaysWhyNoRuntimeAnswers(t *testing.T) {
	status := func(code, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", code)
			w.Header().Set("Grpc-Message", message)
		}
	}
	dead := filepath.Join(t.TempDir(), "dead.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	ln.Close()
	for name, c := range map[string]struct{ socket, want, hint string }{
		"no socket":    {"unix:///nowhere/x.sock", "no runtime has a socket at /nowhere/x.sock", "start the runtime"},
		"a dead one":   {"unix://" + dead, "nothing listens on", "journalctl"},
		"CRI off":      {serve(t, status("12", "unknown service runtime.v1.RuntimeService")), "its CRI service is off: unknown service runtime.v1.RuntimeService", "disabled_plugins"},
		"not ready":    {serve(t, status("14", "not%20yet")), "is not ready: not yet", "journalctl"},
		"no gRPC":      {serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hi") }), "is no CRI runtime", "spec.runtime.socket"},
		"another code": {serve(t, status("13", "broken")), "gRPC status 13: broken", "journalctl"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New().CRI(t.Context(), c.socket)
			require.ErrorContains(t, err, c.want)
			require.Contains(t, fail.HintOf(err), c.hint)
		})
	}
}

// containerd starts a real one, with its own root, state and socket.
func containerd(t *testing.T, config string) string {
	t.Helper()
	path, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("containerd is not in PATH: the real runtime isn't asked")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	socket := filepath.Join(dir, "c.sock")
	cmd := exec.Command(path, "--config", file, "--root", filepath.Join(dir, "root"), "--state", filepath.Join(dir, "state"), "--address", socket)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("%s", b)
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	return "unix://" + socket
}

func TestCRIOfARealContainerdAnswers(t *testing.T) {
	socket := containerd(t, "version = 3\n")
	require.Eventually(t, func() bool {
		v, err := New().CRI(context.Background(), socket)
		return err == nil && v.Name == "containerd" && parseVersion(v.Version) != ""
	}, 10*time.Second, 100*time.Millisecond)
}

func TestK1CRISwitchedOffInARealContainerdIsSaidToBeOff(t *testing.T) {
	socket := containerd(t, "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n")
	_, err := New().CRI(t.Context(), socket)
	require.ErrorContains(t, err, "its CRI service is off")
}

func FuzzVersionResponsesNeverPanic(f *testing.F) {
	f.Add(frame([]byte{0x12, 1, 'x'}))
	f.Fuzz(func(t *testing.T, b []byte) { parseVersionResponse(b) })
}
