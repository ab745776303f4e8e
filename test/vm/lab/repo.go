package lab

import (
	"context"
	"os"
	"path/filepath"
)

// signer is a GPG key that signs packages and repository metadata.
type signer struct {
	home string // GNUPGHOME
	name string
}

// newSigner makes a key without passphrase in home.
func newSigner(ctx context.Context, home, name string) (signer, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return signer{}, err
	}
	s := signer{home, name}
	batch := "%no-protection\nKey-Type: RSA\nKey-Length: 2048\nKey-Usage: sign\nName-Real: " + name + "\nExpire-Date: 0\n%commit\n"
	_, err := command{env: s.env(), stdin: []byte(batch)}.run(ctx, "gpg", "--batch", "--gen-key")
	return s, err
}

func (s signer) env() []string { return []string{"GNUPGHOME=" + s.home} }

// public exports the public key in armour.
func (s signer) public(ctx context.Context, file string) error {
	_, err := command{env: s.env()}.run(ctx, "gpg", "--batch", "--yes", "--armor", "--output", file, "--export", s.name)
	return err
}

// close ends the agent that gpg started for this key ring.
func (s signer) close(ctx context.Context) {
	command{env: s.env()}.run(ctx, "gpgconf", "--kill", "all")
}

// repository builds, signs and indexes packages in dir.
func (s signer) repository(ctx context.Context, dir string, packages []rpmPackage) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range packages {
		if err := p.build(ctx, dir); err != nil {
			return err
		}
	}
	rpms, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
	if err != nil {
		return err
	}
	sign := []string{"--addsign", "--define", "_gpg_name " + s.name, "--define", "__gpg /usr/bin/gpg", "--define", "_gpg_path " + s.home}
	if _, err := (command{env: s.env()}).run(ctx, "rpmsign", append(sign, rpms...)...); err != nil {
		return err
	}
	if _, err := run(ctx, "createrepo_c", "--quiet", dir); err != nil {
		return err
	}
	repomd := filepath.Join(dir, "repodata", "repomd.xml")
	if _, err := (command{env: s.env()}).run(ctx, "gpg", "--batch", "--yes", "--local-user", s.name, "--detach-sign", "--armor", repomd); err != nil {
		return err
	}
	return s.public(ctx, repomd+".key")
}
