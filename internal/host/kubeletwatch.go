package host

import (
	"context"
	"errors"
	"sync"
	"time"
)

// kubeletWatch looks after kubelet while kubeadm waits for it. A kubelet that
// dies again and again won't get better: kubeadm would wait for minutes and
// then not say why.
type kubeletWatch struct {
	host   *Linux
	start  time.Time
	giveUp context.CancelCauseFunc

	once sync.Once
	done sync.WaitGroup
	stop context.CancelFunc

	mu   sync.Mutex
	said string
}

// Deaths after which kubelet is given up; systemd restarts it every 10 s as
// kubeadm's unit has it.
const (
	hopeless    = 3
	watchPeriod = 5 * time.Second
)

var errKubeletDies = errors.New("kubelet dies again and again")

// begin starts to look, once.
func (w *kubeletWatch) begin(ctx context.Context) {
	w.once.Do(func() {
		ctx, w.stop = context.WithCancel(ctx)
		w.done.Go(func() { w.look(ctx) })
	})
}

// end stops looking and waits until nobody does.
func (w *kubeletWatch) end() {
	w.once.Do(func() {})
	if w.stop != nil {
		w.stop()
	}
	w.done.Wait()
}

// error is what kubelet died of, once it was given up.
func (w *kubeletWatch) error() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

func (w *kubeletWatch) look(ctx context.Context) {
	first := -1
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchPeriod):
		}
		n, active, err := w.host.kubeletRestarts(ctx)
		if err != nil {
			return // kubeadm's own judgement has to do
		}
		if first < 0 {
			first = n
		}
		if n-first < hopeless || active == "active" {
			continue
		}
		if e, fatal := w.host.kubeletError(ctx, w.start); fatal {
			w.mu.Lock()
			w.said = e
			w.mu.Unlock()
			w.giveUp(errKubeletDies)
			return
		}
	}
}
