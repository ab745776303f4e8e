package run

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/report"
)

// busy is a world whose lock is the real one, at a path of the test's own.
type busy struct {
	*hosttest.World
	path string
}

func (b busy) Lock(string) (host.Lock, error) { return host.New().Lock(b.path) }

func TestASecondRunNamesTheProcessAndTheStepOfTheFirst(t *testing.T) {
	b := busy{hosttest.Rocky9(), filepath.Join(t.TempDir(), "run", "lock")}
	first, err := b.Lock("")
	require.NoError(t, err)
	require.NoError(t, first.Note(`{"pid":4711,"run":"x","step":"packages","change":"install 3 package(s)","since":"2026-03-01T12:00:00Z"}`))
	up := func() error {
		_, err := Up(context.Background(), b, config.Default().Spec, nil, Options{ID: "x", Now: time.Now}, func(report.Event) {})
		return err
	}
	err = up()
	require.ErrorContains(t, err, "process 4711 in step packages (install 3 package(s))")
	require.Equal(t, fail.Locked, fail.KindOf(err))
	require.Empty(t, b.Log())
	require.NoError(t, first.Release())
	require.NoError(t, up(), "the lock of a run that ended is free")
}

func TestTheLockLeavesNothingBehindThatLooksLikeARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := host.New().Lock(path)
	require.NoError(t, err)
	require.NoError(t, l.Note("x"))
	require.NoError(t, l.Release())
	again, err := host.New().Lock(path)
	require.NoError(t, err)
	require.NoError(t, again.Release())
}
