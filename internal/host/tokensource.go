package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/mint"
	"nodeagent/internal/join/token"
)

// Where systemd puts credentials (systemd.exec(5), CREDENTIALS_DIRECTORY), and
// where it keeps those that came with the machine: by SMBIOS, fw_cfg, or the
// kernel's command line (systemd.system-credentials(7)).
const (
	credentialsVariable = "CREDENTIALS_DIRECTORY"
	systemCredentials   = "/run/credentials/@system"
)

// Credential is the file of a systemd credential: this service's own, or the
// machine's. When there is neither, it is where the service's own would be, as
// far as that is known.
func (l *Linux) Credential(name string) string {
	var own string
	if dir := os.Getenv(credentialsVariable); l.Live() && filepath.IsAbs(dir) {
		own = filepath.Join(dir, name)
		if info, err := l.Stat(own); err == nil && info.Exists {
			return own
		}
	}
	system := filepath.Join(systemCredentials, name)
	if info, err := l.Stat(system); own == "" || err == nil && info.Exists {
		return system
	}
	return own
}

// applyFetchToken brings the token document into memory.
func (l *Linux) applyFetchToken(ctx context.Context, c change.FetchToken, progress func(string)) error {
	d, err := l.fetchToken(ctx, c, progress)
	if err != nil {
		return err
	}
	if now := time.Now(); d.Expired(now) {
		return expired(d.Expiration, now)
	}
	if len(d.Ignored) > 0 {
		progress("not used from the token document, since the configuration decides it: " + strings.Join(d.Ignored, ", "))
	}
	l.credential, l.source = &d, c
	return nil
}

func expired(at, now time.Time) error {
	return fail.New(fail.Step, "make a new one: kubeadm token create --print-join-command", "the join token expired on %s; this host's clock says %s", stamp(at), stamp(now))
}

func (l *Linux) fetchToken(ctx context.Context, c change.FetchToken, tell func(string)) (token.Document, error) {
	switch {
	case c.File != "":
		return l.readToken(c.File, "put the output of `kubeadm token create --print-join-command` there")
	case c.Credential != "":
		return l.readToken(l.Credential(c.Credential), CredentialHint(c.Credential))
	case c.GuestInfo != "":
		d, err := l.readGuestInfo(ctx, c.GuestInfo)
		if err == nil { // noted before it is used: then it is overwritten, whatever happens meanwhile
			err = l.Save(l.record, mint.Record{GuestInfo: c.GuestInfo}.Encode())
		}
		return d, err
	case c.HTTPS != nil:
		return l.fetchFromServer(ctx, *c.HTTPS, tell)
	case c.Mint != nil:
		return l.mintToken(ctx, *c.Mint, tell)
	}
	return token.Parse([]byte(c.Inline))
}

// CredentialHint is how a unit gets a credential.
func CredentialHint(name string) string {
	return "in a drop-in of nodeagent.service ([Service]): LoadCredential=" + name + ":/path/to/file, or LoadCredential=" + name +
		" for what came with the machine (SMBIOS io.systemd.credential:" + name + "=…, fw_cfg opt/io.systemd.credentials/" + name + ")"
}

func (l *Linux) readToken(path, hint string) (token.Document, error) {
	b, err := l.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return token.Document{}, fail.New(fail.Step, hint, "the join token's file %s does not exist", path)
	}
	if err != nil {
		return token.Document{}, fail.Wrap(fail.Step, err, "", "the join token can't be read")
	}
	d, err := token.Parse(b)
	if err != nil {
		err = fail.Wrap(fail.KindOf(err), err, fail.HintOf(err), "%s", path)
	}
	return d, err
}

// anotherToken fetches once more when the cluster doesn't know the token, since
// a host that boots slowly holds an old one by then. What doesn't help is the
// error that it was given.
func (l *Linux) anotherToken(ctx context.Context, old token.Document, why error, tell func(string)) (token.Document, error) {
	var bad badToken
	if !errors.As(why, &bad) || l.source.Inline != "" {
		return old, why
	}
	tell(bad.Error() + "; fetching the token again")
	if l.source.Mint != nil {
		if err := l.dropToken(ctx, tell); err != nil {
			tell(err.Error())
		}
	}
	d, err := l.fetchToken(ctx, l.source, tell)
	switch {
	case ctx.Err() != nil:
		return old, ctx.Err()
	case err != nil:
		tell("the token can't be fetched again: " + err.Error())
		return old, why
	case d.Token == old.Token && string(d.Kubeconfig) == string(old.Kubeconfig):
		tell("it is the same token again")
		return old, why
	case d.Expired(time.Now()):
		return old, expired(d.Expiration, time.Now())
	}
	l.credential = &d
	return d, nil
}

// applyDropToken takes the token away at its source, by the record that was
// written before it came.
func (l *Linux) applyDropToken(ctx context.Context, _ change.DropToken, progress func(string)) error {
	return l.dropToken(ctx, progress)
}

func (l *Linux) dropToken(ctx context.Context, tell func(string)) error {
	b, err := l.ReadFile(l.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := mint.Decode(b)
	if err != nil {
		return fail.Wrap(fail.Step, err, "look at it, then remove it", "what is left of a join token isn't known")
	}
	if r.GuestInfo != "" {
		err = l.spendGuestInfo(ctx, r.GuestInfo)
	} else {
		err = l.deleteToken(ctx, r, tell)
	}
	if err != nil {
		return err
	}
	return unlink(l.record)
}

// dropLimit bounds the last attempt of a join that failed.
const dropLimit = 15 * time.Second

// dropAfterFailure deletes the token that was made for a join that failed. When
// that fails too, the record is left for the next run. A token in guestinfo
// stays: the next try needs it.
func (l *Linux) dropAfterFailure(ctx context.Context, tell func(string)) {
	if l.source.Mint == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
	defer cancel()
	if err := l.dropToken(ctx, func(string) {}); err != nil {
		tell("the join token could not be deleted from the cluster; the next run does it: " + err.Error())
	}
	l.credential = nil
}
