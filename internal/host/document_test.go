package host

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

// brisk tries again without real pauses.
func brisk(ctx context.Context) context.Context {
	return context.WithValue(ctx, paceKey{}, time.Millisecond)
}

func TestAConfigurationIsAwaitedWhileItsServerIsNotReady(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("kind: NodeConfig\n"))
	}))
	defer s.Close()
	var told []string
	b, err := New().Document(brisk(t.Context()), s.URL+"/c.yaml", 100, time.Minute, func(text string) { told = append(told, text) })
	require.NoError(t, err)
	require.Equal(t, "kind: NodeConfig\n", string(b))
	require.Len(t, told, 1, "each reason is told once")
	require.Contains(t, told[0], "waiting for "+s.URL+"/c.yaml: the server answered 503")
}

func TestAConfigurationIsAskedForOnceWithoutPatience(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	_, err := New().Document(brisk(t.Context()), s.URL, 100, 0, nil)
	require.ErrorContains(t, err, "503")
	require.Equal(t, fail.Step, fail.KindOf(err))
	require.EqualValues(t, 1, asked.Load())
}

func TestWhatWillNotComeIsNotAwaited(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write([]byte(strings.Repeat("x", 101)))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer plain.Close()
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	defer stranger.Close()
	for url, want := range map[string]string{
		plain.URL + "/missing": "404",
		plain.URL + "/large":   "more than the limit of 100 B",
		stranger.URL:           "certificate signed by unknown authority",
	} {
		_, err := New().Document(brisk(t.Context()), url, 100, time.Hour, nil)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, url)
		require.Equal(t, fail.Step, fail.KindOf(err))
		require.NotEmpty(t, fail.HintOf(err))
	}
}

func TestAnEndlessWaitForAConfigurationEndsWithItsReason(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer s.Close()
	_, err := New().Document(brisk(t.Context()), s.URL, 100, 100*time.Millisecond, nil)
	require.ErrorContains(t, err, "did not come within 100ms")
	require.ErrorContains(t, err, "502")
	require.Equal(t, fail.Timeout, fail.KindOf(err))

	ctx, cancel := context.WithCancel(brisk(t.Context()))
	_, err = New().Document(ctx, s.URL, 100, time.Hour, func(string) { cancel() })
	require.Equal(t, fail.Interrupted, fail.KindOf(err))

	ctx, cancel = context.WithTimeout(brisk(t.Context()), 100*time.Millisecond)
	defer cancel()
	_, err = New().Document(ctx, s.URL, 100, time.Hour, nil)
	require.ErrorContains(t, err, "--timeout is over")
	require.Equal(t, fail.Timeout, fail.KindOf(err))
}

func TestTheKernelsNewsEndAPauseBeforeTheNextTry(t *testing.T) {
	ip := ownNetwork(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news := announcements(ctx)
	ip("link set lo up")
	<-news
}
