package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/pgpkey"
)

// maxMetadata bounds repomd.xml in bytes; real ones are a few KiB.
const maxMetadata = 16 << 20

func (l *Linux) applyProbeRepository(ctx context.Context, c change.ProbeRepository, _ func(string)) error {
	location := strings.TrimSuffix(c.BaseURL, "/") + "/repodata/repomd.xml"
	var buf bytes.Buffer
	err := l.fetch(ctx, location, maxMetadata, func() (io.Writer, error) { buf.Reset(); return &buf, nil })
	if away := (unreachable{}); errors.As(err, &away) {
		return fail.Wrap(fail.Step, err, away.why.Hint+"; the repository was not enabled, nothing was changed", "repository %s can't be read", c.Repository)
	}
	if err != nil {
		return fail.Wrap(fail.Step, err, "check baseURL of that repository; it was not enabled, nothing was changed", "repository %s has no metadata at %s", c.Repository, c.BaseURL)
	}
	if !bytes.Contains(buf.Bytes(), []byte("<repomd")) {
		return fail.New(fail.Step, "check baseURL of that repository, and whether a proxy or login page answers instead; it was not enabled",
			"repository %s: what %s returns is no repository metadata", c.Repository, location)
	}
	return nil
}

// applyImportKeys fetches keys, checks that they are public keys, stores them
// under StoreAs and imports them into the RPM database. Stored first: an
// interrupted import is seen and repeated.
func (l *Linux) applyImportKeys(ctx context.Context, c change.ImportKeys, _ func(string)) error {
	var all []byte
	for _, source := range c.Keys {
		armored, err := l.fetchKey(ctx, c.Repository, source)
		if err != nil {
			return err
		}
		all = append(all, armored...)
	}
	if err := l.writeAtomic(ctx, c.StoreAs, all, 0o644, 0, 0); err != nil {
		return err
	}
	if _, err := l.must(ctx, program{name: "rpm", args: []string{"--import", c.StoreAs}}); err != nil {
		return fail.Wrap(fail.Step, err, "see whether the crypto policy of this host accepts the key: rpm --import "+c.StoreAs, "rpm doesn't take the signing key of repository %s", c.Repository)
	}
	return nil
}

// fetchKey returns one source's keys, armored.
func (l *Linux) fetchKey(ctx context.Context, repository, source string) ([]byte, error) {
	var buf bytes.Buffer
	err := l.fetch(ctx, source, pgpkey.MaxSize, func() (io.Writer, error) { buf.Reset(); return &buf, nil })
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "check gpgKeys of that repository", "repository %s: its signing key is not there", repository)
	}
	armored, err := pgpkey.Armor(source, buf.Bytes())
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "check gpgKeys of that repository, and whether a proxy or login page answers instead", "repository %s: what %s returns is not an OpenPGP public key", repository, source)
	}
	return armored, nil
}

// renewKeys replaces stored keys by what their sources hold now. rpm keeps an
// imported key for ever, even when its expiry was extended under the same id,
// so the old one is dropped first.
func (l *Linux) renewKeys(ctx context.Context, sets []change.ImportKeys) error {
	for _, c := range sets {
		for _, source := range c.Keys {
			armored, err := l.fetchKey(ctx, c.Repository, source)
			if err != nil {
				return err
			}
			keys, err := pgpkey.Parse(armored)
			if err != nil {
				return err
			}
			for _, k := range keys {
				if err := l.dropKey(ctx, k); err != nil {
					return err
				}
			}
		}
		if err := l.applyImportKeys(ctx, c, nil); err != nil {
			return err
		}
	}
	return nil
}

// dropKey removes one key from the RPM database, when it is there.
func (l *Linux) dropKey(ctx context.Context, k pgpkey.Key) error {
	have, err := l.rpmQuery(ctx, k.Provides())
	if err != nil {
		return err
	}
	for _, name := range k.Provides() {
		version, ok := have[name]
		if !ok {
			continue
		}
		for _, v := range strings.Fields(version) {
			if _, err := l.must(ctx, program{name: "rpm", args: []string{"-e", "--allmatches", "gpg-pubkey-" + v}}); err != nil {
				return fmt.Errorf("dropping the stored key %s: %w", k.ID, err)
			}
		}
		return nil
	}
	return nil
}
