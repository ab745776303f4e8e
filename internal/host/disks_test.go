package host_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/run/journal"
)

const imageSize = 320 << 20

func wanted(fstype, label, mountPath string) config.Disk {
	return config.Disk{Name: label, Select: config.DiskSelect{Blank: &config.Blank{}}, Filesystem: config.Filesystem{Type: fstype, Label: label}, MountPath: mountPath}
}

func planOn(t *testing.T, b *bench, disks ...config.Disk) change.Plan {
	t.Helper()
	spec := config.Spec{Disks: disks}
	f, err := disk.Observe(context.Background(), b, spec)
	require.NoError(t, err)
	return disk.Plan(spec, f)
}

func formatsOf(p change.Plan) (out []change.MakeFilesystem) {
	for _, c := range p.Changes {
		if m, ok := c.(change.MakeFilesystem); ok {
			out = append(out, m)
		}
	}
	return out
}

func TestARealBlankDiskIsFormattedAndAdoptedOnTheNextRun(t *testing.T) {
	for _, fstype := range []string{"xfs", "ext4"} {
		t.Run(fstype, func(t *testing.T) {
			needLoops(t, "mkfs."+fstype)
			b := newBench(t)
			dev := b.disk(t, imageSize)
			d := wanted(fstype, "na-"+fstype, t.TempDir()+"/data")
			formats := formatsOf(planOn(t, b, d))
			require.Len(t, formats, 1)
			require.Equal(t, b.place(t, dev), formats[0].Device)
			b.playUdev(t, d.Filesystem.Label, dev)
			require.NoError(t, b.MakeFilesystem(t.Context(), formats[0]))
			checkFilesystem(t, fstype, dev)
			require.Equal(t, formats[0].UUID, sh(t, "blkid", "-p", "-o", "value", "-s", "UUID", dev))

			again := planOn(t, b, d)
			require.Empty(t, again.Blocked)
			require.Empty(t, formatsOf(again))
			require.Equal(t, formats[0].UUID, again.Changes[len(again.Changes)-1].(change.Mount).UUID)

			before := b.sum(t, dev)
			err := b.MakeFilesystem(t.Context(), formats[0])
			require.Equal(t, fail.Safety, fail.KindOf(err), "%v", err)
			require.ErrorContains(t, err, fstype+" labelled")
			require.Equal(t, before, b.sum(t, dev))
		})
	}
}

// at writes bytes into a device.
func at(t *testing.T, dev string, offset int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(dev, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, offset)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// gpt writes an empty GUID partition table: UEFI specification, chapter 5.
func gpt(t *testing.T, dev string, size int64) {
	sectors := uint64(size / 512)
	entries := make([]byte, 128*128)
	mbr := make([]byte, 512)
	mbr[446+4] = 0xee
	binary.LittleEndian.PutUint32(mbr[446+8:], 1)
	binary.LittleEndian.PutUint32(mbr[446+12:], uint32(sectors-1))
	mbr[510], mbr[511] = 0x55, 0xaa
	header := func(self, other, table uint64) []byte {
		h := make([]byte, 512)
		copy(h, "EFI PART")
		binary.LittleEndian.PutUint32(h[8:], 0x10000)
		binary.LittleEndian.PutUint32(h[12:], 92)
		binary.LittleEndian.PutUint64(h[24:], self)
		binary.LittleEndian.PutUint64(h[32:], other)
		binary.LittleEndian.PutUint64(h[40:], 34)
		binary.LittleEndian.PutUint64(h[48:], sectors-34)
		h[56] = 7
		binary.LittleEndian.PutUint64(h[72:], table)
		binary.LittleEndian.PutUint32(h[80:], 128)
		binary.LittleEndian.PutUint32(h[84:], 128)
		binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	at(t, dev, 0, mbr)
	at(t, dev, 512, header(1, sectors-1, 2))
	at(t, dev, size-512, header(sectors-1, 1, sectors-33))
}

// lvm writes the label of an LVM physical volume, with its checksum.
func lvm(t *testing.T, dev string) {
	l := make([]byte, 512)
	copy(l, "LABELONE")
	binary.LittleEndian.PutUint64(l[8:], 1)
	binary.LittleEndian.PutUint32(l[20:], 32)
	copy(l[24:], "LVM2 001")
	copy(l[32:], "0123456789abcdef0123456789abcdef")
	binary.LittleEndian.PutUint32(l[16:], ^crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, l[20:]))
	at(t, dev, 512, l)
}

// raid writes the head of a version 1.2 md superblock.
func raid(t *testing.T, dev string) {
	sb := make([]byte, 4096)
	binary.LittleEndian.PutUint32(sb, 0xa92b4efc)
	binary.LittleEndian.PutUint32(sb[4:], 1)
	copy(sb[16:], "0123456789abcdef")
	binary.LittleEndian.PutUint64(sb[144:], 8)
	at(t, dev, 4096, sb)
}

func TestARealDiskThatHoldsAnythingKeepsEveryByte(t *testing.T) {
	const label = "na-refused"
	for name, c := range map[string]struct {
		needs    string
		fill     func(t *testing.T, dev string)
		evidence string
	}{
		"ext4 with data where xfs is asked": {"mkfs.ext4", func(t *testing.T, dev string) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), []byte("the only copy\n"), 0o600))
			sh(t, "mkfs.ext4", "-q", "-L", "precious", "-d", dir, dev)
		}, `ext4 labelled "precious"`},
		"ext4 with the wanted label":       {"mkfs.ext4", func(t *testing.T, dev string) { sh(t, "mkfs.ext4", "-q", "-L", label, dev) }, `ext4 labelled "na-refused"`},
		"xfs with another label":           {"mkfs.xfs", func(t *testing.T, dev string) { sh(t, "mkfs.xfs", "-q", "-L", "other", dev) }, `xfs labelled "other"`},
		"vfat":                             {"mkfs.vfat", func(t *testing.T, dev string) { sh(t, "mkfs.vfat", dev) }, "vfat"},
		"swap":                             {"mkswap", func(t *testing.T, dev string) { sh(t, "mkswap", dev) }, "swap"},
		"a GPT and nothing else":           {"", func(t *testing.T, dev string) { gpt(t, dev, imageSize) }, "gpt partition table"},
		"only the backup GPT":              {"", func(t *testing.T, dev string) { gpt(t, dev, imageSize); at(t, dev, 0, make([]byte, 1024)) }, ""},
		"an LVM physical volume":           {"", lvm, "LVM2_member"},
		"a RAID member":                    {"", raid, ""},
		"ceph bluestore":                   {"", func(t *testing.T, dev string) { at(t, dev, 0, []byte("bluestore block device\n")) }, "ceph_bluestore"},
		"random bytes":                     {"", func(t *testing.T, dev string) { at(t, dev, 0, random(t, 1<<20)) }, ""},
		"one byte at the end":              {"", func(t *testing.T, dev string) { at(t, dev, imageSize-1, []byte{1}) }, "not all zeros"},
		"an LVM volume under a stale ext4": {"mkfs.ext4", func(t *testing.T, dev string) { sh(t, "mkfs.ext4", "-q", dev); lvm(t, dev) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			needLoops(t)
			if c.needs != "" {
				needLoops(t, c.needs)
			}
			b := newBench(t)
			dev := b.disk(t, imageSize)
			c.fill(t, dev)
			sh(t, "sync", dev)
			before := b.sum(t, dev)

			p := planOn(t, b, wanted("xfs", label, t.TempDir()+"/data"))
			require.Empty(t, formatsOf(p))
			require.Len(t, p.Blocked, 1)
			require.Equal(t, fail.Safety, fail.KindOf(p.Blocked[0]))
			require.ErrorContains(t, p.Blocked[0], b.place(t, dev))
			require.ErrorContains(t, p.Blocked[0], c.evidence)
			t.Log(p.Blocked[0])

			// Even a plan that was made when the disk was blank is refused.
			err := b.MakeFilesystem(t.Context(), change.MakeFilesystem{Disk: "d", Device: b.place(t, dev), Size: imageSize, Type: "xfs", Label: label, UUID: "a3c8b1de-6f0b-5c54-9a5e-2f7d1c94e6b0"})
			require.Equal(t, fail.Safety, fail.KindOf(err), "%v", err)
			require.Equal(t, before, b.sum(t, dev))
		})
	}
}

func random(t *testing.T, n int) []byte {
	b := make([]byte, n)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}

func TestTwoRealDisksWithOneLabelAreBothNamed(t *testing.T) {
	needLoops(t, "mkfs.xfs")
	b := newBench(t)
	one, two := b.disk(t, imageSize), b.disk(t, imageSize)
	for _, dev := range []string{one, two} {
		sh(t, "mkfs.xfs", "-q", "-L", "na-twice", dev)
	}
	p := planOn(t, b, wanted("xfs", "na-twice", t.TempDir()+"/data"))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], b.place(t, one))
	require.ErrorContains(t, p.Blocked[0], b.place(t, two))
}

func TestARealDiskInUseIsNotBlank(t *testing.T) {
	needLoops(t)
	b := newBench(t)
	dev := b.disk(t, imageSize)
	held, err := os.OpenFile(dev, os.O_RDONLY|syscall.O_EXCL, 0)
	require.NoError(t, err)
	defer held.Close()
	p := planOn(t, b, wanted("xfs", "na-held", t.TempDir()+"/data"))
	require.Empty(t, formatsOf(p))
	require.ErrorContains(t, p.Blocked[0], "can't be opened exclusively")
}

func TestARealReadOnlyDiskIsRefused(t *testing.T) {
	needLoops(t)
	b := newBench(t)
	image := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, imageSize))
	b.insert(t, image, "--read-only")
	p := planOn(t, b, wanted("xfs", "na-ro", t.TempDir()+"/data"))
	require.Empty(t, formatsOf(p))
	require.ErrorContains(t, p.Blocked[0], "it is read-only")
}

func TestADeviceThatIsNotTheOneInThePlanIsNotFormatted(t *testing.T) {
	needLoops(t, "mkfs.xfs")
	b := newBench(t)
	dev, other := b.disk(t, imageSize), b.disk(t, imageSize+(1<<20))
	c := change.MakeFilesystem{Disk: "d", Device: b.place(t, dev), Size: imageSize, Type: "xfs", Label: "na-moved", UUID: "a3c8b1de-6f0b-5c54-9a5e-2f7d1c94e6b0"}
	for name, spoil := range map[string]func(*change.MakeFilesystem){
		"its link leads to another disk now": func(c *change.MakeFilesystem) { c.Device = b.place(t, other) },
		"another serial":                     func(c *change.MakeFilesystem) { c.Serial = "S2" },
		"another wwn":                        func(c *change.MakeFilesystem) { c.WWN = "0x5" },
		"a kernel name":                      func(c *change.MakeFilesystem) { c.Device = dev },
		"a resume without a half-made one":   func(c *change.MakeFilesystem) { c.Resume = true; c.Size++ },
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			spoil(&c)
			before := []string{b.sum(t, dev), b.sum(t, other)}
			err := b.MakeFilesystem(t.Context(), c)
			require.Equal(t, fail.Safety, fail.KindOf(err), "%v", err)
			require.Equal(t, before, []string{b.sum(t, dev), b.sum(t, other)})
		})
	}
	c.Device = filepath.Join(b.Dir, "by-path", "gone")
	require.ErrorContains(t, b.MakeFilesystem(t.Context(), c), "is gone")
}

func TestARealFormatThatWasCutOffIsResumedOnlyWithItsIntent(t *testing.T) {
	for fstype, cut := range map[string]func(t *testing.T, dev string){
		"xfs": func(t *testing.T, dev string) {
			sh(t, "xfs_db", "-x", "-c", "sb 0", "-c", "write -d inprogress 1", dev)
		},
		"ext4": func(t *testing.T, dev string) { sh(t, "debugfs", "-w", "-R", "set_super_value state 0", dev) },
	} {
		t.Run(fstype, func(t *testing.T) {
			needLoops(t, "mkfs."+fstype, map[string]string{"xfs": "xfs_db", "ext4": "debugfs"}[fstype])
			b := newBench(t)
			dev := b.disk(t, imageSize)
			d := wanted(fstype, "na-cut", t.TempDir()+"/data")
			intent := formatsOf(planOn(t, b, d))[0]
			b.playUdev(t, "na-cut", dev)
			require.NoError(t, b.MakeFilesystem(t.Context(), intent))
			cut(t, dev)
			before := b.sum(t, dev)

			p := planOn(t, b, d)
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], "half-made filesystem")

			encoded, err := change.Encode(intent)
			require.NoError(t, err)
			line, err := journal.Entry{Time: time.Unix(0, 0), Event: journal.Intent, Step: "disks", ID: intent.ID(), Change: encoded}.Line()
			require.NoError(t, err)
			b.journal = line
			resumed := formatsOf(planOn(t, b, d))
			require.Len(t, resumed, 1)
			require.True(t, resumed[0].Resume)
			require.Equal(t, before, b.sum(t, dev))

			foreign := resumed[0]
			foreign.UUID = "a3c8b1de-6f0b-5c54-9a5e-2f7d1c94e6b0"
			require.Equal(t, fail.Safety, fail.KindOf(b.MakeFilesystem(t.Context(), foreign)))
			require.Equal(t, before, b.sum(t, dev))

			require.NoError(t, b.MakeFilesystem(t.Context(), resumed[0]))
			require.Empty(t, formatsOf(planOn(t, b, d)))
			require.Empty(t, planOn(t, b, d).Blocked)
		})
	}
}

func TestMkfsKilledAtAnyWriteIsResumed(t *testing.T) {
	for fstype, args := range map[string][]string{"xfs": {"-q", "-K", "-L", "na-kill", "-m"}, "ext4": {"-q", "-E", "nodiscard", "-L", "na-kill", "-U"}} {
		for _, n := range []string{"1", "2", "5", "17", "60", "300", "60 with its first writes lost"} {
			n, lost := strings.CutSuffix(n, " with its first writes lost")
			t.Run(fmt.Sprint(fstype, " at write ", n, " lost ", lost), func(t *testing.T) {
				needLoops(t, "strace", "mkfs."+fstype)
				b := newBench(t)
				dev := b.disk(t, imageSize)
				d := wanted(fstype, "na-kill", t.TempDir()+"/data")
				intent := formatsOf(planOn(t, b, d))[0]
				uuid := intent.UUID
				if fstype == "xfs" {
					uuid = "uuid=" + uuid
				}
				f, err := os.OpenFile(dev, os.O_RDWR, 0)
				require.NoError(t, err)
				require.NoError(t, host.Claim(f, intent.UUID))
				require.NoError(t, f.Close())
				cmd := exec.Command("strace", append(append([]string{"-f", "-o", os.DevNull, "-e", "trace=pwrite64", "-e", "inject=pwrite64:signal=KILL:when=" + n, "mkfs." + fstype}, args...), uuid, dev)...)
				_ = cmd.Run() // killed, or done before its nth write
				if lost {
					at(t, dev, 0, make([]byte, 4096))
				}
				encoded, err := change.Encode(intent)
				require.NoError(t, err)
				b.journal, err = journal.Entry{Event: journal.Intent, Step: "disks", ID: intent.ID(), Change: encoded}.Line()
				require.NoError(t, err)

				b.restart()
				p := planOn(t, b, d)
				require.Empty(t, p.Blocked)
				b.playUdev(t, "na-kill", dev)
				for _, c := range formatsOf(p) {
					require.NoError(t, b.MakeFilesystem(t.Context(), c))
				}
				require.Empty(t, formatsOf(planOn(t, b, d)))
				require.Equal(t, intent.UUID, sh(t, "blkid", "-p", "-o", "value", "-s", "UUID", dev))
				checkFilesystem(t, fstype, dev)
			})
		}
	}
}

// checkFilesystem lets the filesystem's own tool look for damage.
func checkFilesystem(t *testing.T, fstype, dev string) {
	t.Helper()
	if fstype == "xfs" {
		sh(t, "xfs_repair", "-n", dev)
		return
	}
	sh(t, "e2fsck", "-f", "-n", dev)
}

func TestARealMountIsSeenAndVerified(t *testing.T) {
	needLoops(t, "mkfs.xfs", "mount")
	b := newBench(t)
	dev, other := b.disk(t, imageSize), b.disk(t, imageSize)
	d := wanted("xfs", "na-mounted", filepath.Join(t.TempDir(), "data"))
	sh(t, "mkfs.xfs", "-q", "-L", "na-mounted", dev)
	require.NoError(t, os.Mkdir(d.MountPath, 0o755))
	sh(t, "mount", dev, d.MountPath)
	t.Cleanup(func() { sh(t, "umount", d.MountPath) })

	c := change.Mount{Unit: "x.mount", Label: "na-mounted", Target: d.MountPath, Type: "xfs"}
	require.NoError(t, b.VerifyMount(c, dev))
	require.ErrorContains(t, b.VerifyMount(c, other), "not from "+other)
	wrong := c
	wrong.Type = "ext4"
	require.ErrorContains(t, b.VerifyMount(wrong, dev), "mounted as xfs")
	wrong = c
	wrong.Target = filepath.Dir(d.MountPath)
	require.ErrorContains(t, b.VerifyMount(wrong, dev), "nothing is mounted on")

	f, err := disk.Observe(t.Context(), b, config.Spec{Disks: []config.Disk{d}})
	require.NoError(t, err)
	require.Equal(t, []string{d.MountPath}, f.Devices[0].Mounts)
	p := disk.Plan(config.Spec{Disks: []config.Disk{d}}, f)
	require.Empty(t, p.Blocked, "it is adopted where it is mounted")
	require.Empty(t, formatsOf(p))
	fs, err := b.Filesystem(filepath.Join(d.MountPath, "not", "yet"))
	require.NoError(t, err)
	require.Equal(t, host.Filesystem{Type: "xfs", Source: dev, FreeBytes: fs.FreeBytes, Target: fs.Target}, fs)
	require.NotEmpty(t, fs.Target)

	// A disk mounted elsewhere is refused.
	elsewhere := d
	elsewhere.MountPath = filepath.Join(filepath.Dir(d.MountPath), "other")
	p = planOn(t, b, elsewhere)
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "it is mounted on "+d.MountPath)
}

func TestTheLabelIsAwaitedByEventsAndItsAbsenceTold(t *testing.T) {
	b := newBench(t)
	dev := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(dev, nil, 0o600))
	b.playUdev(t, "na-late", dev)
	start := time.Now()
	require.NoError(t, b.WaitLabel(t.Context(), "na-late", dev, 20*time.Second))
	require.Less(t, time.Since(start), 900*time.Millisecond, "woken by the event, not by the second's look")

	b.link(t, "by-label", "na-other", dev)
	err := b.WaitLabel(t.Context(), "na-other", dev+"2", 50*time.Millisecond)
	require.Equal(t, fail.Timeout, fail.KindOf(err))
	require.ErrorContains(t, err, "it leads to "+dev)
	err = b.WaitLabel(t.Context(), "na-none", dev, 50*time.Millisecond)
	require.ErrorContains(t, err, "it doesn't exist")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.WaitLabel(ctx, "na-none", dev, time.Minute), context.Canceled)
}

func TestNoProgramButLsblkIsStartedForDisksThatAreSettled(t *testing.T) {
	needLoops(t, "mkfs.xfs", "mount")
	b := newBench(t)
	dev := b.disk(t, imageSize)
	b.disk(t, imageSize)
	d := wanted("xfs", "na-settled", filepath.Join(t.TempDir(), "data"))
	sh(t, "mkfs.xfs", "-q", "-L", "na-settled", dev)
	require.NoError(t, os.Mkdir(d.MountPath, 0o755))
	sh(t, "mount", dev, d.MountPath)
	t.Cleanup(func() { sh(t, "umount", d.MountPath) })
	_, err := disk.Observe(t.Context(), labelled{b, dev, "na-settled"}, config.Spec{Disks: []config.Disk{d}})
	require.NoError(t, err)
	require.Equal(t, 1, b.Stats().Programs)
}

// labelled tells a label as udev's database does where it runs.
type labelled struct {
	*bench
	device, label string
}

func (l labelled) BlockDevices(ctx context.Context, settle bool) ([]host.BlockDevice, error) {
	devices, err := l.bench.BlockDevices(ctx, settle)
	for i := range devices {
		if devices[i].Path == l.device {
			devices[i].FSType, devices[i].Label = "xfs", l.label
		}
	}
	return devices, err
}

func TestARunLeavesTheBytesOfABlankDiskZeroUntilItIsApplied(t *testing.T) {
	needLoops(t)
	b := newBench(t)
	dev := b.disk(t, imageSize)
	require.Len(t, formatsOf(planOn(t, b, wanted("xfs", "na-plan", t.TempDir()+"/data"))), 1)
	content, err := os.ReadFile(b.slots[dev])
	require.NoError(t, err)
	require.True(t, len(bytes.Trim(content, "\x00")) == 0 && strings.HasPrefix(dev, "/dev/loop"))
}
