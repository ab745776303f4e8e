package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Lab is a running LAN with what was started on it.
type Lab struct {
	Assets *Assets
	RunDir string // logs, consoles, disks of this run
	Log    *Log

	accel  []string // qemu's choice of processor
	claim  *os.File // held while the run goes on
	server *http.Server
	web    *web

	mu        sync.Mutex
	processes []*process
	guests    int
}

// Start brings the LAN up. The process must be Inside.
func Start(ctx context.Context, a *Assets, log *Log) (*Lab, error) {
	if !Inside() {
		return nil, errors.New("the lab starts only in its own namespaces: call Enter")
	}
	if err := settle(); err != nil {
		return nil, err
	}
	l := &Lab{Assets: a, Log: log}
	// Every lab is process 1 of its namespace: the name takes the time.
	l.RunDir = filepath.Join(a.cacheDir, "run", strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.MkdirAll(l.RunDir, 0o755); err != nil {
		return nil, err
	}
	if err := l.claimRunDir(); err != nil {
		return nil, err
	}
	if err := l.startNetwork(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// keptRuns is how many run directories of ended runs stay to be looked into.
const keptRuns = 3

// claimRunDir marks the run directory as in use, and removes the oldest of those
// that aren't: each holds the disks of its guests.
func (l *Lab) claimRunDir() error {
	var err error
	if l.claim, err = lockFile(filepath.Join(l.RunDir, ".claim"), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	runs, err := filepath.Glob(filepath.Join(filepath.Dir(l.RunDir), "*", ".claim"))
	if err != nil {
		return err
	}
	// The names are times: they sort by age.
	for len(runs) > keptRuns {
		if f, err := lockFile(runs[0], syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			os.RemoveAll(filepath.Dir(runs[0]))
			f.Close()
		}
		runs = runs[1:]
	}
	return nil
}

// lockFile opens a file and locks it; closing it, or dying, unlocks it.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// Close ends what the lab started, newest first. The run directory stays: see
// Discard.
func (l *Lab) Close() {
	if l.server != nil {
		l.server.Close()
	}
	l.mu.Lock()
	processes := slices.Clone(l.processes)
	l.mu.Unlock()
	for _, p := range slices.Backward(processes) {
		p.stop(3 * time.Second)
	}
}

// Discard removes the run directory, for runs that nobody needs to look into.
func (l *Lab) Discard() error { return os.RemoveAll(l.RunDir) }
