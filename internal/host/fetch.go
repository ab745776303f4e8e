package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// stall is how long a download may stand still.
const stall = time.Minute

// fetchTries bounds how often something is fetched; only what may pass by
// itself is tried again.
const fetchTries = 4

// client fetches over http and https, through the proxy that the environment
// or else the package manager's configuration names. It never goes from https
// to http.
func client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 proxyOf,
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			TLSClientConfig:       tlsConfig(),
			TLSHandshakeTimeout:   15 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			ForceAttemptHTTP2:     true,
			DisableKeepAlives:     true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("ten redirects")
			}
			if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
				return fmt.Errorf("redirected from https to %s", r.URL.Redacted())
			}
			return nil
		},
	}
}

// fetch copies what a URL (http, https, file) or an absolute path holds, at
// most limit bytes. start is called before every try and returns where the
// bytes of that try go. An error names the source.
func (l *Linux) fetch(ctx context.Context, source string, limit int64, start func() (io.Writer, error)) error {
	begun := time.Now()
	defer func() {
		l.mu.Lock()
		l.stats.External += time.Since(begun)
		l.mu.Unlock()
	}()
	once := func() (struct{}, error) {
		w, err := start()
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, fetchOnce(ctx, source, limit, w)
	}
	_, err := backoff.Retry(ctx, once, backoff.WithBackOff(pauses(ctx)), backoff.WithMaxTries(fetchTries))
	if err == nil {
		return nil
	}
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	if offline(err) {
		return unreachable{connectTrouble(source, err).Error}
	}
	return fail.Wrap(fail.Step, err, "try it by hand from this host: curl -fLO "+source, "%s can't be fetched", source)
}

// unreachable is a source that nothing was heard of: its server may be as it
// should, and the way there isn't.
type unreachable struct{ why *fail.Error }

// Error returns the sentence.
func (u unreachable) Error() string { return u.why.Error() }

// Unwrap lets the error count as what it holds.
func (u unreachable) Unwrap() error { return u.why }

// offline tells whether err is about the way to a server, and not about what it
// answered or who it is.
func offline(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) || isTimeout(err) ||
		slices.ContainsFunc([]syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// paceKey is where a context carries the first pause.
type paceKey struct{}

// pace is the first pause before something is tried again.
func pace(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(paceKey{}).(time.Duration); ok {
		return d
	}
	return time.Second
}

// pauses are those between tries: doubled each time, up to 15 times the first.
func pauses(ctx context.Context) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = pace(ctx)
	b.MaxInterval = 15 * b.InitialInterval
	b.Multiplier = 2
	return b
}

// fetchOnce is one try. Errors that trying again can't mend are permanent.
func fetchOnce(ctx context.Context, source string, limit int64, w io.Writer) error {
	if path, ok := localPath(source); ok {
		f, err := os.Open(path)
		if err != nil {
			return backoff.Permanent(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return backoff.Permanent(errors.Join(err, errors.New("not a regular file")))
		}
		if err := copyAtMost(w, f, limit); err != nil {
			return backoff.Permanent(err)
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no data for %s", stall)) })
	defer watch.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return backoff.Permanent(err)
	}
	req.Header.Set("User-Agent", "nodeagent")
	resp, err := client().Do(req)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("the server answered %s", resp.Status)
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout {
			return backoff.Permanent(err)
		}
		return err
	}
	if resp.ContentLength > limit {
		return backoff.Permanent(fmt.Errorf("it is %s, more than the limit of %s", change.Size(resp.ContentLength), change.Size(limit)))
	}
	err = copyAtMost(w, &alive{resp.Body, watch}, limit)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// errTooLarge ends the tries: the same bytes would come again.
var errTooLarge = errors.New("larger than allowed")

// copyAtMost copies no more than limit bytes; more is an error.
func copyAtMost(w io.Writer, r io.Reader, limit int64) error {
	local := &localWriter{w: w}
	n, err := io.Copy(local, io.LimitReader(r, limit+1))
	switch {
	case local.err != nil:
		return backoff.Permanent(local.err)
	case err != nil:
		return err
	case n > limit:
		return backoff.Permanent(fmt.Errorf("%w: more than %s", errTooLarge, change.Size(limit)))
	}
	return nil
}

// localWriter remembers its own failure, apart from the reader's.
type localWriter struct {
	w   io.Writer
	err error
}

func (l *localWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if err != nil {
		l.err = err
	}
	return n, err
}

// alive puts the stall timer back with every piece of data.
type alive struct {
	r     io.Reader
	watch *time.Timer
}

func (a *alive) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.watch.Reset(stall)
	}
	return n, err
}

// localPath tells whether a source is on this host.
func localPath(source string) (string, bool) {
	if strings.HasPrefix(source, "/") {
		return source, true
	}
	u, err := url.Parse(source)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	return u.Path, true
}
