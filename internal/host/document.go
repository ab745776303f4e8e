package host

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"nodeagent/internal/fail"
)

// Document fetches what a URL holds, at most limit bytes. With patience it is
// tried again for that long while a first boot's network, names, clock or
// server aren't there yet: at once when the kernel announces a link, an address
// or a route, else after growing pauses. progress is told why it waits, once
// for each reason.
func (l *Linux) Document(ctx context.Context, from string, limit int64, patience time.Duration, progress func(string)) ([]byte, error) {
	defer l.external(time.Now())
	wait, cancel := context.WithCancel(ctx)
	if patience > 0 {
		wait, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	name := from
	if u, err := url.Parse(from); err == nil {
		name = u.Redacted()
	}
	pause := pauses(ctx)
	news := announcements(wait)
	told := ""
	var last error
	for {
		var b bytes.Buffer
		err := fetchOnce(wait, from, limit, &b)
		if err == nil {
			return b.Bytes(), nil
		}
		if wait.Err() == nil || last == nil {
			last = err
		}
		switch {
		case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
			return nil, fail.Wrap(fail.Timeout, plain(last), "give it more with --timeout", "the time given with --timeout is over, and the configuration %s has not come", name)
		case ctx.Err() != nil:
			return nil, fail.New(fail.Interrupted, "run it again", "interrupted while the configuration %s was awaited", name)
		case wait.Err() != nil:
			return nil, fail.Wrap(fail.Timeout, plain(last), "does the host reach it? try: curl -fsS '"+name+"'", "the configuration %s did not come within %s (%s)", name, patience, l.describeNetwork())
		case patience == 0 || lasting(err):
			return nil, fail.Wrap(fail.Step, plain(err), "does the host reach it? try: curl -fsS '"+name+"'", "the configuration %s can't be fetched", name)
		}
		if why := plain(err).Error(); why != told && progress != nil {
			progress(fmt.Sprintf("waiting for %s: %s (%s)", name, why, l.describeNetwork()))
			told = why
		}
		select {
		case <-wait.Done():
		case <-time.After(pause.NextBackOff()):
		case <-news:
			// Links come with a burst of announcements; the last one counts.
			select {
			case <-wait.Done():
			case <-time.After(pace(ctx) / 4):
			}
		}
	}
}

// lasting tells whether trying again can't mend it. A certificate outside its
// time can be one: the clock of a first boot may be years off until NTP.
func lasting(err error) bool {
	var permanent *backoff.PermanentError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var signer x509.UnknownAuthorityError
	return errors.As(err, &permanent) || errors.As(err, &name) || errors.As(err, &signer) || errors.As(err, &invalid) && invalid.Reason != x509.Expired
}

// plain is the reason without what the caller says anyway.
func plain(err error) error {
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	var request *url.Error
	if errors.As(err, &request) && !errors.Is(request.Err, context.Canceled) {
		return request.Err
	}
	return err
}

func (l *Linux) describeNetwork() string {
	n, err := l.Network()
	if err != nil {
		return err.Error()
	}
	return n.Describe()
}

// announcements says when the kernel announced something about links,
// addresses or routes, until the context ends; never when it can't be asked.
func announcements(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, routeGroups...)
	if err != nil {
		return out
	}
	context.AfterFunc(ctx, socket.Close)
	go func() {
		for {
			_, _, err := socket.Receive()
			if ctx.Err() != nil || err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}
