package lab

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// suite is the Debian release whose userland and kernel the guests run.
const suite = "bookworm"

// basePackages make up every guest. What a Kubernetes node needs beyond a
// stock host (socat, conntrack, ethtool, NFS, runc, containerd, CNI plugins) is
// left out on purpose: it has to come from the RPM repositories.
var basePackages = []string{
	"btrfs-progs", "ca-certificates", "curl", "dbus", "dnf", "dnf-plugins-core", "dosfstools", "e2fsprogs",
	"fdisk", "firewalld", "gnupg", "initramfs-tools", "iproute2", "iptables", "iputils-ping", "kmod", "less",
	"linux-image-amd64", "lvm2", "mdadm", "network-manager", "nftables", "openssh-server", "parted", "procps",
	"rpm", "systemd", "systemd-sysv", "udev", "util-linux", "xfsprogs", "zstd",
}

// repackaged are the Debian packages whose content goes into the lab's RPMs and
// into some flavours.
// They are downloaded with all dependencies that a guest lacks.
var repackaged = []string{"conntrack", "socat", "ethtool", "nfs-common", "runc", "containernetworking-plugins", "containerd", "systemd-resolved", "cloud-init", "ignition", "chrony"}

// leftOut are parts of packages that no guest needs. Less to copy, and fewer
// files for a snapshot of a whole guest to look at.
var leftOut = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
	"/lib/modules/*/kernel/sound/*", "/lib/modules/*/kernel/drivers/gpu/*", "/lib/modules/*/kernel/drivers/media/*",
	"/lib/modules/*/kernel/drivers/net/wireless/*", "/lib/modules/*/kernel/drivers/infiniband/*",
	"/lib/modules/*/kernel/drivers/staging/*", "/lib/modules/*/kernel/drivers/iio/*",
}

// baseHook finishes the root file system inside mmdebstrap, where apt and /proc
// are usable in it.
//
//go:embed base-hook.sh
var baseHook string

// seedScript unpacks what the lab hands to a guest before its systemd starts.
//
//go:embed seed.sh
var seedScript string

// ignitionScript runs Ignition on the root.
//
//go:embed ignition.sh
var ignitionScript string

// immutableScript puts an immutable guest's root together.
//
//go:embed immutable.sh
var immutableScript string

// rootfs builds the Debian tree in DIR/rootfs and DIR/debs.
func (c *cache) rootfs(ctx context.Context, extra []string) (string, error) {
	packages := slices.Concat(basePackages, extra)
	key := append(slices.Concat(packages, repackaged, leftOut), suite, baseHook, seedScript, ignitionScript, immutableScript)
	return c.artefact("base", key, func(dir string) error {
		hook, seed, ignition, immutable := filepath.Join(dir, "hook.sh"), filepath.Join(dir, "seed.sh"), filepath.Join(dir, "ignition.sh"), filepath.Join(dir, "immutable.sh")
		for path, script := range map[string]string{hook: baseHook, seed: seedScript, ignition: ignitionScript, immutable: immutableScript} {
			if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
				return err
			}
		}
		root := filepath.Join(dir, "rootfs")
		cmd := command{env: []string{"LAB_SEED=" + seed, "LAB_IGNITION=" + ignition, "LAB_IMMUTABLE=" + immutable, "LAB_DEBS=" + strings.Join(repackaged, " ")}}
		args := []string{"--mode=root", "--variant=minbase", "--components=main",
			"--include=" + strings.Join(packages, ","), "--customize-hook=" + hook}
		for _, path := range leftOut {
			args = append(args, "--dpkgopt=path-exclude="+path)
		}
		// Without a mirror mmdebstrap takes the distribution's own, with its
		// updates and security.
		args = append(args, suite, root)
		_, err := cmd.run(ctx, "mmdebstrap", args...)
		if err != nil {
			return err
		}
		return os.Rename(filepath.Join(root, "var/lab-debs"), filepath.Join(dir, "debs"))
	})
}
