package lab

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Log prints lines with the time since it was made.
type Log struct {
	mu    sync.Mutex
	w     io.Writer
	start time.Time
}

// NewLog returns a Log that writes to w.
func NewLog(w io.Writer) *Log { return &Log{w: w, start: time.Now()} }

// Printf writes one line.
func (l *Log) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%7.1fs  %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}
