package preflight

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/prereq/distro"
)

func facts(t *testing.T) Facts {
	f, err := Observe(context.Background(), hosttest.Rocky9(), config.Default().Spec)
	require.NoError(t, err)
	return f
}

func blocked(p change.Plan) (text, hint string) {
	for _, err := range p.Blocked {
		text += err.Error() + "\n"
		hint += fail.HintOf(err) + "\n"
	}
	return text, hint
}

func TestAStockHostPasses(t *testing.T) {
	p := Plan(config.Default().Spec, facts(t))
	require.Empty(t, p.Blocked)
	require.Empty(t, p.Warnings)
}

func TestWhatStopsAJoinIsToldBeforehand(t *testing.T) {
	for name, c := range map[string]struct {
		set              func(*Facts, *config.Spec)
		text, hint, warn string
	}{
		"not root":           {func(f *Facts, _ *config.Spec) { f.System.Root = false }, "doesn't run as root", "sudo", ""},
		"J8 a live image":    {func(f *Facts, _ *config.Spec) { f.Root.Type = "rootfs" }, "the root filesystem is rootfs: containers can't pivot_root", "boot from a disk", ""},
		"J9 capitals":        {func(f *Facts, _ *config.Spec) { f.System.Hostname = "PHost01" }, "", "", "the node will be called phost01"},
		"J9 an underscore":   {func(f *Facts, _ *config.Spec) { f.System.Hostname = "server_one" }, `host name "server_one" can't be a node name`, "server-one", ""},
		"J9 localhost":       {func(f *Facts, _ *config.Spec) { f.System.Hostname = "localhost.localdomain" }, `the host has no name of its own: it is "localhost.localdomain"`, "spec.hostname", ""},
		"cgroup v1 and 1.35": {func(f *Facts, _ *config.Spec) { f.System.Cgroup = 1 }, "cgroup v1", "systemd.unified_cgroup_hierarchy=1", ""},
		"cgroup v1 on EL":    {func(f *Facts, _ *config.Spec) { f.System.Cgroup, f.Family = 1, distro.EL }, "cgroup v1", "grubby", ""},
		"cgroup v1, Photon":  {func(f *Facts, _ *config.Spec) { f.System.Cgroup, f.Family = 1, distro.Photon }, "cgroup v1", "photon_cmdline of /boot/photon.cfg", ""},
		"cgroup v1 and 1.34": {func(f *Facts, s *config.Spec) { f.System.Cgroup, s.Kubernetes.Version = 1, "v1.34.4" }, "", "", "boots with cgroup v1"},
		"kernel 4.18 and 1.33": {func(f *Facts, s *config.Spec) {
			f.System.Kernel, s.Kubernetes.Version = "4.18.0-553.el8_10.x86_64", "v1.33.1"
		}, "refuses kernel 4.18.0-553", "4.19", ""},
		"kernel 4.18 and 1.34": {func(f *Facts, s *config.Spec) {
			f.System.Kernel, s.Kubernetes.Version = "4.18.0-553.el8_10.x86_64", "v1.34.1"
		}, "", "", ""},
		"a clock in the past": {func(f *Facts, _ *config.Spec) { f.System.Now = time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC) }, "the clock says 2016-01-01", "chronyd", ""},
		"a clock in the past that is going to be set": {func(f *Facts, s *config.Spec) {
			f.System.Now, s.Time.SyncTimeout.Duration = time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute
		}, "", "", "the clock says 2016-01-01: nothing is fetched before it is synchronised"},
		"no space":                    {func(f *Facts, _ *config.Spec) { f.Var.FreeBytes = 100 << 20 }, "/var/lib has only 100.0 MiB left", "free at least", ""},
		"little space":                {func(f *Facts, _ *config.Spec) { f.Var.FreeBytes = 3 << 30 }, "", "", "/var/lib has only 3.0 GiB left"},
		"a foreign listener":          {func(f *Facts, _ *config.Spec) { f.KubeletPort = true }, "something else listens on port 10250", "ss -ltnp", ""},
		"a kubelet of our own":        {func(f *Facts, _ *config.Spec) { f.KubeletPort, f.KubeletRuns = true, true }, "", "", ""},
		"an architecture":             {func(f *Facts, _ *config.Spec) { f.System.Arch = "riscv64" }, "machine type riscv64", "x86_64", ""},
		"no systemd":                  {func(f *Facts, _ *config.Spec) { f.Systemd = false }, "systemd isn't running", "systemd manages", ""},
		"a cloned board":              {func(f *Facts, _ *config.Spec) { f.System.UUID = shared[0] }, "", "", "that many machines share"},
		"all digits equal":            {func(f *Facts, _ *config.Spec) { f.System.UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff" }, "", "", "that many machines share"},
		"a machine id of zeros":       {func(f *Facts, _ *config.Spec) { f.System.MachineID = "00000000000000000000000000000000" }, "", "", "can't be one of its own"},
		"a clock far ahead":           {func(f *Facts, _ *config.Spec) { f.System.Now = time.Date(2106, 2, 7, 0, 0, 0, 0, time.UTC) }, "the clock says 2106", "chronyd", ""},
		"a long name":                 {func(f *Facts, _ *config.Spec) { f.System.Hostname = strings.Repeat("a", 63) + ".b" }, "has 65 characters", "shorter", ""},
		"dashes at the edges":         {func(f *Facts, _ *config.Spec) { f.System.Hostname = "-a-.b" }, "can't be a node name", "spec.hostname: a.b", ""},
		"only the node's name counts": {func(f *Facts, s *config.Spec) { f.System.Hostname, s.Hostname = "server_one", "node1" }, "", "", ""},
		"cgroup v1 as wanted": {func(f *Facts, s *config.Spec) {
			f.System.Cgroup, s.Kubelet.Config = 1, map[string]any{"failCgroupV1": false}
		}, "", "", "boots with cgroup v1"},
		"no machine id":         {func(f *Facts, _ *config.Spec) { f.System.MachineID = "" }, "", "", "/etc/machine-id is empty"},
		"an unknown Kubernetes": {func(_ *Facts, s *config.Spec) { s.Kubernetes.Version = "v1.29.1" }, "", "", "outside the releases"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := facts(t), config.Default().Spec
			c.set(&f, &s)
			p := Plan(s, f)
			text, hint := blocked(p)
			if c.text == "" {
				require.Empty(t, p.Blocked)
			} else {
				require.Len(t, p.Blocked, 1)
			}
			require.Contains(t, text, c.text)
			require.Contains(t, hint, c.hint)
			if c.warn == "" {
				require.Empty(t, p.Warnings)
			} else {
				require.Len(t, p.Warnings, 1)
				require.Contains(t, p.Warnings[0], c.warn)
			}
		})
	}
}

func TestEverythingWrongIsListedAtOnce(t *testing.T) {
	f := facts(t)
	f.System.Root, f.Root.Type, f.System.Hostname, f.Etc.ReadOnly = false, "ramfs", "a_b", true
	require.Len(t, Plan(config.Default().Spec, f).Blocked, 4)
}

func TestWhoHoldsKubeletsPortIsNamed(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/proc/net/tcp"] = hosttest.File{Content: "  sl\n   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n"}
	w.Files["/proc/99/fd/3"] = hosttest.File{Link: "socket:[4711]"}
	w.Files["/proc/99/comm"] = hosttest.File{Content: "socat\n"}
	f, err := Observe(context.Background(), w, config.Default().Spec)
	require.NoError(t, err)
	require.ErrorContains(t, Plan(config.Default().Spec, f).Blocked[0], "socat (pid 99) listens on port 10250")
}

func TestAnImageIsNotBlamedForNotRunning(t *testing.T) {
	p := Plan(config.Default().Spec, Facts{})
	require.Empty(t, p.Blocked)
	require.Empty(t, p.Warnings)
}
