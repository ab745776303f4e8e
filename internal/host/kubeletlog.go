package host

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nodeagent/internal/join/kubeadm"
)

// kubeletError is what kubelet last died of (fatal) or complained about since
// a moment; empty when its journal has nothing or can't be read.
func (l *Linux) kubeletError(ctx context.Context, since time.Time) (text string, fatal bool) {
	r, err := l.exec(ctx, program{name: "journalctl", timeout: 20 * time.Second,
		args: []string{"--no-pager", "--quiet", "--output=cat", "--unit=kubelet.service", "--lines=200", "--since=@" + strconv.FormatInt(since.Unix(), 10)}})
	if err != nil || r.exit != 0 {
		return "", false
	}
	return kubeadm.LastKubeletError(string(r.stdout))
}

// kubeletRestarts is how often systemd has restarted kubelet since somebody
// last started it by hand (systemd.service(5), NRestarts), and whether it runs.
func (l *Linux) kubeletRestarts(ctx context.Context) (restarts int, active string, err error) {
	r, err := l.must(ctx, program{name: "systemctl", args: []string{"show", "--property=NRestarts,ActiveState", "kubelet.service"}, timeout: 20 * time.Second})
	if err != nil {
		return 0, "", err
	}
	for line := range strings.Lines(string(r.stdout)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "NRestarts":
			if restarts, err = strconv.Atoi(value); err != nil {
				return 0, "", fmt.Errorf("systemctl says NRestarts=%s", value)
			}
		case "ActiveState":
			active = value
		}
	}
	return restarts, active, nil
}

// stopKubelet stops kubelet; one that doesn't exist is stopped.
func (l *Linux) stopKubelet(ctx context.Context) error {
	r, err := l.exec(ctx, program{name: "systemctl", args: []string{"stop", "kubelet.service"}})
	if err == nil && r.exit != 0 && !strings.Contains(r.text(), "not loaded") {
		err = fmt.Errorf("systemctl stop kubelet.service exited with %d: %s", r.exit, r.last())
	}
	return err
}
