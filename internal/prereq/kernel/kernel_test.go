package kernel

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

func TestP5AKernelThatWasReplacedIsToldNotWarnedOf(t *testing.T) {
	w := hosttest.Rocky9()
	w.Sys.Kernel = "6.12.0-55.el10.x86_64"
	f, err := Observe(context.Background(), w, config.Default().Spec)
	require.NoError(t, err)
	p := Plan(config.Default().Spec, f)
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "the running kernel 6.12.0-55.el10.x86_64 has no /lib/modules/6.12.0-55.el10.x86_64 any more")
	require.Empty(t, p.Changes)
}

func TestBuiltInModulesAreLoadedAlready(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/lib/modules/"+w.Sys.Kernel+"/modules.builtin"] = hosttest.File{Content: "kernel/fs/overlayfs/overlay.ko\nkernel/net/bridge/br_netfilter.ko\n"}
	f, err := Observe(context.Background(), w, config.Default().Spec)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"overlay": true, "br_netfilter": true}, f.Loaded)
}

func TestProtectKernelDefaultsBringsTheSixValuesOfTheKubelet(t *testing.T) {
	s := config.Default().Spec
	s.Kubelet.Config = map[string]any{"protectKernelDefaults": true}
	got := wanted(s)
	for k, v := range map[string]string{"vm.overcommit_memory": "1", "vm.panic_on_oom": "0", "kernel.panic": "10", "kernel.panic_on_oops": "1",
		"kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000"} {
		require.Equal(t, v, got[k], k)
	}
	require.NotContains(t, wanted(config.Default().Spec), "vm.overcommit_memory")
}

func TestALaterFileThatSetsAnotherValueIsNamed(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/sysctl.d/99-zzz-hardening.conf"] = hosttest.File{Content: "# x\n-net/ipv4/ip_forward = 0\n"}
	w.Files["/usr/lib/sysctl.d/50-security-hardening.conf"] = hosttest.File{Content: "net.ipv4.ip_forward = 0\n"}
	f, err := Observe(context.Background(), w, config.Default().Spec)
	require.NoError(t, err)
	p := Plan(config.Default().Spec, f)
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "/etc/sysctl.d/99-zzz-hardening.conf sets net.ipv4.ip_forward")
}

func TestNetworkManagerIsKeptOffThePluginsInterfacesOnlyWhenBothAreThere(t *testing.T) {
	s := config.Default().Spec
	s.Firewall.CNI = "cilium"
	w := hosttest.Rocky9()
	has := func() bool {
		f, err := Observe(context.Background(), w, s)
		require.NoError(t, err)
		for _, c := range Plan(s, f).Changes {
			if c.ID() == "file:"+nmFile {
				return true
			}
		}
		return false
	}
	require.True(t, has())
	delete(w.UnitStates, "NetworkManager.service")
	require.False(t, has())
}

func FuzzAssignments(f *testing.F) {
	f.Add("a.b = 1\n-c/d=2\n;x\n")
	f.Fuzz(func(_ *testing.T, s string) { assignments(s) })
}
