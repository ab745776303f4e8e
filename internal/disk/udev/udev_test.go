package udev

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARuleNamesTheDeviceAndNoPathOfAMultipathDevice(t *testing.T) {
	text := Text([]Link{
		{Name: "osd-1", Type: "disk", Key: Env("ID_SERIAL_SHORT"), Value: "S4X 01"},
		{Name: "osd-2", Type: "disk", Key: Multipath, Value: "mpath-36000c29d1f247b0c9a365d2e8f4b1c70"},
		{Name: "osd-3", Type: "partition", Key: Symlink, Value: "disk/by-id/wwn-0x5000-part1"},
	})
	require.Equal(t, Header+
		`ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL_SHORT}=="S4X 01", ENV{DM_MULTIPATH_DEVICE_PATH}!="1", SYMLINK+="disk/by-capv/osd-1"
ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{DM_UUID}=="mpath-36000c29d1f247b0c9a365d2e8f4b1c70", SYMLINK+="disk/by-capv/osd-2"
ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", SYMLINK=="disk/by-id/wwn-0x5000-part1", ENV{DM_MULTIPATH_DEVICE_PATH}!="1", SYMLINK+="disk/by-capv/osd-3"
`, text)
	require.True(t, Ours(text))
	require.Equal(t, Path[strings.LastIndex(Path, "/")+1:], "69-nodeagent-disks.rules", "after 60-persistent-storage and 62-multipath")
	require.Len(t, Parse(text), 3)
}

func TestWhatUdevWouldTakeForAPatternIsNotQuotable(t *testing.T) {
	for _, bad := range []string{"", "a*", "a?b", "[ab]", "a]", "a|b", `a"b`, `a\`, "a\nb", "a\tb", "ä"} {
		require.False(t, Quotable(bad), "%q", bad)
	}
	for _, good := range []string{"S4X", "0x5000c500a1b2c3d4", "disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0", "a b", "50%", "$x", "a,b", "eui.00", "#1"} {
		require.True(t, Quotable(good), "%q", good)
	}
}

// tree is a map of files.
type tree map[string]string

func (t tree) ReadFile(p string) ([]byte, error) {
	if s, ok := t[p]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (t tree) ReadDir(dir string) ([]string, error) {
	var out []string
	for p := range t {
		if path.Dir(p) == dir {
			out = append(out, path.Base(p))
		}
	}
	if out == nil {
		return nil, fs.ErrNotExist
	}
	return out, nil
}

func TestRulesOfOthersThatMakeLinksAreFoundAsUdevReadsThem(t *testing.T) {
	rules, err := Others(tree{
		Path:                                  Text([]Link{{Name: "ours", Type: "disk", Key: Env("ID_WWN"), Value: "0x5"}}),
		"/etc/udev/rules.d/70-site.rules":     "# SYMLINK+=\"disk/by-capv/comment\"\n\nKERNEL==\"sdb\", \\\n  SYMLINK+=\"disk/by-capv/data other\"\n",
		"/usr/lib/udev/rules.d/70-site.rules": "KERNEL==\"sdc\", SYMLINK+=\"disk/by-capv/hidden\"\n",
		"/usr/lib/udev/rules.d/50-capv.rules": "SYMLINK==\"disk/by-capv/only-matched\", ENV{X}=\"1\"\nENV{CAPV}==\"?*\", SYMLINK=\"x disk/by-capv/$env{CAPV}\"",
		"/usr/lib/udev/rules.d/README":        "SYMLINK+=\"disk/by-capv/readme\"\n",
	})
	require.NoError(t, err)
	require.Len(t, rules, 2)
	require.Equal(t, `line 2 of /usr/lib/udev/rules.d/50-capv.rules: ENV{CAPV}=="?*", SYMLINK="x disk/by-capv/$env{CAPV}"`, rules[0].String())
	require.True(t, rules[0].MayMake())
	require.False(t, rules[0].Makes("data"))
	require.Equal(t, `line 3 of /etc/udev/rules.d/70-site.rules: KERNEL=="sdb", SYMLINK+="disk/by-capv/data other"`, rules[1].String())
	require.True(t, rules[1].Makes("data"))
	require.False(t, rules[1].Makes("other"), "that is /dev/other")
	require.False(t, rules[1].MayMake())
}

func TestOnlyLinesAsTextWritesThemAreRead(t *testing.T) {
	ours := Link{Name: "a", Type: "disk", Key: Env("ID_WWN"), Value: "0x5"}
	line := ours.Line()
	for _, other := range []string{line + ", MODE=\"0666\"", " " + line, "#" + line, strings.Replace(line, "0x5", "0x*", 1), strings.Replace(line, notAPath, "", 1)} {
		require.Empty(t, Parse(Header+other+"\n"), other)
	}
	require.Equal(t, []Link{ours}, Parse(Header+line+"\n"))
}

func FuzzAQuotableValueComesBackAndStandsInOneRule(f *testing.F) {
	f.Add("osd", "S4X 01")
	f.Add("a.b-c_d", `x", RUN+="y`)
	f.Fuzz(func(t *testing.T, name, value string) {
		l := Link{Name: name, Type: "disk", Key: Env("ID_SERIAL"), Value: value}
		if !Quotable(value) || !Quotable(name) || strings.ContainsAny(name, "\"\n") {
			return
		}
		text := Text([]Link{l})
		if got := Parse(text); len(got) != 1 || got[0] != l {
			t.Fatalf("%q: %v", text, got)
		}
		if strings.Count(text, `"`) != 12 || strings.Count(text, "\n") != 2 {
			t.Fatalf("%q", text)
		}
	})
}

func FuzzRulesOfOthersAreReadToTheirEnd(f *testing.F) {
	f.Add("KERNEL==\"sdb\", \\\n  SYMLINK+=\"disk/by-capv/data\"\n")
	f.Add("SYMLINK:=e\"disk/by-capv/$name\" \\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range find("/f", text) {
			if r.Line < 1 || r.Line > strings.Count(text, "\n")+1 || !strings.Contains(r.Text, "by-capv") {
				t.Fatalf("%q: %v", text, r)
			}
		}
		Parse(text)
	})
}
