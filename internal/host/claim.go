package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// A format that is cut off leaves bytes that no tool can name: mkfs.ext4 erases
// the place of the superblock first and fills it last, and after a power cut
// any part of what mkfs.xfs wrote may be there without the superblock that it
// begins with. A claim says whose they are: one sector near the end, where both
// have free space, written before mkfs starts and erased when its result is on
// the platter.
const (
	claimSize = 512
	claimText = "nodeagent is making the filesystem "
)

// claimOffset is within the last MiB, which Probe reads, and before the last
// 128 KiB, which mkfs clears.
func claimOffset(size int64) int64 { return (size - mib/2) / 4096 * 4096 }

func claimSector(uuid string) []byte {
	sector := make([]byte, claimSize)
	copy(sector, claimText+uuid+"\n")
	return sector
}

// readClaim returns the UUID of a claim, or "".
func readClaim(sector []byte) string {
	text, _, _ := strings.Cut(string(sector), "\n")
	uuid, ok := strings.CutPrefix(text, claimText)
	if !ok || !bytes.Equal(sector, claimSector(uuid)) {
		return ""
	}
	return uuid
}

// claimDevice claims a device that nobody else has in use. mkfs opens it
// exclusively too, so it is closed before.
func claimDevice(path, uuid string) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_EXCL|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(claim(f, uuid), f.Close())
}

// claim marks the device and returns when the mark is on the platter.
func claim(f *os.File, uuid string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(claimSector(uuid), claimOffset(size)); err != nil {
		return fmt.Errorf("writing to %s: %w", f.Name(), err)
	}
	return f.Sync()
}

// unclaim erases our claim, if it is still what stands there.
func unclaim(f *os.File, uuid string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	sector := make([]byte, claimSize)
	if _, err := f.ReadAt(sector, claimOffset(size)); err != nil || readClaim(sector) != uuid {
		return err
	}
	if _, err := f.WriteAt(make([]byte, claimSize), claimOffset(size)); err != nil {
		return err
	}
	return f.Sync()
}
