package swap

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlySwapEntriesOfFstabAreTakenOut(t *testing.T) {
	const off = disabledPrefix
	for name, c := range map[string]struct{ before, after string }{
		"S1 the type is field 3": {
			"/swap.img      none    swap    sw      0       0\n/dev/mapper/cl-swap     swap     swap    defaults 0 0\n",
			off + "/swap.img      none    swap    sw      0       0\n" + off + "/dev/mapper/cl-swap     swap     swap    defaults 0 0\n"},
		"S2 two files, and a target that is none": {
			"/a none swap sw 0 0\n/b none swap sw 0 0\noverlay none overlay defaults 0 0\n",
			off + "/a none swap sw 0 0\n" + off + "/b none swap sw 0 0\noverlay none overlay defaults 0 0\n"},
		"S3 the word swap elsewhere": {
			"# swap was on /dev/sda2 during installation\nUUID=8f9a1217-0000-4000-8000-000000000000 none swap sw 0 0\nLABEL=swapdata /srv/swap xfs defaults 0 0\n",
			"# swap was on /dev/sda2 during installation\n" + off + "UUID=8f9a1217-0000-4000-8000-000000000000 none swap sw 0 0\nLABEL=swapdata /srv/swap xfs defaults 0 0\n"},
		"tabs":                    {"/swap.img\tnone\tswap\tsw\t0\t0\n", off + "/swap.img\tnone\tswap\tsw\t0\t0\n"},
		"no final newline":        {"/dev/sda1 / xfs defaults 0 0\n/swap none swap sw 0 0", "/dev/sda1 / xfs defaults 0 0\n" + off + "/swap none swap sw 0 0"},
		"indented, three fields":  {"  /swap none swap\n", off + "  /swap none swap\n"},
		"blank lines and returns": {"\n\t\n/swap none swap sw 0 0\r\n\n", "\n\t\n" + off + "/swap none swap sw 0 0\r\n\n"},
		"a mount point swap":      {"/dev/sdb1 swap xfs defaults 0 0\n", "/dev/sdb1 swap xfs defaults 0 0\n"},
		"a comment, not spaced":   {"#/swap none swap sw 0 0\n", "#/swap none swap sw 0 0\n"},
		"empty":                   {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			after, n := withoutSwap(c.before)
			require.Equal(t, c.after, after)
			require.Equal(t, strings.Count(c.after, off), n)
			again, n := withoutSwap(after)
			require.Equal(t, after, again)
			require.Zero(t, n, "a second time changes nothing")
			require.Equal(t, c.before, strings.ReplaceAll(after, off, ""), "taking the prefix away undoes it")
		})
	}
}

func TestFstabDevicesHaveTheNamesOfTheGenerator(t *testing.T) {
	require.Equal(t, map[string]bool{"/dev/disk/by-uuid/1-2": true, "/swap file": true, "/dev/disk/by-label/s": true, "/dev/mapper/a-b": true},
		fstabDevices("UUID=1-2 none swap sw\n"+disabledPrefix+`/swap\040file none swap sw`+"\nLABEL=\"s\" none swap sw\n/dev/mapper/a-b none swap sw\nLABEL=x / xfs\n"))
}

func FuzzFstabKeepsEveryByteThatIsNotSwap(f *testing.F) {
	f.Add("/a none swap sw 0 0\n# x\n")
	f.Add("\t/a\tnone\tswap")
	f.Fuzz(func(t *testing.T, text string) {
		after, n := withoutSwap(text)
		if len(after) != len(text)+n*len(disabledPrefix) {
			t.Fatalf("%q → %q with %d entries", text, after, n)
		}
		if again, n := withoutSwap(after); n != 0 || again != after {
			t.Fatalf("%q → %q → %q", text, after, again)
		}
	})
}

func TestZramSectionsThatMakeSwapGo(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		removed       int
	}{
		"S7 the vendor's":         {"# comment\n[zram0]\nzram-size = min(ram, 8192)\n", "", 1},
		"a mount keeps":           {"[zram1]\nmount-point = /var/tmp\n", "[zram1]\nmount-point = /var/tmp\n", 0},
		"both":                    {"[zram0]\nzram-size=ram/2\n\n[zram1]\nfs-type = ext4\nmount-point=/x\n", "[zram1]\nfs-type = ext4\nmount-point=/x\n", 1},
		"fs-type swap is swap":    {"[zram0]\nfs-type=swap\n", "", 1},
		"empty":                   {"", "", 0},
		"no section of a device":  {"[other]\na=b\n", "[other]\na=b\n", 0},
		"set-property is ignored": {"[zram0]\nhost-memory-limit = none\n[zram1]\n", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			after, n := withoutZramSwap(c.before)
			require.Equal(t, c.after, after)
			require.Equal(t, c.removed, n)
		})
	}
}

func FuzzZramEditIsFinal(f *testing.F) {
	f.Add("[zram0]\nfs-type=ext4\n[zram1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		after, _ := withoutZramSwap(text)
		if again, n := withoutZramSwap(after); n != 0 || again != after {
			t.Fatalf("%q → %q → %q (%d)", text, after, again, n)
		}
	})
}
