package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/kubeadm"
	"nodeagent/internal/join/token"
	"nodeagent/internal/kubelet/release"
)

// Files that hold a token while kubeadm runs. They lie in a tmpfs, in a
// directory of mode 0700, and are removed whatever happens; a run that was
// killed has its leftovers removed by the next one.
const (
	runDir = "/run/nodeagent"
	// JoinPath is the JoinConfiguration.
	JoinPath = runDir + "/join.yaml"
	// DiscoveryPath is the kubeconfig of discovery by file.
	DiscoveryPath = runDir + "/discovery.conf"
)

// applyJoin runs kubeadm join. Before that it looks at the cluster itself, so
// that each thing that can be wrong gets its own sentence at once.
func (l *Linux) applyJoin(ctx context.Context, c change.Join, progress func(string)) (err error) {
	if l.credential == nil {
		return fail.New(fail.Step, "run nodeagent up again", "no join token is held")
	}
	d := *l.credential
	defer func() {
		if err != nil {
			l.dropAfterFailure(ctx, progress)
		}
	}()
	// Whatever a program printed, a token never leaves.
	tell := func(s string) { progress(d.Redact(s)) }
	defer func() {
		if err != nil && d.Redact(err.Error()) != err.Error() {
			err = fail.New(fail.KindOf(err), d.Redact(fail.HintOf(err)), "%s", d.Redact(err.Error()))
		}
	}()
	t, err := l.targetOf(c, d)
	if err != nil {
		return err
	}
	if err := l.otherKubeadm(ctx, c.Timeout, tell); err != nil {
		return err
	}
	if n, _ := l.membership(time.Now()); n.Joined { // a late approval completed an earlier join
		return l.joined(tell)
	}
	if c.Resume {
		if err := l.cleanHalfJoin(ctx, tell); err != nil {
			return err
		}
	}
	if err := l.reachCluster(ctx, t, c.Timeout, tell); err != nil {
		if d, err = l.anotherToken(ctx, d, err, tell); err != nil {
			return err
		}
		if t, err = l.targetOf(c, d); err != nil {
			return err
		}
		if err := l.reachCluster(ctx, t, c.Timeout, tell); err != nil {
			return err
		}
	}
	defer os.Remove(JoinPath)
	defer os.Remove(DiscoveryPath)
	if err := writeJoinFiles(c, t); err != nil {
		return err
	}
	if minor, ok := release.Minor(c.KubernetesVersion); ok && minor >= 26 { // the command came with 1.26
		r, err := l.exec(ctx, program{name: "kubeadm", args: []string{"config", "validate", "--config", JoinPath}})
		if err != nil {
			return err
		}
		if r.exit != 0 {
			f := kubeadm.Diagnose(d.Redact(r.text()), c.NodeName)
			return fail.New(fail.Step, "see whether kubeadm is of the version that spec.kubernetes.version names: kubeadm version", "kubeadm doesn't accept the join configuration: %s", f.Evidence)
		}
	}
	return l.runJoin(ctx, c, d, tell)
}

// target is the cluster to join and what its identity is checked with.
type target struct {
	endpoint string
	pins     []string
	ca       []byte // PEM: discovery by file
	token    string
	user     bool // the document's kubeconfig has a user of its own
	whole    []byte
	fresh    bool // made a moment ago: not every API server may know it yet
}

// targetOf lets the configuration win over the document.
func (l *Linux) targetOf(c change.Join, d token.Document) (target, error) {
	t := target{endpoint: c.Endpoint, token: d.Token, whole: d.Kubeconfig, user: len(d.Kubeconfig) > 0, fresh: l.source.Mint != nil}
	if t.endpoint == "" {
		t.endpoint = d.Endpoint
	}
	if t.endpoint == "" {
		return t, fail.New(fail.Usage, "set spec.join.endpoint, or use the output of `kubeadm token create --print-join-command` as the token document", "neither the configuration nor the token document says where the API server is")
	}
	switch {
	case len(c.CACertHashes) > 0:
		t.pins = c.CACertHashes
	case c.CACert != "":
		t.ca = []byte(c.CACert)
	case len(d.CACertHashes) > 0:
		t.pins = d.CACertHashes
	case len(d.CACert) > 0:
		t.ca = d.CACert
	default:
		return t, unpinned()
	}
	if t.user && len(d.CACert) > 0 {
		t.ca = d.CACert
	}
	return t, nil
}

func unpinned() error {
	return fail.New(fail.Safety, "set spec.join.caCertHashes, or use the output of `kubeadm token create --print-join-command` as the token document",
		"nothing says which CA the cluster has, so anybody who answers at the endpoint could take this host over")
}

func writeJoinFiles(c change.Join, t target) error {
	dir, err := openDir(runDir, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Chmod(0o700); err != nil {
		return err
	}
	disc := kubeadm.Discovery{Token: t.token, Endpoint: t.endpoint, Pins: t.pins}
	if len(t.ca) > 0 {
		file := t.whole
		if !t.user {
			if file, err = kubeadm.DiscoveryFile(t.endpoint, t.ca); err != nil {
				return err
			}
		}
		if err := replace(DiscoveryPath, true, file, 0o600, 0, 0); err != nil {
			return err
		}
		disc.File = DiscoveryPath
	}
	b, err := kubeadm.Configuration(c, disc)
	if err != nil {
		return err
	}
	return replace(JoinPath, true, b, 0o600, 0, 0)
}

// runJoin runs kubeadm and judges how it ended.
func (l *Linux) runJoin(ctx context.Context, c change.Join, d token.Document, tell func(string)) error {
	start := time.Now()
	child, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &kubeletWatch{host: l, start: start, giveUp: cancel}
	var one sync.Mutex // both outputs bring lines, and a reader of events takes one at a time
	// kubeadm gets no proxy, neither the configuration's nor one of this program's
	// environment: it talks to the API server only, under whatever name the cluster
	// tells it, and reaches it directly, as kubelet does.
	r, err := l.exec(child, program{name: "kubeadm", args: []string{"join", "--config", JoinPath}, direct: true, timeout: c.Timeout, line: func(line string) {
		one.Lock()
		defer one.Unlock()
		if strings.HasPrefix(line, "[") {
			tell(line)
		}
		if strings.HasPrefix(line, "[kubelet-check]") || strings.HasPrefix(line, "[kubelet-start] Starting") {
			w.begin(child)
		}
	}})
	w.end()
	if err == nil && r.exit == 0 {
		return l.joined(tell)
	}
	if ctx.Err() != nil {
		l.burnBootstrap()
		return ctx.Err()
	}
	if err != nil && fail.KindOf(err) != fail.Timeout && w.error() == "" { // it didn't even run
		l.burnBootstrap()
		return err
	}
	f := kubeadm.Diagnose(d.Redact(r.text()), c.NodeName)
	if fail.KindOf(err) == fail.Timeout {
		f.Kind, f.Text = fail.Timeout, fmt.Sprintf("kubeadm join did not finish within %s: %s", c.Timeout, f.Text)
	}
	if w.error() == "" && f.MayStillJoin() {
		if err := l.lateApproval(ctx, tell); err != nil {
			return err
		}
	}
	if n, _ := l.membership(time.Now()); n.Joined {
		return l.joined(tell)
	}
	return l.joinFailed(ctx, f, w.error(), start)
}

// lateApprovalLimit is how long a certificate is waited for after kubeadm gave
// up.
const lateApprovalLimit = 15 * time.Second

// lateApproval waits a little for kubelet's certificate: a request that is
// approved late still completes the join, and cleaning it away would waste it.
func (l *Linux) lateApproval(ctx context.Context, tell func(string)) error {
	tell("kubeadm gave up; looking whether kubelet gets its certificate after all")
	for until := time.Now().Add(lateApprovalLimit); time.Now().Before(until); {
		if n, _ := l.membership(time.Now()); n.Joined {
			return nil
		}
		if _, err := os.Lstat(bootstrapConf); err != nil { // without it there is none to come
			return nil
		}
		select {
		case <-ctx.Done():
			l.burnBootstrap()
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// joinFailed cleans the live token away and words the failure; kubelet's own
// last words count more than kubeadm's.
func (l *Linux) joinFailed(ctx context.Context, f kubeadm.Failure, kubeletError string, start time.Time) error {
	switch f.Cause {
	case kubeadm.KubeletDown, kubeadm.TLSBootstrap, kubeadm.Unknown:
		if kubeletError == "" {
			// A kubelet that waits for its certificate complains about everything that
			// it may not do yet.
			if e, fatal := l.kubeletError(ctx, start); fatal || f.Cause != kubeadm.TLSBootstrap {
				kubeletError = e
			}
		}
		// Without its bootstrap credential kubelet can only fail again and again.
		if err := l.stopKubelet(ctx); err != nil {
			f.Hint += " (kubelet could not be stopped: " + err.Error() + ")"
		}
	}
	l.burnBootstrap()
	if kubeletError == "" {
		return fail.New(f.Kind, f.Hint, "%s", f.Text)
	}
	hint := kubeadm.KubeletHint(kubeletError)
	if hint == "" {
		hint = "look at: journalctl -u kubelet"
	}
	text := f.Text
	if f.Cause == kubeadm.KubeletDown || f.Cause == kubeadm.Unknown {
		text = "kubelet didn't come up"
	}
	return fail.New(f.Kind, hint, "%s; kubelet says: %s", text, kubeletError)
}

// joined forgets the token everywhere.
func (l *Linux) joined(tell func(string)) error {
	n, _ := l.membership(time.Now())
	if !n.Joined {
		return fail.New(fail.Step, "look at: journalctl -u kubelet", "kubeadm join ended well, but this host has not joined: %s", n.Problem)
	}
	l.burnBootstrap()
	l.credential = nil
	// kubeadm and kubelet don't sync what they write, and the note that a join was
	// begun goes next: a power cut would leave an empty kubelet.conf that looks
	// like somebody else's.
	unix.Sync()
	tell("joined " + n.Server + " as " + n.Name)
	return nil
}
