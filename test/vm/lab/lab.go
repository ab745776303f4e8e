package lab

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Lab is a running LAN with what was started on it.
type Lab struct {
	Assets *Assets
	RunDir string // logs, consoles, disks of this run
	Log    *Log

	accel  []string // qemu's choice of processor
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
	if err := l.startNetwork(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
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
