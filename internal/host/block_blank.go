package host

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

// span is a range of bytes of a device.
type span struct{ at, size int64 }

const (
	blankHead  = 32 * mib // where partitions, volumes and most superblocks begin
	blankTail  = 4 * mib  // where backup tables and RAID, DRBD and ZFS metadata end
	blankSpot  = 64 << 10 // one read; disks take as long for less
	blankSpots = 1024     // as many equal parts of the device are looked into
	gib        = 1024 * mib
)

// mustBeZero returns what is read of a device before it counts as blank, in
// the order of the disk, within the device: its head and its tail; the places
// where filesystems keep the copies of a superblock that somebody has erased;
// and one spot in each of 1024 equal parts. So data that covers two
// neighbouring parts, 1/512 of the device, is always seen, and anything
// larger than a spot mostly. The spots depend on the size alone: a second look
// sees what the first saw. Reading everything would take a disk hours.
func mustBeZero(size int64) []span {
	spans := []span{{0, min(size, blankHead)}, {max(0, size-blankTail), min(size, blankTail)}}
	if size <= blankSpots*blankSpot {
		return []span{{0, size}}
	}
	add := func(at int64) {
		if at > 0 && at < size {
			spans = append(spans, span{at, min(blankSpot, size-at)})
		}
	}
	// ext4(5), sparse_super: groups 1 and the powers of 3, 5 and 7; a group of
	// 1, 2 or 4 KiB blocks spans 8, 32 or 128 MiB.
	for _, group := range []int64{8 * mib, 32 * mib, 128 * mib} {
		add(group)
		for _, base := range []int64{3, 5, 7} {
			for n := base; n < size/group+1; n *= base {
				add(n * group)
			}
		}
	}
	// mkfs.xfs(8), agcount: the device in 4, 8, 16 or 32 equal groups, none
	// larger than 1 TiB; each begins with a superblock.
	for _, count := range []int64{4, 8, 16, 32} {
		blocks := size / 4096
		for n := range count {
			add(n * ((blocks + count - 1) / count) * 4096)
		}
	}
	for at := int64(1024 * gib); at < size; at += 1024 * gib {
		add(at)
	}
	add(64 * mib)  // btrfs' second superblock
	add(256 * gib) // and its third
	add(3 * gib)   // where NTFS mostly has its file table
	random := rand.New(rand.NewPCG(uint64(size), blankSpots))
	for n := range int64(blankSpots) {
		from, to := size/blankSpots*n, size/blankSpots*(n+1)
		at := from + random.Int64N(max(1, to-from-blankSpot))
		add(at / 4096 * 4096)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	return spans
}

// firstNonZero returns the offset of a byte that is not zero among what
// mustBeZero names, or -1.
func firstNonZero(f io.ReaderAt, size int64) (int64, error) {
	block, zeros := make([]byte, mib), make([]byte, mib)
	for _, s := range mustBeZero(size) {
		for at := s.at; at < s.at+s.size; {
			b := block[:min(int64(len(block)), s.at+s.size-at)]
			if _, err := f.ReadAt(b, at); err != nil {
				return -1, fmt.Errorf("reading at %d: %w", at, err)
			}
			if !bytes.Equal(b, zeros[:len(b)]) {
				return at + int64(slices.IndexFunc(b, func(c byte) bool { return c != 0 })), nil
			}
			at += int64(len(b))
		}
	}
	return -1, nil
}
