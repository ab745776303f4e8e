package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flavour builds the tree of a flavour in DIR/rootfs and a disk image of it in
// DIR/root.img.
func (c *cache) flavour(ctx context.Context, f Flavour, base, repos, keys string) (string, error) {
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	key, err := fileKeys(filepath.Join(src, "lab/image.go"))
	if err != nil {
		return "", err
	}
	key = append(key, fmt.Sprintf("%+v", f), base, repos, keys)
	return c.artefact("flavour-"+f.Name, key, func(dir string) error {
		root := filepath.Join(dir, "rootfs")
		if _, err := run(ctx, "cp", "-a", "--reflink=auto", filepath.Join(base, "rootfs"), root); err != nil {
			return err
		}
		if err := f.apply(root); err != nil {
			return err
		}
		if err := trust(ctx, root, f, repos, keys); err != nil {
			return err
		}
		for _, s := range f.Swap {
			if err := s.create(filepath.Join(root, s.Path)); err != nil {
				return err
			}
		}
		// The image is filled by mkfs itself: no mount, no loop device.
		_, err := run(ctx, "mkfs.ext4", "-q", "-L", "root", "-d", root, filepath.Join(dir, "root.img"), "8G")
		return err
	})
}

// apply lays the flavour's files over the tree.
func (f Flavour) apply(root string) error {
	for _, path := range f.Remove {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	files := append([]File{
		{Path: "/etc/machine-id", Mode: 0o444}, // empty: each guest makes its own, without counting as a first boot
		{Path: "/etc/hostname", Content: "localhost\n"},
		{Path: "/etc/hosts", Content: "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
		{Path: "/etc/ssh/sshd_config.d/lab.conf", Content: "UseDNS no\n"},
	}, f.Files...)
	for _, unit := range f.Mask {
		files = append(files, File{Path: "/etc/systemd/system/" + unit, Link: "/dev/null"})
	}
	for _, file := range files {
		if err := file.writeBelow(root); err != nil {
			return err
		}
	}
	return nil
}

// trust lets the lab in by ssh, and fills the RPM database with the signers
// that the host knows from the start and its stock packages.
func trust(ctx context.Context, root string, f Flavour, repos, keys string) error {
	ssh := filepath.Join(root, "root/.ssh")
	if err := os.MkdirAll(ssh, 0o700); err != nil {
		return err
	}
	public, err := os.ReadFile(filepath.Join(keys, "id.pub"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(ssh, "authorized_keys"), public, 0o600); err != nil {
		return err
	}
	for _, signer := range f.Trust {
		path := "/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9"
		if signer != "distro" {
			path = "/etc/pki/rpm-gpg/" + signer
		}
		if err := (File{Path: path, From: filepath.Join(keys, signer+".asc")}).writeBelow(root); err != nil {
			return err
		}
		if _, err := run(ctx, "chroot", root, "rpm", "--import", path); err != nil {
			return err
		}
	}
	if len(f.RPMs) == 0 {
		return nil
	}
	stock := filepath.Join(root, "var/lab-stock")
	if err := os.MkdirAll(stock, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(stock)
	args := []string{root, "rpm", "--install", "--justdb", "--nodeps"}
	for _, name := range append([]string{"rocky-release"}, f.RPMs...) {
		rpms, err := filepath.Glob(filepath.Join(repos, baseRepo, name+"-9.4-*.rpm"))
		if err != nil {
			return err
		}
		if len(rpms) != 1 {
			return fmt.Errorf("%d packages %s in the base repository", len(rpms), name)
		}
		if err := (File{Path: "/var/lab-stock/" + filepath.Base(rpms[0]), From: rpms[0]}).writeBelow(root); err != nil {
			return err
		}
		args = append(args, "/var/lab-stock/"+filepath.Base(rpms[0]))
	}
	_, err = run(ctx, "chroot", args...)
	return err
}

// create writes a swap file. Its pages are filled with a pattern: mkfs leaves
// out blocks of zeros, and the kernel refuses a swap file with holes.
func (s SwapFile) create(path string) error {
	const page = 4096
	b := bytes.Repeat([]byte{0xa5}, s.MiB<<20)
	header := make([]byte, page)
	binary.LittleEndian.PutUint32(header[1024:], 1) // version
	binary.LittleEndian.PutUint32(header[1028:], uint32(len(b)/page-1))
	copy(header[page-10:], "SWAPSPACE2")
	copy(b, header)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// kernel returns the kernel and initrd in a tree's /boot.
func kernel(root string) (vmlinuz, initrd string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil {
		return "", "", err
	}
	if len(found) != 1 {
		return "", "", fmt.Errorf("%d kernels in %s/boot", len(found), root)
	}
	return found[0], strings.Replace(found[0], "vmlinuz-", "initrd.img-", 1), nil
}
