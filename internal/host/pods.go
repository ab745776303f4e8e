package host

import (
	"context"
	"fmt"
	"sort"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// podTime bounds the end of one pod: its containers are killed and its network
// is taken down.
const podTime = 2 * time.Minute

// pod is a PodSandbox of the CRI.
type pod struct{ id, namespace, name string }

// Pods lists the pods that a runtime knows, running or not.
func (l *Linux) Pods(ctx context.Context, socket string) ([]string, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	return once(l, "pods "+socket, func() ([]string, error) {
		pods, err := listPods(ctx, socket)
		var out []string
		for _, p := range pods {
			out = append(out, p.namespace+"/"+p.name)
		}
		sort.Strings(out)
		return out, err
	})
}

func listPods(ctx context.Context, socket string) ([]pod, error) {
	data, err := callCRI(ctx, socket, "ListPodSandbox", criTime, nil)
	if err != nil {
		return nil, err
	}
	return parsePods(data)
}

// parsePods reads a framed ListPodSandboxResponse: items (1) of PodSandbox, each
// with id (1) and metadata (2), which has name (1) and namespace (3).
func parsePods(data []byte) ([]pod, error) {
	message, err := unframe(data)
	if err != nil {
		return nil, err
	}
	var out []pod
	err = fields(message, func(number protowire.Number, value []byte) error {
		if number != 1 {
			return nil
		}
		var p pod
		err := fields(value, func(number protowire.Number, value []byte) error {
			switch number {
			case 1:
				p.id = string(value)
			case 2:
				return fields(value, func(number protowire.Number, value []byte) error {
					switch number {
					case 1:
						p.name = string(value)
					case 3:
						p.namespace = string(value)
					}
					return nil
				})
			}
			return nil
		})
		if err == nil && p.id == "" {
			err = fmt.Errorf("a pod without an id")
		}
		out = append(out, p)
		return err
	})
	return out, err
}

// fields calls back with each field of bytes in a message; others are skipped.
func fields(b []byte, each func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := each(number, value); err != nil {
			return err
		}
	}
	return nil
}

// applyStopPods stops and removes every pod that the runtime has now; kubelet,
// which would start them again, is down.
func (l *Linux) applyStopPods(ctx context.Context, c change.StopPods, progress func(string)) error {
	pods, err := listPods(ctx, c.Socket)
	if err != nil {
		return err
	}
	defer l.external(time.Now())
	for _, p := range pods {
		progress("stopping " + p.namespace + "/" + p.name)
		id := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p.id)
		if err := endPod(ctx, c.Socket, id); err != nil {
			return fail.Wrap(fail.Step, err, "see what the runtime and the network plugin say, then run it again: journalctl -u containerd", "pod %s/%s can't be stopped", p.namespace, p.name)
		}
	}
	return nil
}

// endTries is how often a pod is ended: a container that kubelet had just asked
// for starts in the middle, and the runtime then refuses to delete it while it
// runs.
const endTries = 3

// endPod stops and removes a pod's sandbox with its containers.
func endPod(ctx context.Context, socket string, id []byte) (err error) {
	for range endTries {
		if _, err = callCRI(ctx, socket, "StopPodSandbox", podTime, id); err == nil {
			if _, err = callCRI(ctx, socket, "RemovePodSandbox", podTime, id); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}
