package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nodeagent/internal/fail"
)

// searchPath is the only place programs are looked for; the caller's PATH
// could name anything.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// program is one call of an external program. argv is built only by the typed
// functions of this package and never holds a secret.
type program struct {
	name    string
	args    []string
	env     []string      // added to a minimal environment
	direct  bool          // it gets no proxy
	stdin   []byte        // /dev/null when nil
	timeout time.Duration // two minutes when zero
	line    func(string)  // receives each line of output as it comes; may be nil
}

// result is what a program printed and its exit status.
type result struct {
	stdout, stderr []byte
	exit           int
}

// text joins both outputs for diagnosis.
func (r result) text() string {
	return strings.TrimSpace(strings.TrimSpace(string(r.stdout)) + "\n" + strings.TrimSpace(string(r.stderr)))
}

// last is the last line of stderr, or of stdout, for short messages. A line
// that is indented goes on with the one before it (mke2fs).
func (r result) last() string {
	for _, b := range [][]byte{r.stderr, r.stdout} {
		said := ""
		for line := range strings.Lines(strings.TrimSpace(string(b))) {
			if said != "" && strings.HasPrefix(line, "\t") {
				said += " "
			} else {
				said = ""
			}
			said += strings.TrimSpace(line)
		}
		if said != "" {
			return said
		}
	}
	return ""
}

// maxOutput bounds what is kept of a program's output.
const maxOutput = 8 << 20

// exec runs a program to its end. A non-zero exit is not an error: each caller
// knows what its program's statuses mean. A program that a signal ended is an
// error, since its work may be half done. The program gets its own process
// group, so that ctrl-C on a terminal reaches it through us only; on timeout or
// cancellation the group gets SIGTERM, and SIGKILL ten seconds later.
func (l *Linux) exec(ctx context.Context, p program) (result, error) {
	path, err := l.LookPath(p.name)
	if err != nil {
		return result{}, fail.Wrap(fail.Step, err, "install the package that brings "+p.name+" and run again", "program %s is not on this host", p.name)
	}
	if p.timeout == 0 {
		p.timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, p.args...)
	cmd.Env = append([]string{"PATH=" + strings.Join(searchPath, ":"), "LC_ALL=C", "HOME=/root"}, l.proxyFor(p)...)
	cmd.Env = append(cmd.Env, p.env...)
	cmd.Dir = "/" // not where the caller stands, which may be somebody's or gone
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if p.stdin != nil {
		cmd.Stdin = bytes.NewReader(p.stdin)
	}
	var out, errs bounded
	out.line, errs.line = p.line, p.line
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the program left running; usually nothing
	}
	l.mu.Lock()
	l.stats.Programs++
	l.stats.External += time.Since(start)
	l.mu.Unlock()
	slog.Debug("program ended", "name", p.name, "args", p.args, "took", time.Since(start).Round(time.Millisecond), "error", err)
	r := result{stdout: out.buf.Bytes(), stderr: errs.buf.Bytes()}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() == context.DeadlineExceeded:
		return r, fail.New(fail.Timeout, "see whether it hangs when run by hand", "%s %s did not finish within %s; its last line: %s", p.name, strings.Join(p.args, " "), p.timeout, r.last())
	case ctx.Err() != nil:
		return r, ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay):
		return r, nil // it succeeded; a daemon that it started still holds its output
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return r, killed(p, status.Signal())
		}
		r.exit = exit.ExitCode()
		return r, nil
	}
	return r, fmt.Errorf("running %s: %w", p.name, err)
}

// killed is the error of a program that a signal ended. The kernel sends
// SIGKILL when memory runs out, and that is seldom anybody else.
func killed(p program, by syscall.Signal) error {
	hint := "run again: what is done stays done"
	if by == syscall.SIGKILL {
		hint = "if memory ran out (journalctl -k | grep -i oom), give the host more or stop something; then run again: what is done stays done"
	}
	return fail.New(fail.Step, hint, "%s was ended by signal %d (%s) before it was done", p.name, by, by)
}

// must is exec for programs whose only good status is 0.
func (l *Linux) must(ctx context.Context, p program) (result, error) {
	r, err := l.exec(ctx, p)
	if err == nil && r.exit != 0 {
		err = fmt.Errorf("%s %s exited with %d: %s", p.name, strings.Join(p.args, " "), r.exit, r.last())
	}
	return r, err
}

// LookPath finds a program in the fixed PATH below the root.
func (l *Linux) LookPath(name string) (string, error) {
	for _, dir := range searchPath {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(l.path(path)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &fs.PathError{Op: "find program", Path: name, Err: fs.ErrNotExist}
}

// bounded keeps the head and drops what is beyond maxOutput, and hands over
// whole lines as they come.
type bounded struct {
	buf     bytes.Buffer
	line    func(string)
	partial []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	if b.line != nil {
		b.partial = append(b.partial, p...)
		for {
			i := bytes.IndexAny(b.partial, "\r\n")
			if i < 0 {
				break
			}
			if s := strings.TrimSpace(string(b.partial[:i])); s != "" {
				b.line(s)
			}
			b.partial = b.partial[i+1:]
		}
		if len(b.partial) > 64<<10 {
			b.partial = nil
		}
	}
	return len(p), nil
}
