package kernel

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func spec(edit func(*config.Spec)) config.Spec {
	s := config.Default().Spec
	if edit != nil {
		edit(&s)
	}
	return s
}

func observe(t *testing.T, w host.View, s config.Spec) Facts {
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return f
}

func ids(p change.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return out
}

// converge applies the plan and requires that nothing is left.
func converge(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	p := Plan(s, observe(t, w, s))
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil), c.Summary())
	}
	require.Empty(t, ids(Plan(s, observe(t, w, s))), "a second run changes nothing")
	return p
}

func TestAStockHostGetsModulesAndSysctlsInTheRightOrder(t *testing.T) {
	w := hosttest.Rocky9()
	p := converge(t, w, spec(nil))
	require.Equal(t, []string{"file:/etc/modules-load.d/nodeagent.conf", "module:overlay", "module:br_netfilter", "file:/etc/sysctl.d/99-zz-nodeagent.conf",
		"sysctl:net.bridge.bridge-nf-call-ip6tables", "sysctl:net.bridge.bridge-nf-call-iptables", "sysctl:net.ipv4.ip_forward"}, ids(p))
	require.Equal(t, change.SetSysctl{Key: "net.bridge.bridge-nf-call-iptables", Value: "1"}, p.Changes[5], "it doesn't exist before its module")
	require.Equal(t, "# Written by nodeagent.\noverlay\nbr_netfilter\n", w.Files[modulesPath].Content)
	require.Contains(t, w.Files[sysctlPath].Content, "net.ipv4.ip_forward = 1\n")
	require.NotContains(t, w.Files[sysctlPath].Content, "forwarding", "IPv6 isn't asked for")
	require.Empty(t, p.Warnings)
}

func TestModulesThatAreBuiltInAreNotLoaded(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/lib/modules/"+w.Sys.Kernel+"/modules.builtin"] = hosttest.File{Content: "kernel/fs/overlayfs/overlay.ko\nkernel/net/bridge/br_netfilter.ko.xz\n"}
	f := observe(t, w, spec(nil))
	require.Equal(t, map[string]bool{"overlay": true, "br_netfilter": true}, f.Modules)
	w = hosttest.Rocky9()
	w.Files["/sys/module/overlay/parameters/x"] = hosttest.File{}
	w.Sysctls["net.bridge.bridge-nf-call-iptables"] = "1"
	require.Equal(t, map[string]bool{"overlay": true, "br_netfilter": true}, observe(t, w, spec(nil)).Modules)
}

func TestP5AReplacedKernelAsksForAReboot(t *testing.T) {
	w := hosttest.Rocky9()
	for p := range w.Files {
		if strings.HasPrefix(p, "/lib/modules/") {
			delete(w.Files, p)
		}
	}
	p := Plan(spec(nil), observe(t, w, spec(nil)))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "has no /lib/modules/"+w.Sys.Kernel)
	require.Contains(t, fail.HintOf(p.Blocked[0]), "reboot")
	w.Modules["overlay"], w.Modules["br_netfilter"] = true, true
	require.Empty(t, Plan(spec(nil), observe(t, w, spec(nil))).Blocked, "what is loaded needs no file")
}

func TestProtectKernelDefaultsSetsWhatKubeletDemands(t *testing.T) {
	s := spec(func(s *config.Spec) { s.Kubelet.Config = map[string]any{"protectKernelDefaults": true} })
	w := hosttest.Rocky9()
	converge(t, w, s)
	for k, v := range protected {
		require.Equal(t, v, w.Sysctls[k], k)
		require.Contains(t, w.Files[sysctlPath].Content, k+" = "+v+"\n")
	}
	s.Kernel.Sysctls = map[string]string{"kernel.panic": "20"}
	p := Plan(s, observe(t, w, s))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "kernel.panic to 20")
}

func TestTheUsersSysctlsAndModules(t *testing.T) {
	s := spec(func(s *config.Spec) {
		s.Kernel.Modules = []string{"ip_vs", "overlay"}
		s.Kernel.Sysctls = map[string]string{"net.ipv4.ip_local_port_range": "1024 65000", "net.ipv4.conf.*.rp_filter": "2", "net.ipv4.conf.all.rp_filter": "1"}
	})
	w := hosttest.Rocky9()
	w.Sysctls["net.ipv4.ip_local_port_range"] = "32768\t60999"
	p := Plan(s, observe(t, w, s))
	require.Contains(t, ids(p), "module:ip_vs")
	require.Contains(t, p.Changes, change.SetSysctl{Key: "net.ipv4.ip_local_port_range", Value: "1024 65000", Before: "32768 60999"})
	require.Contains(t, w.Sysctls, "net.ipv4.conf.default.rp_filter")
	w.Sysctls["net.ipv4.ip_local_port_range"] = "1024\t65000"
	require.NotContains(t, ids(Plan(s, observe(t, w, s))), "sysctl:net.ipv4.ip_local_port_range", "tabs of the kernel's are blanks")
}

func TestAPatternSetsWhatItStandsForNow(t *testing.T) {
	f := Facts{Sysctls: map[string]string{"net.ipv4.conf.all.rp_filter": "1", "net.ipv4.conf.eth0.rp_filter": "1", "net.ipv4.conf.lo.rp_filter": "2"}}
	require.Equal(t, []change.Change{
		change.SetSysctl{Key: "net.ipv4.conf.eth0.rp_filter", Value: "2", Before: "1"},
		change.SetSysctl{Key: "net.ipv4.conf.all.rp_filter", Value: "0", Before: "1"},
	}, planSysctls(f, map[string]string{"net.ipv4.conf.*.rp_filter": "2", "net.ipv4.conf.all.rp_filter": "0"}))
}

func TestAFileThatIsReadLaterIsNamed(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/sysctl.d/zzz-hardening.conf"] = hosttest.File{Content: "net.ipv4.ip_forward = 1\nnet.ipv4.ip_forward = 0\nnet.ipv4.tcp_syncookies = 1\n"}
	w.Files["/usr/lib/sysctl.d/50-security-hardening.conf"] = hosttest.File{Content: "net.ipv4.ip_forward=0\n"}
	w.Files["/etc/sysctl.conf"] = hosttest.File{Content: "net/ipv4/ip_forward=0\n"}
	p := converge(t, w, spec(nil))
	require.Len(t, p.Warnings, 2)
	require.Contains(t, p.Warnings[0], "/etc/sysctl.conf, which sysctl --system reads last, sets net.ipv4.ip_forward to 0 instead of 1")
	require.Contains(t, p.Warnings[1], "/etc/sysctl.d/zzz-hardening.conf, which is read after")
}

func TestIPv6ForwardingComesOnlyWithIPv6(t *testing.T) {
	for name, edit := range map[string]func(*config.Spec){
		"node-ip": func(s *config.Spec) {
			s.Kubelet.ExtraArgs = []config.Arg{{Name: "node-ip", Value: "192.0.2.1,2001:db8::1"}}
		},
		"pods":      func(s *config.Spec) { s.Firewall.TrustedSources = []string{"2001:db8:42::/56"} },
		"endpoint":  func(s *config.Spec) { s.Join.Endpoint = "[2001:db8::1]:6443" },
		"its route": func(s *config.Spec) { s.Network.DefaultRoute.Family = "ipv6" },
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			w.Net.Defaults = []host.Route{{Family: "ipv6", Interface: "eth0", Gateway: "fe80::1"}}
			w.Files["/proc/sys/net/ipv6/conf/eth0/keep"] = hosttest.File{}
			w.Sysctls["net.ipv6.conf.eth0.accept_ra"] = "1"
			s := spec(edit)
			p := converge(t, w, s)
			require.Contains(t, ids(p), "sysctl:net.ipv6.conf.all.forwarding")
			require.Contains(t, strings.Join(p.Warnings, ""), `add net.ipv6.conf.eth0.accept_ra: "2"`)
		})
	}
}

func TestCiliumLoosensTheReversePathFilterOfItsInterfaces(t *testing.T) {
	w := hosttest.Rocky9()
	w.Sysctls[rpFilterAll] = "1"
	p := converge(t, w, spec(func(s *config.Spec) { s.Firewall.CNI = "cilium" }))
	require.Contains(t, ids(p), "sysctl:"+rpFilterAll)
	require.Contains(t, w.Files[sysctlPath].Content, "-net.ipv4.conf.lxc*.rp_filter = 0\n")
}

func TestNetworkManagersStayOffAPluginsInterfaces(t *testing.T) {
	cilium := spec(func(s *config.Spec) { s.Firewall.CNI = "cilium" })
	w := hosttest.Rocky9()
	w.UnitStates[networkdUnit] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", StartedAt: 1}
	w.UnitStates["nm-cloud-setup.timer"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	p := converge(t, w, cilium)
	for _, id := range []string{"file:" + nmPath, "file:" + networkdPath, "unit:nm-cloud-setup.timer"} {
		require.Contains(t, ids(p), id)
	}
	require.Contains(t, w.Files[nmPath].Content, "unmanaged-devices+=interface-name:cali*;")
	for _, c := range p.Changes {
		if f, ok := c.(change.WriteFile); ok && f.Path == nmPath {
			require.Equal(t, nmUnit, f.Reload)
		}
	}
	require.Contains(t, w.Files[networkdPath].Content, "ManageForeignRoutes=no\n")
	require.Len(t, Plan(cilium, observe(t, w, cilium)).Notes, 1, "networkd has not been started again")
	w.UnitStates[networkdUnit] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", StartedAt: w.Sys.Now.UnixMicro() + 1e9}
	require.Empty(t, Plan(cilium, observe(t, w, cilium)).Notes)
	delete(w.UnitStates, nmUnit)
	delete(w.Files, nmPath)
	require.NotContains(t, ids(Plan(cilium, observe(t, w, cilium))), "file:"+nmPath, "without NetworkManager")
	require.NotContains(t, ids(Plan(spec(nil), observe(t, hosttest.Rocky9(), spec(nil)))), "file:"+nmPath, "without a plugin named")
}

// Releases of systemd before 248 leave routes of others alone and call the key
// unknown.
func TestAnOldNetworkdHasNothingToBeTold(t *testing.T) {
	cilium := spec(func(s *config.Spec) { s.Firewall.CNI = "cilium" })
	for release, told := range map[int]bool{0: true, 247: false, 248: true, 252: true} {
		m := Managers{Systemd: release, Units: map[string]host.Unit{networkdUnit: {LoadState: "loaded", ActiveState: "active"}}}
		require.Equal(t, told, len(planManagers(cilium, m).Changes) == 1, release)
	}
	require.Equal(t, 252, systemdRelease([]string{"catalog", "libsystemd-core-249.so", "libsystemd-shared-252-46.el9.so"}))
	require.Equal(t, 247, systemdRelease([]string{"libsystemd-shared-247.so"}))
	require.Zero(t, systemdRelease([]string{"libsystemd-shared-.so", "systemd"}))
}
