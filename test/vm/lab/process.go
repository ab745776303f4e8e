package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a program that the lab keeps running.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // path of its output
	done chan struct{} // closed when it has ended
	err  error         // why, after done
}

// spawn starts a program whose output goes to NAME.log in the run directory.
func (l *Lab) spawn(name, program string, args ...string) (*process, error) {
	path := filepath.Join(l.RunDir, name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C ends the lab, which then ends its children in order
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: path, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	l.mu.Lock()
	l.processes = append(l.processes, p)
	l.mu.Unlock()
	return p, nil
}

// alive returns an error, with the end of its output, once the program ended.
func (p *process) alive() error {
	select {
	case <-p.done:
		b, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s ended (%v): %s", p.name, p.err, tail(string(b), 1500))
	default:
		return nil
	}
}

// kill ends the program at once, as a power cut does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop ends the program in its own way, or at once after limit.
func (p *process) stop(limit time.Duration) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.kill()
	}
}
