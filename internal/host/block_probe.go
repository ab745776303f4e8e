package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

const mib = 1 << 20

// Probe looks at the bytes of a device. What can't be opened, read or probed
// is told in Unreadable, not as an error: for the planner it is evidence.
func (l *Linux) Probe(ctx context.Context, d BlockDevice) (BlockDevice, error) {
	if !l.Live() {
		return d, ErrUnobservable
	}
	return once(l, "probe "+d.Path, func() (BlockDevice, error) { return l.probe(ctx, d) })
}

func (l *Linux) probe(ctx context.Context, d BlockDevice) (BlockDevice, error) {
	d.Probed = true
	d.FSType, d.Label, d.FSUUID, d.PTType = "", "", "", ""
	d.Signatures, d.Ambivalent, d.Busy, d.Unreadable, d.NonZero, d.NonZeroAt, d.Unfinished, d.Claim = nil, false, "", "", false, 0, false, ""
	if err := readBytes(&d); err != nil {
		d.Unreadable = err.Error()
		return d, nil
	}
	r, err := l.exec(ctx, program{name: "blkid", args: []string{"-p", "-o", "export", d.Path}, timeout: time.Minute})
	if err != nil {
		return d, err
	}
	// blkid(8): 0 found, 2 nothing found or not readable (which readBytes
	// has ruled out), 8 ambivalent, else an error.
	switch r.exit {
	case 0:
		tags := parseBlkid(r.stdout)
		d.FSType, d.Label, d.FSUUID, d.PTType = tags["TYPE"], tags["LABEL"], tags["UUID"], tags["PTTYPE"]
	case 2:
	case 8:
		d.Ambivalent = true
	default:
		d.Unreadable = fmt.Sprintf("blkid -p exited with %d: %s", r.exit, r.last())
		return d, nil
	}
	r, err = l.exec(ctx, program{name: "wipefs", args: []string{"--no-act", "--json", d.Path}, timeout: time.Minute})
	if err != nil {
		return d, err
	}
	if r.exit != 0 {
		d.Unreadable = fmt.Sprintf("wipefs -n exited with %d: %s", r.exit, r.last())
		return d, nil
	}
	d.Signatures, err = parseWipefs(r.stdout)
	return d, err
}

// readEnds opens the device exclusively, which fails while the kernel uses it
// in any namespace, reads its first and last MiB, and when these are zeros
// looks for data elsewhere.
func readBytes(d *BlockDevice) error {
	f, err := openExclusive(d.Path)
	if errors.Is(err, syscall.EBUSY) {
		d.Busy = "it is in use (mounted in some namespace, swap, a member of RAID, LVM, device-mapper or multipath, or held by a program)"
		f, err = os.OpenFile(d.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size == 0 {
		return fmt.Errorf("%s has no size", d.Path)
	}
	n := min(size, mib)
	head, tail := make([]byte, n), make([]byte, n)
	if _, err := f.ReadAt(head, 0); err != nil {
		return fmt.Errorf("reading the start: %w", err)
	}
	if _, err := f.ReadAt(tail, size-n); err != nil {
		return fmt.Errorf("reading the end: %w", err)
	}
	d.Unfinished = unfinished(head)
	if at := claimOffset(size) - (size - n); at >= 0 && at+claimSize <= n {
		d.Claim = readClaim(tail[at : at+claimSize])
	}
	at, err := firstNonZero(f, size)
	d.NonZero, d.NonZeroAt = at >= 0, max(at, 0)
	return err
}

func openExclusive(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_EXCL|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}

// unfinished tells from the start of a device whether the superblock there was
// left by a mkfs that never came to its end: xfs has sb_inprogress for this
// (xfs_db(8)), ext4 lacks the "cleanly unmounted" bit in s_state until the
// last write (ext4(5), kernel documentation "Super Block").
func unfinished(head []byte) bool {
	const xfsInProgress, extMagic, extState = 126, 1024 + 0x38, 1024 + 0x3a
	switch {
	case len(head) > xfsInProgress && string(head[:4]) == "XFSB":
		return head[xfsInProgress] != 0
	case len(head) > extState+2 && binary.LittleEndian.Uint16(head[extMagic:]) == 0xef53:
		return binary.LittleEndian.Uint16(head[extState:])&1 == 0
	}
	return false
}

// NotBlank lists everything that speaks against formatting a device; none
// means that it is provably blank. One tool's silence is no proof: an
// exclusive open, the bytes that mustBeZero names, blkid, wipefs and the
// kernel's own tables must agree.
func (d BlockDevice) NotBlank() []string {
	var out []string
	say := func(bad bool, format string, a ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, a...))
		}
	}
	say(d.FSType != "", "it holds %s", d.Content())
	say(d.PTType != "", "it has a %s partition table", d.PTType)
	say(len(d.Children) > 0, "%s is on it", strings.Join(d.Children, ", "))
	say(len(d.Mounts) > 0, "it is mounted on %s", strings.Join(firstFew(d.Mounts), ", "))
	say(d.Swap, "it is in use as swap")
	say(d.Ambivalent, "blkid finds contradicting signatures on it")
	say(d.Unreadable != "", "it can't be read: %s", d.Unreadable)
	say(d.Busy != "" && len(d.Mounts) == 0 && !d.Swap, "it can't be opened exclusively: %s", d.Busy)
	say(len(d.Signatures) > 0, "wipefs finds %s", strings.Join(firstFew(d.Signatures), ", "))
	say(d.Claim != "", "a format of nodeagent was cut off on it (uuid %s)", d.Claim)
	say(d.NonZero && len(out) == 0, "it is not all zeros (byte %d isn't), so something may be on it that no tool knows", d.NonZeroAt)
	say(!d.Probed && len(out) == 0, "it has not been probed")
	return out
}

// Content names the filesystem on a device: `ext4 labelled "data"`.
func (d BlockDevice) Content() string {
	switch {
	case d.FSType == "":
		return "no known filesystem"
	case d.Label == "":
		return d.FSType + " without a label"
	}
	return fmt.Sprintf("%s labelled %q", d.FSType, d.Label)
}

// firstFew keeps messages short: a kubelet's disk has hundreds of mounts, a ZFS
// member hundreds of uberblocks.
func firstFew(list []string) []string {
	if len(list) > 3 {
		return append(append([]string{}, list[:3]...), "…")
	}
	return list
}
