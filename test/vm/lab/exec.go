package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// command is one program call of the lab itself (not of a guest).
type command struct {
	dir   string
	env   []string // added to the lab's environment
	stdin []byte
}

// run executes a program and returns its standard output. The error holds the
// end of what the program printed, since that is where the reason stands.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	var stdout, both bytes.Buffer
	cmd.Stdout = &tee{&stdout, &both}
	cmd.Stderr = &both
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(both.String(), 2000))
	}
	return stdout.String(), nil
}

// run executes a program with the lab's own environment.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return command{}.run(ctx, name, args...)
}

// tee writes to two buffers. Unlike io.MultiWriter over a shared buffer it is
// comparable, so exec keeps standard output and standard error apart.
type tee struct{ a, b *bytes.Buffer }

func (t *tee) Write(p []byte) (int, error) {
	t.a.Write(p)
	return t.b.Write(p)
}

// tail returns at most the last n bytes of s.
func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
