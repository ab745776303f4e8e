package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

func TestTheLastLineIsTheUnitsOwnNotSystemds(t *testing.T) {
	for name, c := range map[string]struct{ journal, want string }{
		"containerd with a bad configuration": {`Starting containerd container runtime...
containerd: failed to load TOML: /etc/containerd/config.toml: (1, 1): unexpected token
containerd.service: Main process exited, code=exited, status=1/FAILURE
containerd.service: Failed with result 'exit-code'.
Failed to start containerd container runtime.
`, "containerd: failed to load TOML: /etc/containerd/config.toml: (1, 1): unexpected token"},
		"a program that isn't there": {`containerd.service: Failed to locate executable /usr/bin/containerd: No such file or directory
containerd.service: Failed at step EXEC spawning /usr/bin/containerd: No such file or directory
containerd.service: Main process exited, code=exited, status=203/EXEC
containerd.service: Failed with result 'exit-code'.
`, "Failed at step EXEC spawning /usr/bin/containerd: No such file or directory"},
		"newer systemd names the unit": {"Starting containerd.service - containerd container runtime...\npanic: no\nFailed to start containerd.service - containerd container runtime.\n", "panic: no"},
		"nothing":                      {"\n", ""},
		"a line that begins alike":     {"Starting over from scratch\n", "Starting over from scratch"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, lastOwnLine("containerd.service", c.journal)) })
	}
}

func TestAMaskReplacesAFileAndKeepsIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "system", "a.swap")
	require.NoError(t, mask(file))
	target, err := os.Readlink(file)
	require.NoError(t, err)
	require.Equal(t, "/dev/null", target)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("[Swap]\n"), 0o644))
	for range 2 {
		require.NoError(t, mask(file))
		kept, err := os.ReadFile(file + MaskedCopy)
		require.NoError(t, err)
		require.Equal(t, "[Swap]\n", string(kept))
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file is left")
}

func TestUnitsOfATreeAreToldFromFiles(t *testing.T) {
	root := t.TempDir()
	put := func(p, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
		require.NoError(t, os.WriteFile(root+p, []byte(content), 0o644))
	}
	link := func(p, to string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
		require.NoError(t, os.Symlink(to, root+p))
	}
	put("/usr/lib/systemd/system/a.service", "[Service]\n")
	link("/etc/systemd/system/multi-user.target.wants/a.service", "/usr/lib/systemd/system/a.service")
	put("/usr/lib/systemd/system/b.service", "[Service]\n")
	put("/usr/lib/systemd/system/c.service", "[Service]\n")
	link("/etc/systemd/system/c.service", "/dev/null")
	put("/etc/systemd/system/var-swap.swap", "[Swap]\n What=/var/swap\n")
	l := At(root)
	units, err := l.Units(context.Background(), []string{"a.service", "b.service", "c.service", "d.service"})
	require.NoError(t, err)
	require.Equal(t, map[string]Unit{
		"a.service": {LoadState: "loaded", ActiveState: "inactive", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/a.service"},
		"b.service": {LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled", FragmentPath: "/usr/lib/systemd/system/b.service"},
		"c.service": {LoadState: "masked", ActiveState: "inactive", UnitFileState: "masked"},
		"d.service": {LoadState: "not-found", ActiveState: "inactive"},
	}, units)
	swaps, err := l.SwapUnits(context.Background())
	require.NoError(t, err)
	require.Equal(t, "/var/swap", swaps["var-swap.swap"].What)
}

func TestAHookRunsInALeanEnvironmentAndLeavesItsMarkerWhenItSucceeds(t *testing.T) {
	l := New()
	dir := t.TempDir()
	marker := filepath.Join(dir, "hooks", "m")
	t.Setenv("HOOK_SECRET", "x")
	var told []string
	require.NoError(t, l.applyRunHook(context.Background(), change.RunHook{When: "preJoin", Marker: marker,
		Command: `echo one; echo two >&2; test -z "$HOOK_SECRET" && ! read line && test "$PATH" && touch ` + dir + "/ran"}, func(s string) { told = append(told, s) }))
	require.ElementsMatch(t, []string{"one", "two"}, told)
	require.FileExists(t, dir+"/ran")
	info, err := os.Stat(marker)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	marker = filepath.Join(dir, "hooks", "n")
	err = l.applyRunHook(context.Background(), change.RunHook{When: "preJoin", Marker: marker, Command: "echo no luck; exit 7"}, func(string) {})
	require.ErrorContains(t, err, "exited with 7; its last line: no luck")
	require.NoFileExists(t, marker)
}

func TestP5ModulesThatCannotBeLoadedAreExplained(t *testing.T) {
	const gone = "modprobe: FATAL: Module br_netfilter not found in directory /lib/modules/6.12.0-55.el10.x86_64"
	require.ErrorContains(t, moduleFailure("br_netfilter", "6.12.0-55.el10.x86_64", false, gone), "has no /lib/modules/6.12.0-55.el10.x86_64")
	err := moduleFailure("br_netfilter", "6.12.0-55.el10.x86_64", true, gone)
	require.ErrorContains(t, err, "br_netfilter is not among the modules of kernel 6.12.0-55.el10.x86_64")
	require.Contains(t, fail.HintOf(err), "kernel-modules-extra-6.12.0-55.el10.x86_64")
	require.ErrorContains(t, moduleFailure("x", "6", true, "modprobe: ERROR: could not insert 'x': Key was rejected by service"), "the kernel refuses module x")
	require.ErrorContains(t, moduleFailure("x", "6", true, "modprobe: ERROR: ../libkmod: Error running install command"), "can't be loaded")
}

func TestJ10AProgramGetsNoProxyOfOurEnvironment(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://proxy.example:3128")
	}
	r, err := New().exec(context.Background(), program{name: "env"})
	require.NoError(t, err)
	require.Contains(t, string(r.stdout), "PATH=")
	require.NotContains(t, strings.ToLower(string(r.stdout)), "proxy", "kubeadm reaches the API server as kubelet does, directly")
}

func TestSysctlsHaveFilesBelowProcSysOnly(t *testing.T) {
	for key, want := range map[string]string{
		"net.ipv4.ip_forward":               "/proc/sys/net/ipv4/ip_forward",
		"net/ipv4/conf/eth0.100/forwarding": "/proc/sys/net/ipv4/conf/eth0.100/forwarding",
		"net.ipv4.conf.eth0/100.forwarding": "/proc/sys/net/ipv4/conf/eth0.100/forwarding",
		"vm":                                "/proc/sys/vm",
		"":                                  "",
		"net/../../etc/passwd":              "",
		"..":                                "",
		"net.ipv4..ip_forward":              "",
		"/etc":                              "",
	} {
		got, ok := SysctlPath(key)
		require.Equal(t, want != "", ok, key)
		if ok {
			require.Equal(t, want, got)
		}
	}
}

func FuzzSysctlPathNeverLeavesProcSys(f *testing.F) {
	f.Add("net.ipv4.ip_forward")
	f.Add("a/../../b")
	f.Fuzz(func(t *testing.T, key string) {
		if p, ok := SysctlPath(key); ok && (filepath.Clean(p) != p || len(p) <= len("/proc/sys/")) {
			t.Fatalf("%q: %s", key, p)
		}
	})
}

func TestTheSystemOfThisMachineIsTold(t *testing.T) {
	s, err := New().System()
	require.NoError(t, err)
	require.NotEmpty(t, s.Arch)
	require.NotEmpty(t, s.Kernel)
	require.NotEmpty(t, s.Hostname)
	require.NotZero(t, s.Cgroup)
	require.NotZero(t, s.MemoryBytes)
	require.WithinDuration(t, time.Now(), s.Now, time.Minute)
}

func TestNamesComeFromFilesWithoutAskingAServer(t *testing.T) {
	require.Equal(t, "node1", staticHostname("# set by hand\n\n node1 \nother\n"))
	require.Empty(t, staticHostname(""))
	hosts := "127.0.0.1 localhost localhost.localdomain\n192.0.2.1 node1 node1.example.com # x\n"
	require.Equal(t, "node1.example.com", fqdn("node1", hosts))
	require.Equal(t, "node1.lan", fqdn("node1.lan", hosts))
	require.Empty(t, fqdn("node", hosts))
	require.Empty(t, fqdn("", hosts))
}
