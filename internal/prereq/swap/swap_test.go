package swap

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func spec(mode string) config.Spec {
	s := config.Default().Spec
	s.Swap.Mode = mode
	return s
}

func observe(t *testing.T, w host.View) Facts {
	f, err := Observe(context.Background(), w, spec("disable"))
	require.NoError(t, err)
	return f
}

// ids lists a plan's changes.
func ids(p change.Plan) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return strings.Join(out, "\n")
}

// world is a host whose only swap is what a test gives it.
func world(change func(*hosttest.World)) *hosttest.World {
	w := hosttest.Rocky9()
	delete(w.UnitStates, "swap.img.swap")
	delete(w.UnitStates, "old-swap.swap")
	delete(w.Files, "/etc/systemd/system/old-swap.swap")
	w.Files["/etc/fstab"] = hosttest.File{Content: "UUID=0f1e / xfs defaults 0 0\n"}
	w.Swaps = nil
	change(w)
	return w
}

func TestEveryOriginOfSwapIsTurnedOffForGood(t *testing.T) {
	for name, c := range map[string]struct {
		world func(*hosttest.World)
		want  string
	}{
		"none": {func(*hosttest.World) {}, ""},
		"S1 fstab, by a mapper's name that the kernel doesn't use": {func(w *hosttest.World) {
			w.Files["/etc/fstab"] = hosttest.File{Content: "/dev/mapper/cl-swap     swap     swap    defaults 0 0\n"}
			w.Files["/dev/mapper/cl-swap"] = hosttest.File{Link: "../dm-1"}
			w.Swaps = []hosttest.Swap{{Area: "/dev/dm-1", Kind: "partition", Unit: `dev-mapper-cl\x2dswap.swap`}}
			w.UnitStates[`dev-mapper-cl\x2dswap.swap`] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", What: "/dev/mapper/cl-swap",
				FragmentPath: `/run/systemd/generator/dev-mapper-cl\x2dswap.swap`, SourcePath: "/etc/fstab"}
			w.UnitStates[`dev-dm\x2d1.swap`] = host.Unit{LoadState: "loaded", ActiveState: "active", What: "/dev/dm-1"} // an alias that systemd makes
		}, "file:/etc/fstab\nswapoff:/dev/dm-1\nunit:swap.target"},
		"S2 two files in fstab": {func(w *hosttest.World) {
			w.Files["/etc/fstab"] = hosttest.File{Content: "/a none swap sw 0 0\n/b none swap sw 0 0\noverlay none overlay defaults 0 0\n"}
			w.Swaps = []hosttest.Swap{{Area: "/a"}, {Area: "/b"}}
		}, "file:/etc/fstab\nswapoff:/a\nswapoff:/b"},
		"fstab that nobody has turned on": {func(w *hosttest.World) {
			w.Files["/etc/fstab"] = hosttest.File{Content: "/a none swap noauto 0 0\n"}
		}, "file:/etc/fstab"},
		"no fstab, a unit of the administrator's": {func(w *hosttest.World) {
			delete(w.Files, "/etc/fstab")
			w.Swaps = []hosttest.Swap{{Area: "/var/swapfile", Unit: "var-swapfile.swap"}}
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/etc/systemd/system/var-swapfile.swap", What: "/var/swapfile"}
		}, "unit:var-swapfile.swap\nswapoff:/var/swapfile"},
		"a unit that doesn't run but is enabled": {func(w *hosttest.World) {
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "enabled", FragmentPath: "/etc/systemd/system/var-swapfile.swap"}
		}, "unit:var-swapfile.swap"},
		"a unit that something wants but nothing enables": {func(w *hosttest.World) {
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "static", FragmentPath: "/etc/systemd/system/var-swapfile.swap"}
		}, "mask:var-swapfile.swap"},
		"a unit that something wants, and that doesn't run": {func(w *hosttest.World) {
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "static", FragmentPath: "/usr/lib/systemd/system/var-swapfile.swap", WantedBy: []string{"app.service"}}
		}, "mask:var-swapfile.swap"},
		"a unit without an install section that was enabled by hand, after it was disabled": {func(w *hosttest.World) {
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "static", FragmentPath: "/etc/systemd/system/var-swapfile.swap"}
		}, ""},
		"a unit that is disabled": {func(w *hosttest.World) {
			w.UnitStates["var-swapfile.swap"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled", FragmentPath: "/etc/systemd/system/var-swapfile.swap"}
		}, ""},
		"S6 a partition and nothing in fstab": {func(w *hosttest.World) {
			w.Swaps = []hosttest.Swap{{Area: "/dev/sda3", Kind: "partition"}}
		}, "mask:dev-sda3.swap\nswapoff:/dev/sda3"},
		"S6 the same with the generator's unit": {func(w *hosttest.World) {
			w.Swaps = []hosttest.Swap{{Area: "/dev/nvme0n1p3", Kind: "partition", Unit: "dev-nvme0n1p3.swap"}}
			w.UnitStates["dev-nvme0n1p3.swap"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", What: "/dev/nvme0n1p3", FragmentPath: "/run/systemd/generator.late/dev-nvme0n1p3.swap"}
		}, "mask:dev-nvme0n1p3.swap\nswapoff:/dev/nvme0n1p3"},
		"a GPT partition that fstab names: without its entry the generator would take over": {func(w *hosttest.World) {
			w.Files["/etc/fstab"] = hosttest.File{Content: "UUID=5e5e none swap sw 0 0\n"}
			w.Files["/dev/disk/by-uuid/5e5e"] = hosttest.File{Link: "../../sda3"}
			w.Files["/sys/class/block/sda3/dev"] = hosttest.File{Content: "8:3\n"}
			w.Files["/run/udev/data/b8:3"] = hosttest.File{Content: "E:ID_PART_ENTRY_SCHEME=gpt\nE:ID_PART_ENTRY_TYPE=" + gptSwapType + "\n"}
			w.Swaps = []hosttest.Swap{{Area: "/dev/sda3", Kind: "partition"}}
		}, "file:/etc/fstab\nmask:dev-sda3.swap\nswapoff:/dev/sda3"},
		"S7 zram of the vendor's": {func(w *hosttest.World) {
			w.Files["/usr/lib/systemd/zram-generator.conf"] = hosttest.File{Content: "[zram0]\nzram-size = min(ram, 8192)\n"}
			w.Swaps = []hosttest.Swap{{Area: "/dev/zram0", Kind: "partition", Unit: "dev-zram0.swap"}}
			w.UnitStates["dev-zram0.swap"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", What: "/dev/zram0", FragmentPath: "/run/systemd/generator/dev-zram0.swap"}
		}, "file:/etc/systemd/zram-generator.conf\nswapoff:/dev/zram0\nunit:swap.target"},
		"zram in a drop-in": {func(w *hosttest.World) {
			w.Files["/etc/systemd/zram-generator.conf"] = hosttest.File{}
			w.Files["/usr/lib/systemd/zram-generator.conf"] = hosttest.File{Content: "[zram0]\n"}
			w.Files["/usr/lib/systemd/zram-generator.conf.d/20-more.conf"] = hosttest.File{Content: "[zram1]\n"}
		}, "file:/etc/systemd/zram-generator.conf.d/20-more.conf\nunit:swap.target"},
		"the kernel's command line": {func(w *hosttest.World) {
			w.UnitStates["dev-vdb.swap"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "generated", What: "/dev/vdb", FragmentPath: "/run/systemd/generator/dev-vdb.swap", SourcePath: "/proc/cmdline"}
		}, "mask:dev-vdb.swap"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(c.world)
			p := Plan(spec("disable"), observe(t, w))
			require.Equal(t, c.want, ids(p))
			require.Empty(t, p.Blocked)
			for _, ch := range p.Changes {
				require.NoError(t, w.Apply(context.Background(), ch, nil))
			}
			require.Empty(t, w.Swaps)
			require.Empty(t, ids(Plan(spec("disable"), observe(t, w))), "a second run changes nothing")
		})
	}
}

func TestS4NoFstabIsNoErrorAndAreasAreStillTurnedOff(t *testing.T) {
	w := world(func(w *hosttest.World) {
		delete(w.Files, "/etc/fstab")
		w.Swaps = []hosttest.Swap{{Area: "/swap.img"}}
	})
	require.Equal(t, "swapoff:/swap.img", ids(Plan(spec("disable"), observe(t, w))))
}

func TestAnAdministratorsOwnSwapUnitIsDisabledNotMasked(t *testing.T) {
	f := Facts{Units: map[string]host.Unit{"old.swap": {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/etc/systemd/system/old.swap"}}}
	require.Equal(t, []change.Change{change.SetUnit{Unit: "old.swap", Disable: true, Why: "it turns on swap at boot"}}, Plan(spec("disable"), f).Changes)
}

func TestS6SwapOfThePartitionTableIsMaskedAndItsBytesLeft(t *testing.T) {
	w := world(func(w *hosttest.World) { w.Swaps = []hosttest.Swap{{Area: "/dev/sda3", Kind: "partition"}} })
	p := Plan(spec("disable"), observe(t, w))
	require.Equal(t, "mask:dev-sda3.swap\nswapoff:/dev/sda3", ids(p))
	require.Equal(t, "swap off /dev/sda3 (dev-sda3.swap, from systemd-gpt-auto-generator)", p.Changes[1].Summary())
}

func TestS7ZramGetsAnEmptyFileInEtcAndTheVendorsStays(t *testing.T) {
	w := world(func(w *hosttest.World) {
		w.Files["/usr/lib/systemd/zram-generator.conf"] = hosttest.File{Content: "[zram0]\n"}
	})
	p := Plan(spec("disable"), observe(t, w))
	c := p.Changes[0].(change.WriteFile)
	require.Equal(t, "/etc/systemd/zram-generator.conf", c.Path)
	require.Empty(t, c.Content)
	require.Nil(t, c.Before)
}

func TestS5UnitsAreNamedAsSystemdDoes(t *testing.T) {
	require.Equal(t, "var-swapfile.swap", unitName("/var/swapfile"))
	require.Equal(t, `dev-mapper-a\x2db.swap`, unitName("/dev/mapper/a-b"))
	require.Equal(t, `srv-my\x20swap.swap`, unitName("/srv/my swap"))
	require.Equal(t, "swap.img.swap", unitName("/swap.img"))
}

func TestS7SwapOfUnknownOriginIsNamedWithItsSuspects(t *testing.T) {
	w := world(func(w *hosttest.World) {
		w.Swaps = []hosttest.Swap{{Area: "/dev/zram0", Kind: "partition"}}
	})
	f := observe(t, w)
	f.Units = map[string]host.Unit{"zramswap.service": {LoadState: "loaded", ActiveState: "active"}}
	p := Plan(spec("disable"), f)
	require.Equal(t, "swapoff:/dev/zram0", ids(p))
	require.Contains(t, strings.Join(p.Warnings, ""), "/dev/zram0")
	require.Contains(t, strings.Join(p.Warnings, ""), "zramswap.service may")
}

func TestFstabKeepsModeOwnerAndLink(t *testing.T) {
	w := world(func(w *hosttest.World) {
		w.Files["/etc/fstab"] = hosttest.File{Link: "/data/fstab"}
		w.Files["/data/fstab"] = hosttest.File{Content: "/a none swap sw 0 0", Mode: "0600", Owner: "root:disk"}
	})
	p := Plan(spec("disable"), observe(t, w))
	c := p.Changes[0].(change.WriteFile)
	require.Equal(t, "/etc/fstab", c.Path)
	require.Equal(t, "0600", c.Mode)
	require.Equal(t, "root:disk", c.Owner)
	require.Equal(t, "disable 1 swap entry in /etc/fstab", c.Summary())
	require.NoError(t, w.Apply(context.Background(), c, nil))
	require.Equal(t, "/data/fstab", w.Files["/etc/fstab"].Link)
}

func TestModeKeepChangesNothingAndTellsOfKubelet(t *testing.T) {
	w := hosttest.Rocky9()
	p := Plan(spec("keep"), observe(t, w))
	require.Empty(t, p.Changes)
	require.Contains(t, strings.Join(p.Warnings, ""), "failSwapOn")
	s := spec("keep")
	s.Kubelet.Config = map[string]any{"failSwapOn": false}
	require.Empty(t, Plan(s, observe(t, w)).Warnings)
}

func TestARunKilledBetweenChangesIsFinishedByTheNext(t *testing.T) {
	reference := hosttest.Rocky9()
	for _, c := range Plan(spec("disable"), observe(t, reference)).Changes {
		require.NoError(t, reference.Apply(context.Background(), c, nil))
	}
	total := len(reference.Log())
	for n := range total {
		w := hosttest.Rocky9()
		for _, c := range Plan(spec("disable"), observe(t, w)).Changes[:n] {
			require.NoError(t, w.Apply(context.Background(), c, nil))
		}
		for _, c := range Plan(spec("disable"), observe(t, w)).Changes {
			require.NoError(t, w.Apply(context.Background(), c, nil))
		}
		require.Equal(t, reference.String(), w.String(), "killed after %d changes", n)
		require.Empty(t, Plan(spec("disable"), observe(t, w)).Changes)
	}
}

func TestUdevsRecordTellsAGPTSwapPartition(t *testing.T) {
	require.True(t, isGPTSwap("S:disk/by-partuuid/x\nE:ID_PART_ENTRY_SCHEME=gpt\nE:ID_PART_ENTRY_TYPE=0657fd6d-a4ab-43c4-84e5-0933c84b4f4f\n"))
	require.False(t, isGPTSwap("E:ID_PART_ENTRY_SCHEME=dos\nE:ID_PART_ENTRY_TYPE=0x82\n"))
}
