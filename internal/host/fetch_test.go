package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

func TestARepositoryThatCannotBeReachedIsNotCalledEmpty(t *testing.T) {
	server := httptest.NewServer(nil)
	gone := server.URL
	server.Close()
	ctx := context.WithValue(t.Context(), paceKey{}, time.Millisecond)
	err := New().Apply(ctx, change.ProbeRepository{Repository: "kubernetes", BaseURL: gone + "/k/"}, nil)
	require.EqualError(t, err, "repository kubernetes can't be read: "+gone+"/k/repodata/repomd.xml can't be reached: connection refused")
	require.Contains(t, fail.HintOf(err), "the port is right")
	require.Contains(t, fail.HintOf(err), "was not enabled")
}

func TestWhatIsAboutTheWayIsTold(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Get", URL: "http://repo.example/x", Err: err} }
	dial := func(err error) error { return get(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	for sentence, err := range map[string]error{
		"it can't be found: the name repo.example does not resolve":                        dial(&net.DNSError{Err: "no such host", Name: "repo.example", IsNotFound: true}),
		"it can't be found: the name server doesn't answer for repo.example (i/o timeout)": dial(&net.DNSError{Err: "i/o timeout", Name: "repo.example", IsTimeout: true}),
		"it can't be reached: no route there":                                              dial(os.NewSyscallError("connect", syscall.ENETUNREACH)),
		"it can't be reached: connection refused":                                          dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"it can't be reached: no answer in time":                                           get(context.DeadlineExceeded),
	} {
		require.True(t, offline(err), sentence)
		require.Equal(t, sentence, connectTrouble("it", err).Error.Text)
	}
	for _, err := range []error{errors.New("404 Not Found"), get(fmt.Errorf("tls: failed to verify certificate")), os.ErrPermission} {
		require.False(t, offline(err), err)
	}
}
