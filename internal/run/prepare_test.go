package run_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/run"
)

func TestARunThatHasNoConfigurationYetIsToldByStatus(t *testing.T) {
	w := hosttest.Rocky9()
	opts := run.Options{ID: "r1", Version: "test", Now: time.Now}
	err := run.Prepare(w, opts, "reading https://boot.example/c.yaml", func() error {
		return fail.New(fail.Timeout, "look at the cable", "it did not come")
	})
	require.EqualError(t, err, "it did not come")
	require.Equal(t, fail.Timeout, fail.KindOf(err))
	s, err := run.ReadStatus(w)
	require.NoError(t, err)
	require.Equal(t, "configuration", s.LastRun.Step)
	require.Equal(t, "failed", s.LastRun.Result)
	require.Equal(t, "it did not come", s.LastRun.Error)
	require.Equal(t, "look at the cable", s.LastRun.Hint)
	require.Equal(t, 5, s.LastRun.ExitCode)

	// One that comes leaves the record to the run itself.
	before := w.String()
	require.NoError(t, run.Prepare(w, opts, "", func() error { return nil }))
	require.Equal(t, before, w.String())
}
