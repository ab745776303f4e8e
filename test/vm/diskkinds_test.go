package vm_test

import (
	bin "encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// content is what a disk of the matrix holds. Its name is the disk's serial.
type content struct {
	name     string
	mib      int // 0: contentMiB
	fill     func(t *testing.T, image string)
	evidence string // what the refusal must say
	always   bool   // in the representative set too
}

// shell fills an image with real tools: $1 is the image, which has its size
// already, and the working directory has a file `data` and nothing else.
func shell(script string) func(t *testing.T, image string) {
	return func(t *testing.T, image string) {
		t.Helper()
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "data"), []byte("the only copy\n"), 0o600))
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script, "sh", image)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s (does the machine have the tools that .ci/setup installs?)", script, err, out)
		}
	}
}

// archive writes a read-only filesystem into a file of its own first: its tools
// make files, not disks.
func archive(script string) func(t *testing.T, image string) {
	return shell("mkdir tree; mv data tree; " + script + `; dd if=out of="$1" conv=notrunc status=none`)
}

// bytesAt writes signatures for which Debian has no tool, at the places where
// libblkid looks for them (util-linux, libblkid/src/superblocks).
func bytesAt(parts map[int64][]byte) func(t *testing.T, image string) {
	return func(t *testing.T, image string) {
		t.Helper()
		f := must(os.OpenFile(image, os.O_WRONLY, 0))(t)
		for at, b := range parts {
			must(f.WriteAt(b, at))(t)
		}
		check(t, f.Close())
	}
}

// noise is data that nobody knows; the same in each run.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i+8 <= n; i += 8 {
		bin.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}

func filled(c byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = c
	}
	return b
}

// zfsLabels is four labels of 256 KiB, two at each end, with the uberblocks
// that libblkid counts (zfs.c).
func zfsLabels(size int64) map[int64][]byte {
	parts := map[int64][]byte{}
	for _, label := range []int64{0, 256 << 10, size - 512<<10, size - 256<<10} {
		ring := make([]byte, 128<<10)
		for i := 0; i < len(ring); i += 1024 {
			bin.LittleEndian.PutUint64(ring[i:], 0x00bab10c)
			bin.LittleEndian.PutUint64(ring[i+8:], 5000)
		}
		parts[label+128<<10] = ring
	}
	return parts
}

// bitlocker is the head of a Windows 7 volume and the FVE block it points to
// (bitlocker.c).
func bitlocker() map[int64][]byte {
	head := make([]byte, 512)
	copy(head, "\xeb\x58\x90-FVE-FS-")
	copy(head[160:], "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01")
	bin.LittleEndian.PutUint64(head[176:], 1<<20)
	copy(head[510:], "\x55\xaa")
	return map[int64][]byte{0: head, 1 << 20: []byte("-FVE-FS-\x40\x00\x02\x00")}
}

// unknown is what is said of bytes without a signature.
const unknown = "something may be on it that no tool knows"

// Sizes of the disks, unless a format needs more.
const contentMiB, stateMiB = 72, 64

// contents are the kinds of content, each made by the real tool of that format
// unless it comes from bytesAt.
var contents = []content{
	{name: "ext2", fill: shell(`mkfs.ext2 -q "$1"`), evidence: "ext2"},
	{name: "ext3", fill: shell(`mkfs.ext3 -q "$1"`), evidence: "ext3"},
	{name: "ext4-data", fill: shell(`mkfs.ext4 -q -L precious -d . "$1"`), evidence: `ext4 labelled "precious"`, always: true},
	{name: "ext4-nolabel", fill: shell(`mkfs.ext4 -q "$1"`), evidence: "ext4 without a label"},
	{name: "xfs", mib: 320, fill: shell(`mkfs.xfs -q -L precious "$1"`), evidence: `xfs labelled "precious"`},
	{name: "xfs-same", mib: 320, fill: shell(`mkfs.xfs -q -L xfs-same "$1"`), evidence: `xfs labelled "xfs-same"`},
	{name: "btrfs", mib: 128, fill: shell(`mkfs.btrfs -q "$1"`), evidence: "btrfs"},
	{name: "vfat", fill: shell(`mkfs.vfat "$1"`), evidence: "vfat", always: true},
	{name: "exfat", fill: shell(`mkfs.exfat "$1"`), evidence: "exfat"},
	{name: "ntfs", fill: shell(`mkntfs -F -f -q "$1"`), evidence: "ntfs"},
	{name: "iso9660", fill: archive(`xorriso -as mkisofs -quiet -R -o out tree`), evidence: "iso9660"},
	{name: "udf", fill: shell(`mkudffs "$1"`), evidence: "udf"},
	{name: "squashfs", fill: archive(`mksquashfs tree out -quiet -no-progress`), evidence: "squashfs"},
	{name: "erofs", fill: archive(`mkfs.erofs out tree`), evidence: "erofs"},
	{name: "cramfs", fill: archive(`mkfs.cramfs tree out`), evidence: "cramfs"},
	{name: "f2fs", fill: shell(`mkfs.f2fs -q "$1"`), evidence: "f2fs"},
	{name: "jfs", fill: shell(`jfs_mkfs -q "$1"`), evidence: "jfs"},
	{name: "reiserfs", fill: shell(`mkreiserfs -q -f -f "$1"`), evidence: "reiserfs"},
	{name: "nilfs2", mib: 256, fill: shell(`mkfs.nilfs2 -q "$1"`), evidence: "nilfs2"},
	{name: "minix", fill: shell(`mkfs.minix "$1"`), evidence: "minix"},
	{name: "bfs", fill: shell(`mkfs.bfs "$1"`), evidence: "bfs"},
	{name: "swap", fill: shell(`mkswap -q "$1"`), evidence: "swap"},

	{name: "luks1", fill: shell(`echo pw | cryptsetup luksFormat --type luks1 -q --pbkdf-force-iterations 1000 "$1" -`), evidence: "crypto_LUKS"},
	{name: "luks2", fill: shell(`echo pw | cryptsetup luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -`), evidence: "crypto_LUKS", always: true},
	{name: "luks2-second-header", fill: shell(`echo pw | cryptsetup luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -
dd if=/dev/zero of="$1" bs=4096 count=1 conv=notrunc status=none`), evidence: "crypto_LUKS"},
	{name: "verity", fill: shell(`head -c 1M /dev/urandom >d; veritysetup format d "$1"`), evidence: "DM_verity_hash"},
	{name: "bcache-backing", fill: shell(`make-bcache -B "$1"`), evidence: "bcache"},
	{name: "bcache-cache", fill: shell(`make-bcache -C "$1"`), evidence: "bcache"},
	{name: "drbd", fill: shell(`drbdmeta --force 0 v08 "$1" internal create-md 1`), evidence: "drbd"},
	{name: "zfs", fill: bytesAt(zfsLabels(contentMiB << 20)), evidence: "zfs_member", always: true},
	{name: "ceph-bluestore", fill: bytesAt(map[int64][]byte{0: []byte("bluestore block device\na3c8b1de-6f0b-5c54-9a5e-2f7d1c94e6b0\n")}), evidence: "ceph_bluestore", always: true},
	{name: "bitlocker", fill: bytesAt(bitlocker()), evidence: "BitLocker"},
	{name: "vmfs-volume", fill: bytesAt(map[int64][]byte{1 << 20: []byte("\x0d\xd0\x01\xc0\x03\x00\x00\x00")}), evidence: "VMFS_volume_member"},
	{name: "vmfs", fill: bytesAt(map[int64][]byte{2 << 20: []byte("\x5e\xf1\xab\x2f\x0e\x00\x00\x00")}), evidence: "VMFS"},
	{name: "vdo", fill: bytesAt(map[int64][]byte{0: []byte("dmvdo001"), 4096: noise(4096)}), evidence: "vdo"},
	{name: "oracleasm", fill: bytesAt(map[int64][]byte{32: []byte("ORCLDISKVOL1")}), evidence: "oracleasm"},
	{name: "lvm-snapshot", fill: bytesAt(map[int64][]byte{0: []byte("SnAp\x01\x00\x00\x00\x01\x00\x00\x00")}), evidence: "DM_snapshot_cow"},

	{name: "gpt", fill: shell(`printf 'label: gpt\n' | sfdisk -q "$1"`), evidence: "gpt", always: true},
	{name: "gpt-partition", fill: shell(`printf 'label: gpt\n,\n' | sfdisk -q "$1"`), evidence: "1 is on it"},
	{name: "gpt-backup-only", fill: shell(`printf 'label: gpt\n,\n' | sfdisk -q "$1"; dd if=/dev/zero of="$1" bs=512 count=34 conv=notrunc status=none`), evidence: "gpt", always: true},
	{name: "mbr", fill: shell(`printf 'label: dos\n' | sfdisk -q "$1"`), evidence: "dos"},
	{name: "mbr-partition", fill: shell(`printf 'label: dos\n,\n' | sfdisk -q "$1"`), evidence: "1 is on it"},
	{name: "sun", fill: shell(`printf 'label: sun\n' | sfdisk -q "$1"`), evidence: "sun"},
	{name: "sgi", fill: shell(`printf 'label: sgi\n' | sfdisk -q "$1"`), evidence: "sgi"},

	{name: "random", fill: bytesAt(map[int64][]byte{0: noise(contentMiB << 20)}), evidence: unknown, always: true},
	{name: "random-middle", mib: 320, fill: bytesAt(map[int64][]byte{150 << 20: noise(4 << 20)}), evidence: unknown, always: true},
	{name: "all-ff", fill: bytesAt(map[int64][]byte{0: filled(0xff, contentMiB<<20)}), evidence: unknown},
	{name: "tar", fill: archive(`tar -cf out tree`), evidence: unknown},
	{name: "last-byte", fill: bytesAt(map[int64][]byte{contentMiB<<20 - 1: {1}}), evidence: unknown},
	{name: "ext4-wipefs", fill: shell(`mkfs.ext4 -q -d . "$1"; wipefs -qa "$1"`), evidence: unknown},
	{name: "ext4-no-first-mib", mib: 320, fill: shell(`mkfs.ext4 -q -d . "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc status=none`), evidence: unknown, always: true},
	{name: "ext4-backup-only", mib: 320, fill: shell(`mkfs.ext4 -q -O ^has_journal "$1"; dd if=/dev/zero of="$1" bs=1M count=100 conv=notrunc status=none`), evidence: unknown, always: true},
	{name: "xfs-no-first-mib", mib: 320, fill: shell(`mkfs.xfs -q "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc status=none`), evidence: unknown},
	{name: "xfs-secondary-only", mib: 320, fill: shell(`mkfs.xfs -q "$1"; dd if=/dev/zero of="$1" bs=1M count=70 conv=notrunc status=none`), evidence: unknown, always: true},
	{name: "btrfs-mirror-only", mib: 128, fill: shell(`mkfs.btrfs -q "$1"; dd if=/dev/zero of="$1" bs=1M count=32 conv=notrunc status=none`), evidence: unknown},
	{name: "lost-partition", fill: shell(`mkfs.ext4 -q -E offset=1048576 -d . "$1" 32M`), evidence: unknown},
	{name: "ext4-under-zfs", fill: func(t *testing.T, image string) {
		shell(`mkfs.ext4 -q "$1"`)(t, image)
		bytesAt(zfsLabels(contentMiB<<20))(t, image)
	}, evidence: "ext4"},
	{name: "ext4-under-bluestore", fill: func(t *testing.T, image string) {
		shell(`mkfs.ext4 -q "$1"`)(t, image)
		bytesAt(map[int64][]byte{0: []byte("bluestore block device\n")})(t, image)
	}, evidence: "ext4"},
}
