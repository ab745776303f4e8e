package vm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// halfJoin is one host that joins again and again, and each time something goes
// wrong on the way.
type halfJoin struct {
	*testing.T
	l *lab.Lab
	g *lab.Guest
}

// whenThere is a program in the guest that acts as soon as a file appears.
func (h *halfJoin) whenThere(path, act string) {
	h.T.Helper()
	must(h.g.Run(h.T.Context(), fmt.Sprintf(`systemd-run --quiet --collect --unit=lab-watch sh -c 'until [ -e %s ]; do :; done; %s'`, path, act)))(h.T)
}

// leave makes the host forget that it is a node, as an administrator would by
// hand, and the cluster too.
func (h *halfJoin) leave() {
	h.T.Helper()
	must(h.g.Run(h.T.Context(), `systemctl stop lab-watch 2>/dev/null; systemctl stop kubelet
rm -rf /etc/kubernetes/*.conf /etc/kubernetes/pki /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml /var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/pki /run/cluster-api`))(h.T)
	h.l.Kubectl(h.T.Context(), "delete", "node", h.g.Name, "--ignore-not-found")
}

// fails wants a run that doesn't succeed and says so in these words.
func (h *halfJoin) fails(code int, words ...string) {
	h.T.Helper()
	out, got := up(h.T, h.g, "")
	if got != code {
		h.T.Errorf("exit %d, want %d", got, code)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			h.T.Errorf("the message doesn't say %q", w)
		}
	}
}

// recovers wants the next run to end Ready with nothing left of the accident,
// and the one after it to find nothing to do.
func (h *halfJoin) recovers() {
	h.T.Helper()
	ctx := h.T.Context()
	if _, code := up(h.T, h.g, ""); code != converged {
		h.T.Fatalf("exit %d; last run %+v", code, lastRunOf(h.T, h.g))
	}
	if n := must(nodeOf(ctx, h.l, h.g.Name))(h.T); !n.ready() {
		h.T.Error("not Ready")
	}
	must(h.g.Run(ctx, `! test -e /etc/kubernetes/bootstrap-kubelet.conf && ! test -e /run/nodeagent/join.yaml && test "$(cat /run/cluster-api/bootstrap-success.complete)" = success && ! pidof kubeadm`))(h.T)
	h.same()
}

// same wants a run that changes nothing.
func (h *halfJoin) same() {
	h.T.Helper()
	if _, code := up(h.T, h.g, ""); code != converged || lastRunOf(h.T, h.g).Changes != 0 {
		h.T.Errorf("the next run: exit %d, %+v", code, lastRunOf(h.T, h.g))
	}
}

// TestHalfJoins breaks the join at its stages against the real control plane.
// Each stage is told apart and the next run recovers from it.
func TestHalfJoins(t *testing.T) {
	l := needLab(t)
	ctx := t.Context()
	const name = "halfjoin"
	g := newGuest(t, l, lab.Rocky9, name)
	join := must(l.JoinCommand(ctx, 2*time.Hour))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile, Disks: "[]", JoinTimeout: "1m"}
	g.Seed(append(lab.ProductFiles(binary(t), config, join), lab.CNIConfig)...)
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	if _, code := up(t, g, "--until kubelet"); code != converged {
		t.Fatalf("exit %d", code)
	}
	stage := func(name string, whole bool, f func(h *halfJoin)) {
		t.Run(name, func(t *testing.T) {
			if whole {
				needWholeMatrix(t)
			}
			h := &halfJoin{T: t, l: l, g: g}
			f(h)
		})
	}

	stage("kubelet doesn't start: its own last words are told", true, func(h *halfJoin) {
		must(g.Run(ctx, `echo 'KUBELET_EXTRA_ARGS=--no-such-flag' >/etc/sysconfig/kubelet`))(h.T)
		h.fails(failed, "no-such-flag")
		must(g.Run(ctx, `echo 'KUBELET_EXTRA_ARGS=' >/etc/sysconfig/kubelet`))(h.T)
		h.recovers()
		h.leave()
	})
	for i, file := range []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/kubeadm-flags.env", "/etc/kubernetes/kubelet.conf"} {
		stage("kubeadm is killed as soon as "+file+" is there", i > 0, func(h *halfJoin) {
			h.whenThere(file, "pkill -KILL -x kubeadm")
			_, code := up(h.T, g, "")
			h.T.Logf("exit %d", code)
			if code == converged && file != "/etc/kubernetes/kubelet.conf" { // with that file the join may well be complete
				h.T.Error("the run succeeded without kubeadm")
			}
			h.recovers()
			h.leave()
		})
	}
	stage("nodeagent is killed while kubeadm runs: there are never two of them", true, func(h *halfJoin) {
		h.whenThere("/run/nodeagent/join.yaml", "sleep 1; pkill -KILL -x nodeagent; while sleep 0.1; do [ $(pgrep -x -c kubeadm) -lt 2 ] || touch /run/lab-two; done")
		g.Exec(ctx, "nodeagent up")
		h.recovers()
		must(g.Run(ctx, "! test -e /run/lab-two"))(h.T)
		h.leave()
	})
	stage("the API server goes away in the middle and comes back", true, func(h *halfJoin) {
		h.whenThere("/etc/kubernetes/bootstrap-kubelet.conf", "iptables -I OUTPUT -p tcp --dport 6443 -j REJECT")
		_, code := up(h.T, g, "")
		if code == converged {
			h.T.Error("the run succeeded without an API server")
		}
		must(g.Run(ctx, "iptables -D OUTPUT -p tcp --dport 6443 -j REJECT"))(h.T)
		h.recovers()
		h.leave()
	})
	stage("the current is cut in the middle of the join", true, func(h *halfJoin) {
		must(g.Run(ctx, "sync"))(h.T)
		h.whenThere("/var/lib/kubelet/config.yaml", "sync; echo b >/proc/sysrq-trigger")
		g.Exec(ctx, "nodeagent up")
		check(h.T, lab.WaitFor(ctx, "the guest to be off", time.Minute, func(context.Context) error {
			if g.Running() {
				return fmt.Errorf("it runs")
			}
			return nil
		}))
		g.PowerCut()
		check(h.T, g.Boot(ctx))
		check(h.T, g.WaitSSH(ctx, 5*time.Minute))
		h.recovers()
		h.leave()
	})
	stage("the certificate is approved after the run has given up", false, func(h *halfJoin) {
		const binding = "kubeadm:node-autoapprove-bootstrap"
		must(l.Kubectl(ctx, "delete", "clusterrolebinding", binding))(h.T)
		approve := func() (string, error) {
			return l.Kubectl(context.Background(), "create", "clusterrolebinding", binding,
				"--clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient", "--group=system:bootstrappers:kubeadm:default-node-token")
		}
		defer approve() // the other suites join the same cluster
		_, code := up(h.T, g, "")
		if code == converged {
			h.T.Error("the run succeeded without a certificate")
		}
		for _, csr := range strings.Fields(must(l.Kubectl(ctx, "get", "csr", `--output=go-template={{range .items}}{{if not .status.conditions}}{{.metadata.name}} {{end}}{{end}}`))(h.T)) {
			must(l.Kubectl(ctx, "certificate", "approve", csr))(h.T)
		}
		must(approve())(h.T)
		h.recovers()
	})
	stage("a node of this cluster is left as it is; another cluster is refused with both names", false, func(h *halfJoin) {
		h.same()
		other := config
		other.CACerts = []string{"sha256:" + strings.Repeat("0123456789abcdef", 4)}
		check(h.T, g.CopyIn(ctx, lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: other.String()}))
		before := must(g.Run(ctx, "sha256sum /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml; systemctl show --property=MainPID kubelet"))(h.T)
		h.fails(refused, "another cluster", "sha256:0123456789abcdef", "cp.lab.test:6443")
		if after := must(g.Run(ctx, "sha256sum /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml; systemctl show --property=MainPID kubelet"))(h.T); after != before {
			h.T.Errorf("now %s, before %s", after, before)
		}
		check(h.T, g.CopyIn(ctx, lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: config.String()}))
		h.same()
	})
	stage("a Ready node of that name, which isn't this host, is an error that says so", true, func(h *halfJoin) {
		must(g.Run(ctx, `systemctl stop kubelet; rm -rf /etc/kubernetes/*.conf /etc/kubernetes/pki /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml /var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/pki`))(h.T)
		h.fails(failed, "Ready node named "+name)
		must(l.Kubectl(ctx, "delete", "node", name))(h.T)
		h.recovers()
	})
	checkNoToken(t, g, tokenSecret(t, join))
}
