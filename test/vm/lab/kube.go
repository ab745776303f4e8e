package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// bin is the path of one of the lab's programs.
func (l *Lab) bin(name string) string { return filepath.Join(l.Assets.Bin, name) }

// kubeadm runs kubeadm with space-separated arguments.
func (l *Lab) kubeadm(ctx context.Context, args string) (string, error) {
	return run(ctx, l.bin("kubeadm"), strings.Fields(args)...)
}

func (l *Lab) kubectl(ctx context.Context, config string, args ...string) (string, error) {
	return run(ctx, l.bin("kubectl"), append([]string{"--kubeconfig=" + config}, args...)...)
}

// Kubectl runs kubectl as the cluster's administrator.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	return l.kubectl(ctx, adminConf, args...)
}

// Apply creates or changes the objects of a manifest.
func (l *Lab) Apply(ctx context.Context, manifest string) error {
	c := command{stdin: []byte(manifest)}
	_, err := c.run(ctx, l.bin("kubectl"), "--kubeconfig="+adminConf, "apply", "--filename=-")
	return err
}

// JoinCommand makes a bootstrap token that lives for ttl and returns what
// `kubeadm token create --print-join-command` printed.
func (l *Lab) JoinCommand(ctx context.Context, ttl time.Duration) (string, error) {
	return l.kubeadm(ctx, fmt.Sprintf("--kubeconfig=%s token create --print-join-command --ttl=%s", adminConf, ttl))
}

// WaitPod waits until the pod's containers are ready.
func (l *Lab) WaitPod(ctx context.Context, name string, limit time.Duration) error {
	return l.waitReady(ctx, "pod/"+name, limit)
}

// WaitNode waits until the node is Ready.
func (l *Lab) WaitNode(ctx context.Context, name string, limit time.Duration) error {
	return l.waitReady(ctx, "node/"+name, limit)
}

func (l *Lab) waitReady(ctx context.Context, object string, limit time.Duration) error {
	return WaitFor(ctx, object+" to be Ready", limit, func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", object, `--output=jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end} {range .status.containerStatuses[*]}{.state}{end}`)
		if err == nil && !strings.HasPrefix(out, "True") {
			err = fmt.Errorf("condition Ready is %q", out)
		}
		return err
	})
}

// WaitTokenGone waits until the bootstrap token of a join command was removed
// and its signature taken out of cluster-info.
func (l *Lab) WaitTokenGone(ctx context.Context, joinCommand string, limit time.Duration) error {
	_, token, _ := strings.Cut(joinCommand, "--token ")
	id, _, ok := strings.Cut(token, ".")
	if !ok {
		return fmt.Errorf("no token in the join command")
	}
	return WaitFor(ctx, "token "+id+" to be gone", limit, func(ctx context.Context) error {
		data, err := l.Kubectl(ctx, "get", "configmap", "cluster-info", "--namespace=kube-public", "--output=jsonpath={.data}")
		if err == nil && strings.Contains(data, "jws-kubeconfig-"+id) {
			err = fmt.Errorf("cluster-info is still signed for it")
		}
		return err
	})
}
