package host

import (
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"nodeagent/internal/change"
	"nodeagent/internal/join/mint"
	"nodeagent/internal/join/token"
)

// Linux is the real Host. With a root other than "/" it is a View of a tree of
// files and refuses to Apply.
type Linux struct {
	root string

	mu    sync.Mutex
	seen  map[string]any // answers of programs since the last Apply
	stats Stats
	// unsynced is set while changes may not be on the disks yet.
	unsynced bool

	systemd *systemd.Conn

	proxy []string // the configuration's, as NAME=VALUE (UseProxy)

	credential *token.Document   // the join token, in memory only
	source     change.FetchToken // where it came from
	record     string            // where what it leaves is noted: mint.RecordPath
}

// Stats counts what a run asked of other programs.
type Stats struct {
	Programs int           `json:"programs"` // started
	External time.Duration `json:"external"` // wall time spent in them and in waits
}

// New returns the live host.
func New() *Linux { return &Linux{root: "/", seen: map[string]any{}, record: mint.RecordPath} }

// At returns a view of the files below root, which is not a running system.
func At(root string) *Linux { return &Linux{root: root, seen: map[string]any{}} }

// Live is false when only a tree of files is observed.
func (l *Linux) Live() bool { return l.root == "/" }

// Stats returns what was counted so far.
func (l *Linux) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// TokenHeld tells whether a join token is held in memory.
func (l *Linux) TokenHeld() bool { return l.credential != nil }

// once remembers a successful answer until the next Apply.
func once[T any](l *Linux, key string, ask func() (T, error)) (T, error) {
	l.mu.Lock()
	if v, ok := l.seen[key]; ok {
		l.mu.Unlock()
		return v.(T), nil
	}
	l.mu.Unlock()
	v, err := ask()
	if err == nil {
		l.mu.Lock()
		l.seen[key] = v
		l.mu.Unlock()
	}
	return v, err
}

// forget drops every remembered answer: the host has been changed.
func (l *Linux) forget() {
	l.mu.Lock()
	clear(l.seen)
	l.unsynced = true
	l.mu.Unlock()
}
