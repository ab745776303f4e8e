package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"nodeagent/internal/fail"
)

// bootstrapConf is where kubeadm puts the token for kubelet's first start.
const bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"

// halfJoinFiles are what kubeadm join writes and a failed one leaves behind
// (cmd/kubeadm/app/cmd/phases/join/kubelet.go).
var halfJoinFiles = []string{KubeletConf, bootstrapConf, "/etc/kubernetes/pki/ca.crt",
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"}

// kubeletPKI is where kubelet keeps its certificates.
const kubeletPKI = "/var/lib/kubelet/pki"

// burnBootstrap removes the copy of the token that kubeadm leaves after a
// failed start (since 1.33).
func (l *Linux) burnBootstrap() { _ = os.Remove(bootstrapConf) } // not there: fine; else the next run takes it for a leftover

// cleanHalfJoin removes exactly the files of an unfinished join and nothing
// else: no directory is emptied by pattern, no mount is crossed.
func (l *Linux) cleanHalfJoin(ctx context.Context, tell func(string)) error {
	tell("removing what an unfinished join left behind")
	if err := l.stopKubelet(ctx); err != nil {
		return err
	}
	for _, path := range halfJoinFiles {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a leftover of an unfinished join: %w", err)
		}
	}
	info, err := os.Lstat(kubeletPKI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fail.New(fail.Safety, "move it away", "%s is not a directory of kubelet's", kubeletPKI)
	}
	entries, err := os.ReadDir(kubeletPKI)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ours, _ := filepath.Match("kubelet*", e.Name())
		if !ours || e.IsDir() {
			continue
		}
		if err := os.Remove(filepath.Join(kubeletPKI, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a leftover of an unfinished join: %w", err)
		}
	}
	return nil
}

// otherKubeadm waits until no other kubeadm join runs: a run of ours that was
// killed may have left one, and it may still succeed.
func (l *Linux) otherKubeadm(ctx context.Context, limit time.Duration, tell func(string)) error {
	for until := time.Now().Add(limit); ; {
		pid := l.findKubeadmJoin()
		if pid == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fail.New(fail.Timeout, "see what it waits for, or end it: kill "+strconv.Itoa(pid), "another kubeadm join (pid %d) is still running after %s", pid, limit)
		}
		tell(fmt.Sprintf("another kubeadm join (pid %d) is running; waiting for its end", pid))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

// findKubeadmJoin looks through /proc.
func (l *Linux) findKubeadmJoin() int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm")); err != nil || string(bytes.TrimSpace(comm)) != "kubeadm" {
			continue
		}
		argv, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(argv, []byte("\x00join\x00")) {
			return pid
		}
	}
	return 0
}
