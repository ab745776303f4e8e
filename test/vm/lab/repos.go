package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Repository names are both the directories below http://repo.lab.test/ and
// the ids that a guest's dnf knows them by.
const (
	baseRepo       = "base"
	kubeRepo       = "kubernetes"
	containerdRepo = "containerd"
)

// keys makes the keys that stay the same when something else is rebuilt: two
// package signers (a guest trusts the distribution's from the start, the
// vendor's only once it was imported) and the lab's ssh key.
func (c *cache) keys(ctx context.Context) (string, error) {
	return c.artefact("keys", []string{"v1"}, func(dir string) error {
		for _, name := range []string{"distro", "vendor"} {
			s, err := newSigner(ctx, filepath.Join(dir, name), name)
			if err != nil {
				return err
			}
			err = s.public(ctx, filepath.Join(dir, name+".asc"))
			s.close(ctx)
			if err != nil {
				return err
			}
		}
		_, err := run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", filepath.Join(dir, "id"))
		return err
	})
}

// repos builds what the lab's web server offers: four signed repositories and
// the archive form of containerd.
func (c *cache) repos(ctx context.Context, base, bin, keys string) (string, error) {
	scratch, err := os.MkdirTemp(c.dir, "unpack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	d := debs{dir: filepath.Join(base, "debs"), scratch: scratch}
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	key, err := fileKeys(filepath.Join(src, "lab/packages.go"), filepath.Join(src, "lab/rpm.go"), filepath.Join(src, "lab/repo.go"),
		filepath.Join(src, "lab/repos.go"), filepath.Join(src, "lab/flavour.go"),
		filepath.Join(src, "lab/rocky9.go"), filepath.Join(src, "lab/photon5.go"))
	if err != nil {
		return "", err
	}
	return c.artefact("repos", append(key, base, bin, keys), func(dir string) error {
		distroPackages, err := basePackagesRPM(ctx, base, d)
		if err != nil {
			return err
		}
		photon, err := photonPackages(ctx, base, d)
		if err != nil {
			return err
		}
		kube, err := kubePackages(ctx, bin, d)
		if err != nil {
			return err
		}
		runtime, err := containerdPackages(ctx, bin, d)
		if err != nil {
			return err
		}
		distro := signer{filepath.Join(keys, "distro"), "distro"}
		vendor := signer{filepath.Join(keys, "vendor"), "vendor"}
		defer distro.close(ctx)
		defer vendor.close(ctx)
		for _, r := range []struct {
			name     string
			by       signer
			packages []rpmPackage
		}{
			{baseRepo, distro, append(distroPackages, stockPackages(baseRepo)...)},
			{photonRepo, distro, append(photon, stockPackages(photonRepo)...)},
			{kubeRepo, vendor, kube},
			{containerdRepo, vendor, runtime},
		} {
			if err := r.by.repository(ctx, filepath.Join(dir, r.name), r.packages); err != nil {
				return err
			}
		}
		return containerdArchive(ctx, filepath.Join(dir, "archives"), bin)
	})
}

// ContainerdArchive is the name of the archive form of containerd on the lab's
// web server; its SHA-256 has the same name with .sha256 added.
const ContainerdArchive = "containerd-" + containerdVersion + "-linux-amd64.tar.gz"

// containerdArchive packs bin/… as the upstream release archives do, and the
// sum beside it.
func containerdArchive(ctx context.Context, dir, bin string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, ContainerdArchive)
	args := []string{"--create", "--gzip", "--file", file, "--owner=0", "--group=0", "--transform=s,^,bin/,", "-C", bin,
		"containerd", "containerd-shim-runc-v2", "ctr"}
	if _, err := run(ctx, "tar", args...); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	line := fmt.Sprintf("%s  %s\n", hex.EncodeToString(sum[:]), filepath.Base(file))
	return os.WriteFile(file+".sha256", []byte(line), 0o644)
}
