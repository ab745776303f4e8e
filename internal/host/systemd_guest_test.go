package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
)

// systemdGuestEnv is set in a throw-away guest with systemd, in which the tests
// of this file make and break units.
const systemdGuestEnv = "NODEAGENT_SYSTEMD_GUEST"

func needSystemdGuest(t *testing.T) *Linux {
	t.Helper()
	if os.Getenv(systemdGuestEnv) == "" {
		t.Skip("makes and breaks systemd units: copy the test program into a throw-away guest and run it there with " + systemdGuestEnv + "=1")
	}
	return New()
}

func guestFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	t.Cleanup(func() { os.Remove(path) })
}

func guestRun(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
	return string(out)
}

// service writes a unit that runs a shell script.
func service(t *testing.T, name, kind, script string) {
	guestFile(t, "/etc/systemd/system/"+name, "[Service]\nType="+kind+"\nExecStart=/bin/sh -c '"+script+"'\n[Install]\nWantedBy=multi-user.target\n")
	t.Cleanup(func() {
		exec.Command("systemctl", "disable", "--now", name).Run()
		exec.Command("systemctl", "reset-failed", name).Run()
		exec.Command("systemctl", "daemon-reload").Run()
	})
}

func TestARealUnitIsEnabledStartedAndDisabled(t *testing.T) {
	l := needSystemdGuest(t)
	ctx := t.Context()
	one := func() Unit {
		u, err := l.Units(ctx, []string{"na-good.service"})
		require.NoError(t, err)
		return u["na-good.service"]
	}
	require.Equal(t, "not-found", one().LoadState)
	service(t, "na-good.service", "simple", "echo up; sleep 600")
	before := time.Now().UnixMicro()
	start := time.Now()
	require.NoError(t, l.Apply(ctx, change.SetUnit{Unit: "na-good.service", Reload: true, Enable: true, Start: true}, nil))
	t.Logf("reload, enable, start: %s", time.Since(start))
	u := one()
	require.Equal(t, []string{"loaded", "active", "enabled", "/etc/systemd/system/na-good.service"}, []string{u.LoadState, u.ActiveState, u.UnitFileState, u.FragmentPath})
	require.Greater(t, u.StartedAt, before)
	require.NoError(t, l.Apply(ctx, change.SetUnit{Unit: "na-good.service", Restart: true}, nil))
	require.Greater(t, one().StartedAt, u.StartedAt)
	start = time.Now()
	l.forget()
	one()
	t.Logf("one question: %s", time.Since(start))
	require.NoError(t, l.Apply(ctx, change.SetUnit{Unit: "na-good.service", Disable: true}, nil))
	u = one()
	require.Equal(t, []string{"inactive", "disabled"}, []string{u.ActiveState, u.UnitFileState})
	require.NoError(t, l.Apply(ctx, change.SetUnit{Unit: "na-none.service", Disable: true}, nil), "what doesn't exist is disabled")
	require.Zero(t, l.Stats().Programs)
}

func TestARealUnitThatDoesNotRunIsToldInItsOwnWords(t *testing.T) {
	l := needSystemdGuest(t)
	for name, c := range map[string]struct{ kind, script, want string }{
		"fails in its start":        {"oneshot", "echo the disk is on fire >&2; exit 3", `does not start (start ended with "failed"); its last line: the disk is on fire`},
		"is forked and dies":        {"simple", "sleep 0.1; echo no configuration; exit 1", "(it died (failed)); its last line: no configuration"},
		"ends at once without fail": {"simple", "echo nothing to do", "(it ended at once); its last line: nothing to do"},
	} {
		t.Run(name, func(t *testing.T) {
			service(t, "na-bad.service", c.kind, c.script)
			err := l.Apply(t.Context(), change.SetUnit{Unit: "na-bad.service", Reload: true, Start: true}, nil)
			require.ErrorContains(t, err, c.want)
			t.Log(err)
		})
	}
	service(t, "na-once.service", "oneshot", "echo done")
	require.NoError(t, l.Apply(t.Context(), change.SetUnit{Unit: "na-once.service", Reload: true, Start: true}, nil), "a oneshot that ended has done its work")
	require.ErrorContains(t, l.Apply(t.Context(), change.SetUnit{Unit: "na-none.service", Start: true}, nil), "systemd knows no such unit")
	err := l.Apply(t.Context(), change.SetUnit{Unit: "na-none.service", Enable: true}, nil)
	require.ErrorContains(t, err, "there is no such unit file")
	guestFile(t, "/etc/systemd/system/na-missing.service", "[Service]\nExecStart=/nonexistent\n")
	err = l.Apply(t.Context(), change.SetUnit{Unit: "na-missing.service", Reload: true, Start: true}, nil)
	require.ErrorContains(t, err, "na-missing.service does not start")
	require.ErrorContains(t, err, "/nonexistent: No such file or directory")
	t.Log(err)
}

func TestARealRuntimeThatDiesIsNotAwaited(t *testing.T) {
	l := needSystemdGuest(t)
	service(t, "na-cri.service", "simple", "sleep 1; echo failed to load plugin; exit 1")
	start := time.Now()
	err := l.Apply(t.Context(), change.SetUnit{Unit: "na-cri.service", Reload: true, Start: true, Socket: "unix:///run/na-cri.sock"}, nil)
	require.ErrorContains(t, err, "does not stay up")
	require.ErrorContains(t, err, "failed to load plugin")
	require.Less(t, time.Since(start), 10*time.Second)
	t.Log(err)
}

func TestRealUnitsAreMaskedWhateverBroughtThem(t *testing.T) {
	l := needSystemdGuest(t)
	ctx := t.Context()
	const name = `na-swap\x2dfile.swap`
	// What systemd-fstab-generator makes, which does nothing in a container.
	generator := "/etc/systemd/system-generators/na-generator"
	require.NoError(t, os.MkdirAll("/etc/systemd/system-generators", 0o755))
	guestFile(t, generator, "#!/bin/sh\nprintf '[Unit]\\nSourcePath=/etc/fstab\\n[Swap]\\nWhat=/na/swap-file\\n' >\"$1/"+strings.ReplaceAll(name, `\`, `\\`)+"\"\n")
	require.NoError(t, os.Chmod(generator, 0o755))
	guestRun(t, "systemctl daemon-reload")
	units, err := l.SwapUnits(ctx)
	require.NoError(t, err)
	u := units[name]
	require.Equal(t, []string{"loaded", "generated", "/run/systemd/generator/" + name, "/etc/fstab", "/na/swap-file"}, []string{u.LoadState, u.UnitFileState, u.FragmentPath, u.SourcePath, u.What})
	require.NoError(t, l.Apply(ctx, change.MaskUnit{Unit: name}, nil))
	t.Cleanup(func() { os.Remove("/etc/systemd/system/" + name) })
	units, err = l.SwapUnits(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"masked", "masked"}, []string{units[name].LoadState, units[name].UnitFileState})

	service(t, "na-own.service", "simple", "sleep 600")
	guestRun(t, "systemctl daemon-reload; systemctl enable --now na-own.service")
	require.NoError(t, l.Apply(ctx, change.MaskUnit{Unit: "na-own.service"}, nil))
	own, err := l.Units(ctx, []string{"na-own.service"})
	require.NoError(t, err)
	require.Equal(t, []string{"masked", "inactive"}, []string{own["na-own.service"].LoadState, own["na-own.service"].ActiveState})
	kept, err := os.ReadFile("/etc/systemd/system/na-own.service" + MaskedCopy)
	require.NoError(t, err)
	require.Contains(t, string(kept), "sleep 600")
	os.Remove("/etc/systemd/system/na-own.service" + MaskedCopy)
	require.NoError(t, l.Apply(ctx, change.MaskUnit{Unit: "na-own.service"}, nil), "twice is once")
}

func TestASwapUnitThatIsNotInUseIsDisabled(t *testing.T) {
	l := needSystemdGuest(t)
	guestFile(t, "/etc/systemd/system/na-area.swap", "[Swap]\nWhat=/na/area\n[Install]\nWantedBy=swap.target\n")
	guestRun(t, "systemctl daemon-reload; systemctl enable na-area.swap")
	units, err := l.SwapUnits(t.Context())
	require.NoError(t, err)
	require.Equal(t, "enabled", units["na-area.swap"].UnitFileState)
	require.NoError(t, l.Apply(t.Context(), change.SetUnit{Unit: "na-area.swap", Disable: true}, nil))
	units, err = l.SwapUnits(t.Context())
	require.NoError(t, err)
	require.Equal(t, "disabled", units["na-area.swap"].UnitFileState)
}

func TestTheConnectionSurvivesItsFirstQuestionAndSystemdsOwnRestart(t *testing.T) {
	l := needSystemdGuest(t)
	ask := func() {
		l.forget()
		_, err := l.Units(t.Context(), []string{"dbus.service"})
		require.NoError(t, err)
	}
	ask()
	first := l.systemd
	ask()
	require.Same(t, first, l.systemd)
	guestRun(t, "systemctl daemon-reexec")
	time.Sleep(time.Second)
	ask()
}

func TestRealSysctlsAndNames(t *testing.T) {
	l := needSystemdGuest(t)
	ctx := t.Context()
	require.NoError(t, l.Apply(ctx, change.SetSysctl{Key: "net.ipv4.ip_forward", Value: "1"}, nil))
	require.Equal(t, "1\n", guestRun(t, "cat /proc/sys/net/ipv4/ip_forward"))
	require.NoError(t, l.Apply(ctx, change.SetSysctl{Key: "net.ipv4.ip_local_port_range", Value: "1024  65000"}, nil))
	require.ErrorContains(t, l.Apply(ctx, change.SetSysctl{Key: "net.ipv4.ip_forward", Value: "many"}, nil), "the kernel refuses net.ipv4.ip_forward = many")
	require.ErrorContains(t, l.Apply(ctx, change.SetSysctl{Key: "net.ipv4.no_such", Value: "1"}, nil), "the kernel has no sysctl net.ipv4.no_such")
	before := strings.TrimSpace(guestRun(t, "hostname"))
	require.NoError(t, l.Apply(ctx, change.SetHostname{Name: "na-guest"}, nil))
	s, err := l.System()
	require.NoError(t, err)
	require.Equal(t, "na-guest", s.Hostname)
	require.Equal(t, "na-guest\n", guestRun(t, "hostname"))
	require.NoError(t, l.Apply(ctx, change.SetHostname{Name: before}, nil))
	t.Logf("%+v", s)
}

func TestNetworkManagerReadsItsConfigurationAgain(t *testing.T) {
	l := needSystemdGuest(t)
	guestRun(t, "systemctl start NetworkManager")
	pid := guestRun(t, "systemctl show --property=MainPID NetworkManager")
	guestRun(t, "ip link add lxc-na type veth peer name eth-na; ip link set lxc-na up; ip link set eth-na up")
	t.Cleanup(func() { exec.Command("ip", "link", "del", "lxc-na").Run() })
	guestFile(t, "/etc/NetworkManager/conf.d/10-other.conf", "[keyfile]\nunmanaged-devices=interface-name:eth-na\n")
	path := "/etc/NetworkManager/conf.d/99-nodeagent-cni.conf"
	t.Cleanup(func() { os.Remove(path) })
	require.NoError(t, l.Apply(t.Context(), change.WriteFile{Path: path, Mode: "0644", Owner: "root:root", Content: "[keyfile]\nunmanaged-devices+=interface-name:cali*;interface-name:lxc*\n", Reload: "NetworkManager.service"}, nil))
	require.Equal(t, pid, guestRun(t, "systemctl show --property=MainPID NetworkManager"), "it was not restarted")
	config := guestRun(t, "NetworkManager --print-config | grep unmanaged")
	t.Log(config, guestRun(t, "nmcli -t -f DEVICE,STATE device"))
	require.Contains(t, config, "eth-na", "what others list stays")
	require.Contains(t, config, "lxc*")
	require.Contains(t, guestRun(t, "nmcli -t -f DEVICE,STATE device"), "lxc-na:unmanaged")
}
