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
// DIR/root.img; what can be written of an immutable one is in DIR/state.img.
func (c *cache) flavour(ctx context.Context, f Flavour, base, bin, repos, keys string) (string, error) {
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	key, err := fileKeys(filepath.Join(src, "lab/image.go"), filepath.Join(src, "lab/baked.go"), filepath.Join(src, "lab/immutable.go"))
	if err != nil {
		return "", err
	}
	key = append(key, fmt.Sprintf("%+v", f), base, bin, repos, keys)
	return c.artefact("flavour-"+f.Name, key, func(dir string) error {
		root := filepath.Join(dir, "rootfs")
		if _, err := run(ctx, "cp", "-a", "--reflink=auto", filepath.Join(base, "rootfs"), root); err != nil {
			return err
		}
		d := debs{dir: filepath.Join(base, "debs"), scratch: filepath.Join(dir, "unpack")}
		if err := os.Mkdir(d.scratch, 0o755); err != nil {
			return err
		}
		defer os.RemoveAll(d.scratch)
		if err := f.apply(ctx, root, bin, d); err != nil {
			return err
		}
		if err := f.fillRPM(ctx, root, repos, keys); err != nil {
			return err
		}
		if err := f.settleUnits(ctx, root); err != nil {
			return err
		}
		if err := letIn(root, keys); err != nil {
			return err
		}
		for _, s := range f.Swap {
			if err := s.create(filepath.Join(root, s.Path)); err != nil {
				return err
			}
		}
		if f.ReadOnly {
			if err := splitState(ctx, dir); err != nil {
				return err
			}
		}
		return mkimage(ctx, root, "root", filepath.Join(dir, "root.img"))
	})
}

// mkimage makes an ext4 of a tree. It is filled by mkfs itself: no mount, no
// loop device.
func mkimage(ctx context.Context, tree, label, image string) error {
	_, err := run(ctx, "mkfs.ext4", "-q", "-L", label, "-d", tree, image, "8G")
	return err
}

// apply lays the flavour's files over the tree.
func (f Flavour) apply(ctx context.Context, root, bin string, d debs) error {
	for _, name := range f.Without {
		if err := takeOut(root, name); err != nil {
			return err
		}
	}
	for from, to := range f.Rename {
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(root, from), to); err != nil {
			return err
		}
	}
	for _, path := range f.Remove {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	files, err := d.files(ctx, func(string) bool { return true }, f.Debs...)
	if err != nil {
		return err
	}
	if f.Baked {
		baked, err := bakedFiles(ctx, bin, d)
		if err != nil {
			return err
		}
		files = append(files, baked...)
	}
	files = append(files, []File{
		{Path: "/etc/machine-id", Mode: 0o444}, // empty: each guest makes its own, without counting as a first boot
		{Path: "/etc/hostname", Content: "localhost\n"},
		{Path: "/etc/hosts", Content: "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
		{Path: "/etc/ssh/sshd_config.d/lab.conf", Content: "UseDNS no\n"},
	}...)
	files = append(files, f.Files...)
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

// takeOut removes a Debian package's files from a tree.
func takeOut(root, name string) error {
	list, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/info", name+".list"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		path := strings.TrimSpace(line)
		if path == "/bin" || path == "/sbin" || path == "/lib" || path == "/lib64" { // links of a merged /usr
			continue
		}
		path = filepath.Join(root, mergedUsr(path))
		if info, err := os.Lstat(path); err == nil && !info.IsDir() {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleUnits makes the users of added packages, and enables and disables units.
func (f Flavour) settleUnits(ctx context.Context, root string) error {
	if len(f.Debs) > 0 {
		if _, err := run(ctx, "chroot", root, "systemd-sysusers"); err != nil {
			return err
		}
	}
	for verb, units := range map[string][]string{"enable": f.Enable, "disable": f.Disable} {
		if len(units) == 0 {
			continue
		}
		if _, err := run(ctx, "chroot", append([]string{root, "systemctl", "--quiet", verb}, units...)...); err != nil {
			return err
		}
	}
	return nil
}

// letIn lets the lab in by ssh.
func letIn(root, keys string) error {
	ssh := filepath.Join(root, "root/.ssh")
	if err := os.MkdirAll(ssh, 0o700); err != nil {
		return err
	}
	public, err := os.ReadFile(filepath.Join(keys, "id.pub"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(ssh, "authorized_keys"), public, 0o600)
}

// fillRPM fills the RPM database with the signer that the host knows from the
// start, and its stock packages.
func (f Flavour) fillRPM(ctx context.Context, root, repos, keys string) error {
	if f.Repo == "" {
		return nil
	}
	if err := (File{Path: f.Key, From: filepath.Join(keys, "distro.asc")}).writeBelow(root); err != nil {
		return err
	}
	if _, err := run(ctx, "chroot", root, "rpm", "--import", f.Key); err != nil {
		return err
	}
	stock := filepath.Join(root, "var/lab-stock")
	defer os.RemoveAll(stock)
	install := func(rpms []string, options ...string) error {
		args := append([]string{root, "rpm", "--install", "--nodeps"}, options...)
		for _, rpm := range rpms {
			inside := "/var/lab-stock/" + filepath.Base(rpm)
			if err := (File{Path: inside, From: rpm}).writeBelow(root); err != nil {
				return err
			}
			args = append(args, inside)
		}
		_, err := run(ctx, "chroot", args...)
		return err
	}
	var rpms []string
	for _, name := range append([]string{f.Release.name}, f.RPMs...) {
		rpms = append(rpms, f.stockRPM(repos, name))
	}
	if err := install(rpms, "--justdb"); err != nil || len(f.Install) == 0 {
		return err
	}
	rpms = nil
	for _, name := range f.Install {
		found, err := filepath.Glob(filepath.Join(repos, f.Repo, name+"-[0-9]*.rpm"))
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("%d packages %s in repository %s", len(found), name, f.Repo)
		}
		rpms = append(rpms, found[0])
	}
	return install(rpms)
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
