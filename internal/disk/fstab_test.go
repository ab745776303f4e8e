package disk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

func TestFstabIsReadWithTabsCommentsShortLinesAndNoFinalNewline(t *testing.T) {
	got := ParseFstab("# header\n\nUUID=0f1e\t/\txfs\tdefaults\t0\t0\n  LABEL=x  /mnt/with\\040blank/  ext4\n/swap.img none swap sw 0 0\nbroken line\n/dev/sdb /data xfs noatime,comment=cloudconfig")
	require.Len(t, got, 4)
	require.Equal(t, FstabEntry{Line: 3, Text: "UUID=0f1e\t/\txfs\tdefaults\t0\t0", Source: "UUID=0f1e", Target: "/", Type: "xfs", Options: []string{"defaults"}}, got[0])
	require.Equal(t, "/mnt/with blank", got[1].Target)
	require.Equal(t, "none", got[2].Target)
	require.True(t, got[3].has("comment=cloudconfig"))
	require.Empty(t, ParseFstab(""))
}

func FuzzParseFstab(f *testing.F) {
	f.Add("UUID=0f1e\t/\txfs\tdefaults\t0\t0\nLABEL=x  /mnt/with\\040blank/  ext4")
	f.Fuzz(func(t *testing.T, s string) {
		for _, e := range ParseFstab(s) {
			if e.Line < 1 || e.Type == "" || strings.HasPrefix(strings.TrimSpace(e.Text), "#") {
				t.Fatalf("%+v", e)
			}
			means(e.Source, config.Disk{}, host.BlockDevice{}, "")
		}
	})
}
