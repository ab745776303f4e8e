package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// tokenTries bounds how often a token is asked for: with the pauses between
// them that is some two minutes, in which a server may start and a name appear.
const tokenTries = 12

// tryLimit bounds one try.
const tryLimit = 20 * time.Second

// tryKey is where a context carries another limit for one try.
type tryKey struct{}

func oneTry(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(tryKey{}).(time.Duration); ok {
		return d
	}
	return tryLimit
}

// passing is the error of a try that may succeed later.
type passing struct {
	error
	after time.Duration // asked for by the server; 0: our own pauses
}

func (p passing) Unwrap() error { return p.error }

// persist tries until it works, can't work, or has been tried often enough.
// Pauses double, and each is anything between half and one and a half of what
// is due, so that many hosts that began at once don't stay together.
func (l *Linux) persist(ctx context.Context, tell func(string), try func(context.Context) error) error {
	defer l.waited(time.Now())
	pause := pauses(ctx)
	said := ""
	for n := 1; ; n++ {
		err := func() error {
			once, cancel := context.WithTimeout(ctx, oneTry(ctx))
			defer cancel()
			return try(once)
		}()
		var p passing
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &p):
			return err
		case n == tokenTries:
			return p.error
		}
		if text := p.Error(); text != said {
			said = text
			tell("waiting: " + text)
		}
		wait := pause.NextBackOff()
		if p.after > wait {
			// Nobody is held for more than a minute, and no crowd comes back as one.
			wait = min(p.after, 60*pace(ctx))
			wait += rand.N(wait/4 + 1)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// mayPass tells whether a status is one that may be another soon.
func mayPass(code int) bool {
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code == http.StatusTooEarly
}

// retryAfter reads the header of that name (RFC 9110, 10.2.3): seconds or a
// date; 0 when there is none that counts.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
