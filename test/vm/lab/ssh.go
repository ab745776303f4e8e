package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Result is the outcome of a program in a guest.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// sshArgs are the options in front of the guest's address.
func (g *Guest) sshArgs() []string {
	return []string{"-F", "none", "-i", g.lab.Assets.SSHKey(), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
		"-o", "ControlPath=" + g.sshSocket()}
}

// sshSocket is where the boot's shared connection listens. Without it ssh
// connects anew, which costs an emulated guest a second.
func (g *Guest) sshSocket() string { return fmt.Sprintf("/mnt/ssh-%s-%d", g.Name, g.boots) }

// shareSSH opens the connection that later calls go through.
func (g *Guest) shareSSH(ctx context.Context) error {
	args := append(g.sshArgs(), "-M", "-N", "root@"+g.Addr)
	master, err := g.lab.spawn(g.Name+"-ssh", "ssh", args...)
	if err != nil {
		return err
	}
	g.master = master
	return WaitFor(ctx, "a shared ssh connection to "+g.Name, 30*time.Second, func(context.Context) error {
		if err := master.alive(); err != nil {
			return err
		}
		_, err := os.Stat(g.sshSocket())
		return err
	})
}

// ssh is a program call in the guest. The remote shell gets script as it is.
func (g *Guest) ssh(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", append(g.sshArgs(), "root@"+g.Addr, script)...)
	// The shared connection holds our pipes too: don't wait for it once ssh was killed.
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// sshAlone is a program call over a connection of its own, which ends with ctx.
func (g *Guest) sshAlone(ctx context.Context, script string) *exec.Cmd {
	// Of an option given twice, ssh takes the first.
	args := slices.Concat([]string{"-o", "ControlPath=none"}, g.sshArgs(), []string{"root@" + g.Addr, script})
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// Exec runs a shell script in the guest and returns all of its outcome. The
// error is only for scripts that couldn't be run.
func (g *Guest) Exec(ctx context.Context, script string) (Result, error) {
	return g.exec(ctx, "", script)
}

func (g *Guest) exec(ctx context.Context, input, script string) (Result, error) {
	cmd := g.ssh(ctx, script)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != 255 {
		r.Code = exit.ExitCode()
		return r, nil
	}
	if err != nil {
		err = fmt.Errorf("ssh to %s: %w: %s", g.Name, err, tail(r.Stderr, 500))
	}
	return r, err
}

// Run runs a shell script in the guest that must succeed and returns its
// standard output.
func (g *Guest) Run(ctx context.Context, script string) (string, error) {
	return g.RunWithInput(ctx, "", script)
}

// RunWithInput is Run with something on the script's standard input.
func (g *Guest) RunWithInput(ctx context.Context, input, script string) (string, error) {
	r, err := g.exec(ctx, input, script)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit %d of %q: %s", g.Name, r.Code, script, tail(r.Stdout+r.Stderr, 2000))
	}
	return r.Stdout, err
}

// Stream runs a shell script in the guest with its output going to out as it
// comes, and returns its exit code.
func (g *Guest) Stream(ctx context.Context, out io.Writer, script string) (int, error) {
	return g.StreamWithInput(ctx, "", out, script)
}

// StreamWithInput is Stream with something on the script's standard input. The
// connection is its own and dies with ctx.
func (g *Guest) StreamWithInput(ctx context.Context, input string, out io.Writer, script string) (int, error) {
	cmd := g.sshAlone(ctx, script)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != 255 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// CopyIn puts files into the running guest.
func (g *Guest) CopyIn(ctx context.Context, files ...File) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, files)) }()
	cmd := g.ssh(ctx, "tar -C / --no-overwrite-dir -xpf -")
	cmd.Stdin = r
	out, err := cmd.CombinedOutput()
	r.Close()
	if err != nil {
		return fmt.Errorf("copy to %s: %w: %s", g.Name, err, tail(string(out), 500))
	}
	return nil
}

// SCP copies a file into the guest, as an administrator does.
func (g *Guest) SCP(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "scp", append(g.sshArgs(), "-p", from, "root@"+g.Addr+":"+to)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scp to %s: %w: %s", g.Name, err, tail(string(out), 500))
	}
	return nil
}

// CopyOut writes a file of the guest to one of the lab machine.
func (g *Guest) CopyOut(ctx context.Context, from, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := g.ssh(ctx, "cat "+quote(from))
	cmd.Stdout = f
	return cmd.Run()
}

// quote makes one shell word of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Session is one ssh connection that is kept open, to show that nothing cuts it.
type Session struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	n     int
}

// OpenSession connects and stays connected until Close.
func (g *Guest) OpenSession(ctx context.Context) (*Session, error) {
	s := &Session{cmd: g.sshAlone(ctx, "cat"), lines: make(chan string)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.lines)
		for r := bufio.NewScanner(out); r.Scan(); {
			s.lines <- r.Text()
		}
	}()
	return s, s.Check()
}

// Check sends a line over the connection and wants it back.
func (s *Session) Check() error {
	s.n++
	line := fmt.Sprintf("still here %d", s.n)
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		return fmt.Errorf("the ssh connection is gone: %w", err)
	}
	select {
	case got, ok := <-s.lines:
		if !ok {
			return errors.New("the ssh connection was closed")
		}
		if got != line {
			return fmt.Errorf("the ssh connection returned %q for %q", got, line)
		}
		return nil
	case <-time.After(30 * time.Second):
		return errors.New("the ssh connection doesn't answer")
	}
}

// Close ends the connection.
func (s *Session) Close() error {
	s.in.Close()
	return s.cmd.Wait()
}

// Shell is an interactive root shell in the guest.
func (g *Guest) Shell(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", append(g.sshArgs(), "-t", "root@"+g.Addr)...)
}
