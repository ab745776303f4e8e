package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
)

// FormatWithData puts a labelled filesystem with one file, data, on the disk of
// a guest that is off. Only ext2, ext3 and ext4 can be filled without a mount.
func (d *Disk) FormatWithData(ctx context.Context, fstype, label, content string) error {
	tree, err := os.MkdirTemp(filepath.Dir(d.Path), "tree-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := (File{Path: "/data", Content: content}).writeBelow(tree); err != nil {
		return err
	}
	_, err = run(ctx, "mkfs."+fstype, "-q", "-L", label, "-d", tree, d.Path)
	return err
}

// Sum is the SHA-256 of the disk's bytes.
func (d *Disk) Sum() (string, error) {
	f, err := os.Open(d.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
