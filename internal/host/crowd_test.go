package host

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 200 hosts ask one API server at the same moment, which sheds load at first:
// each refusal costs one request more and none else, and all get through. (The
// server is a stand-in; only what the hosts send is real.)
func TestACrowdThatIsShedAsksOnceMoreForEachRefusal(t *testing.T) {
	const hosts, refusals = 200, 300
	ca := newAuthority(t, "kubernetes")
	c := &cluster{ca: ca, signed: map[string]string{"abcdef": "0123456789abcdef"}, tokens: map[string]bool{testToken: true}}
	tg := c.start(t, ca.issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	var requests atomic.Int64
	c.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= refusals {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		c.serve(w, r)
	})
	errs := make([]error, hosts)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range hosts {
		all.Go(func() {
			<-begin
			errs[i] = New().reachCluster(t.Context(), tg, time.Minute, func(string) {})
		})
	}
	close(begin)
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, hosts+refusals, requests.Load())
}
