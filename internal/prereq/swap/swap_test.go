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

func spec() config.Spec { return config.Default().Spec }

func ids(p change.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return out
}

func TestOnlySwapEntriesOfFstabAreTakenOut(t *testing.T) {
	for name, c := range map[string]struct {
		in, want string
		n        int
	}{
		"S1 the type is field 3": {
			"/swap.img      none    swap    sw      0       0\n/dev/mapper/cl-swap     swap     swap    defaults 0 0\n",
			mark + "/swap.img      none    swap    sw      0       0\n" + mark + "/dev/mapper/cl-swap     swap     swap    defaults 0 0\n", 2},
		"S2 a target none alone is no swap": {
			"/a none swap sw 0 0\n/b none swap sw 0 0\ntmpfs none tmpfs defaults 0 0\n",
			mark + "/a none swap sw 0 0\n" + mark + "/b none swap sw 0 0\ntmpfs none tmpfs defaults 0 0\n", 2},
		"S3 comments and names with swap stay": {
			"# swap was on /dev/sda2 during installation\nUUID=8f9a1217-aaaa none swap sw 0 0\nLABEL=swapdata /srv/swap xfs defaults 0 0\n",
			"# swap was on /dev/sda2 during installation\n" + mark + "UUID=8f9a1217-aaaa none swap sw 0 0\nLABEL=swapdata /srv/swap xfs defaults 0 0\n", 1},
		"tabs, three fields, no final newline":  {"/s\tnone\tswap", mark + "/s\tnone\tswap", 1},
		"carriage returns and blank lines":      {"\r\n\n/s none swap sw 0 0\r\n", "\r\n\n" + mark + "/s none swap sw 0 0\r\n", 1},
		"a comment behind a hash without space": {"#/s none swap sw 0 0\n", "#/s none swap sw 0 0\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, n := disable(c.in)
			require.Equal(t, c.want, got)
			require.Equal(t, c.n, n)
			again, n := disable(got)
			require.Equal(t, got, again)
			require.Zero(t, n)
		})
	}
}

func TestS4NoFstabIsNoErrorAndAreasAreStillTurnedOff(t *testing.T) {
	w := hosttest.Rocky9()
	delete(w.Files, "/etc/fstab")
	f, err := Observe(context.Background(), w, spec())
	require.NoError(t, err)
	require.Contains(t, ids(Plan(spec(), f)), "swapoff:/swap.img")
}

func TestS5UnitNamesAreEscapedAsSystemdDoes(t *testing.T) {
	require.Equal(t, "var-swapfile.swap", unitOf("/var/swapfile"))
	require.Equal(t, `dev-mapper-a\x2db.swap`, unitOf("/dev/mapper/a-b"))
	areas := active("Filename Type Size Used Priority\n/var/swapfile  file  65532  0  -2\n/my\\040swap file 1 0 -3\n")
	require.Equal(t, []Area{{"/var/swapfile", "file"}, {"/my swap", "file"}}, areas)
}

func TestS6SwapOfThePartitionTableIsMaskedAndItsBytesLeft(t *testing.T) {
	f := Facts{Areas: []Area{{"/dev/sda3", "partition"}}, Units: map[string]host.Unit{
		"dev-sda3.swap": {LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", FragmentPath: "/run/systemd/generator.late/dev-sda3.swap", What: "/dev/sda3"}}}
	require.Equal(t, []string{"mask:dev-sda3.swap", "swapoff:/dev/sda3"}, ids(Plan(spec(), f)))
	f.Areas = nil
	f.Units["dev-sda3.swap"] = host.Unit{LoadState: "masked", UnitFileState: "masked"}
	require.True(t, Plan(spec(), f).Empty())
}

func TestS7ZramGetsAnEmptyFileInEtcAndTheVendorsStays(t *testing.T) {
	w := hosttest.Rocky9()
	vendor := "/usr/lib/systemd/zram-generator.conf"
	w.Files[vendor] = hosttest.File{Content: "[zram0]\nzram-size = min(ram, 8192)\n"}
	w.Swaps = append(w.Swaps, hosttest.Swap{Area: "/dev/zram0", Kind: "partition", Unit: "dev-zram0.swap"})
	f, err := Observe(context.Background(), w, spec())
	require.NoError(t, err)
	p := Plan(spec(), f)
	require.Contains(t, ids(p), "file:"+zramEtc)
	require.Contains(t, ids(p), "swapoff:/dev/zram0")
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
	require.Equal(t, "[zram0]\nzram-size = min(ram, 8192)\n", w.Files[vendor].Content)
	require.Equal(t, "", w.Files[zramEtc].Content)
	f, err = Observe(context.Background(), w, spec())
	require.NoError(t, err)
	require.True(t, Plan(spec(), f).Empty(), "%v", ids(Plan(spec(), f)))
}

func TestAnAdministratorsOwnSwapUnitIsDisabledNotMasked(t *testing.T) {
	f := Facts{Units: map[string]host.Unit{"old.swap": {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/etc/systemd/system/old.swap"}}}
	require.Equal(t, []string{"unit:old.swap"}, ids(Plan(spec(), f)))
}

func TestKeepLeavesSwapAndWarnsOfTheKubelet(t *testing.T) {
	s := spec()
	s.Swap.Mode = "keep"
	f, err := Observe(context.Background(), hosttest.Rocky9(), s)
	require.NoError(t, err)
	p := Plan(s, f)
	require.Empty(t, p.Changes)
	require.Len(t, p.Warnings, 1)
}

func FuzzDisableTouchesNothingButSwapEntries(f *testing.F) {
	f.Add("/s none swap sw 0 0\n# c\n")
	f.Fuzz(func(t *testing.T, s string) {
		got, n := disable(s)
		if strings.ReplaceAll(got, mark, "") != strings.ReplaceAll(s, mark, "") {
			t.Fatalf("%q became %q", s, got)
		}
		if _, again := disable(got); again != 0 || strings.Count(got, mark) < n {
			t.Fatalf("%q is not settled", got)
		}
	})
}

func FuzzActive(f *testing.F) {
	f.Add("Filename\n/my\\040swap file 1 0 -3\n")
	f.Fuzz(func(_ *testing.T, s string) { active(s) })
}
