package area

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

func TestProcSwapsIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Area
	}{
		"none":       {heading, nil},
		"empty file": {"", nil},
		"S5 a file":  {heading + "/var/swapfile                           file\t\t65532\t\t0\t\t-2\n", []Area{{Path: "/var/swapfile", Kind: "file", SizeKiB: 65532}}},
		"two kinds": {heading + "/dev/dm-1                               partition\t8388604\t\t1024\t\t-2\n/swap.img file 4194300 0 -3\n",
			[]Area{{Path: "/dev/dm-1", Kind: "partition", SizeKiB: 8388604, UsedKiB: 1024}, {Path: "/swap.img", Kind: "file", SizeKiB: 4194300}}},
		"a blank in the path": {heading + `/srv/my\040swap file 1020 0 -2` + "\n", []Area{{Path: "/srv/my swap", Kind: "file", SizeKiB: 1020}}},
		"a removed file":      {heading + `/swap.img\040(deleted) file 1020 0 -2` + "\n", []Area{{Path: "/swap.img", Kind: "file", SizeKiB: 1020, Deleted: true}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Parse(c.text)) })
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add(heading + `/a\040b file 1 2 3`)
	f.Add(heading + `\0`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range Parse(text) {
			_ = Unescape(a.Path)
		}
	})
}
