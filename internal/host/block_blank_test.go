package host_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/host"
)

// What is read of a device lies within it, in the order of the disk, and is
// bounded; every two neighbouring parts of 1024 are seen.
func TestWhatMustBeZeroCoversTheWholeDevice(t *testing.T) {
	const mib, gib = int64(1 << 20), int64(1 << 30)
	for _, size := range []int64{512, mib - 512, 64 * mib, 64*mib + 512, 300 * mib, 100*gib + 4096, 2048*gib - 512, 20480 * gib} {
		spans := host.MustBeZero(size)
		require.Equal(t, spans, host.MustBeZero(size), "a second look is the same")
		var last, total, gap, end int64
		for _, s := range spans {
			require.True(t, s.At >= last && s.Size > 0 && s.At+s.Size <= size, "%d: %+v after %d", size, s, last)
			gap = max(gap, s.At-end)
			last, end, total = s.At, max(end, s.At+s.Size), total+s.Size
		}
		require.Equal(t, size, end, "its last byte is read")
		require.Zero(t, spans[0].At)
		require.LessOrEqual(t, gap, size/512+1)
		require.LessOrEqual(t, total, 128*mib)
	}
}

// A disk whose ends were overwritten still holds its data, and the copies of
// its superblock.
func TestADiskThatIsBlankOnlyAtItsEndsIsNotBlank(t *testing.T) {
	const size = 2 << 30
	zeros := make([]byte, 40<<20)
	wipe := func(t *testing.T, dev string, mib int) { at(t, dev, 0, zeros[:mib<<20]) }
	for name, c := range map[string]struct {
		needs string
		fill  func(t *testing.T, dev string)
	}{
		"ext4 without its first MiB": {"mkfs.ext4", func(t *testing.T, dev string) { sh(t, "mkfs.ext4", "-q", dev); wipe(t, dev, 1) }},
		"ext4 without its first 40 MiB, of which only a backup superblock is left": {"mkfs.ext4", func(t *testing.T, dev string) {
			sh(t, "mkfs.ext4", "-q", "-O", "^has_journal", dev)
			wipe(t, dev, 40)
		}},
		"ext4 of small blocks": {"mkfs.ext4", func(t *testing.T, dev string) { sh(t, "mkfs.ext4", "-q", "-b", "1024", dev); wipe(t, dev, 1) }},
		"xfs without its first 40 MiB": {"mkfs.xfs", func(t *testing.T, dev string) {
			sh(t, "mkfs.xfs", "-q", dev)
			wipe(t, dev, 40)
		}},
		"btrfs without its first MiB":                    {"mkfs.btrfs", func(t *testing.T, dev string) { sh(t, "mkfs.btrfs", "-q", dev); wipe(t, dev, 1) }},
		"a filesystem where a partition was":             {"mkfs.ext4", func(t *testing.T, dev string) { sh(t, "mkfs.ext4", "-q", "-E", "offset=1048576", dev, "64M") }},
		"data in the middle":                             {"", func(t *testing.T, dev string) { at(t, dev, size/2, random(t, 4<<20)) }},
		"a single byte behind a partition table's place": {"", func(t *testing.T, dev string) { at(t, dev, 3<<20, []byte{1}) }},
	} {
		t.Run(name, func(t *testing.T) {
			needLoops(t)
			if c.needs != "" {
				needLoops(t, c.needs)
			}
			b := newBench(t)
			dev := b.disk(t, size)
			c.fill(t, dev)
			head := make([]byte, 1<<20)
			f, err := os.Open(dev)
			require.NoError(t, err)
			_, err = f.ReadAt(head, 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Equal(t, zeros[:1<<20], head)
			before := b.sum(t, dev)
			p := planOn(t, b, wanted("ext4", "na-middle", t.TempDir()+"/data"))
			require.Empty(t, formatsOf(p))
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], "something may be on it that no tool knows")
			t.Log(p.Blocked[0])
			require.Equal(t, before, b.sum(t, dev))
		})
	}
}
