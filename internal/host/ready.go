package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/join/kubeadm"
	"nodeagent/internal/join/nodestatus"
)

// applyWaitReady watches this host's Node until it is Ready. Nothing is polled:
// after a list, the API server tells each change; a broken connection is opened
// anew with backoff.
func (l *Linux) applyWaitReady(ctx context.Context, c change.WaitReady, progress func(string)) error {
	start := time.Now()
	n, client := l.membership(start)
	if !n.Joined {
		return fail.New(fail.Step, "run nodeagent up again: it joins first", "node %s can't be awaited, since this host has not joined: %s", c.NodeName, n.Problem)
	}
	defer client.close()
	wait, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	w := &readyWatch{client: client, name: c.NodeName, after: c.After, tell: progress}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 10*time.Second
	for {
		err := w.follow(wait)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wait.Err() != nil {
			return l.notReady(ctx, c, w, start)
		}
		var refused *statusError
		if errors.As(err, &refused) && (refused.code == http.StatusUnauthorized || refused.code == http.StatusForbidden) {
			return fail.Wrap(fail.Step, err, "the cluster doesn't take this host for node "+c.NodeName+" any more; look at: journalctl -u kubelet", "node %s can't be read with %s", c.NodeName, KubeletConf)
		}
		if w.moved {
			pause.Reset()
			w.moved = false
		}
		if !errors.Is(err, errAgain) {
			w.trouble = err
			w.say(err.Error())
		}
		select {
		case <-wait.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// readyWatch is one wait over as many connections as it takes.
type readyWatch struct {
	client  *apiClient
	name    string
	after   time.Time // kubelet's start
	tell    func(string)
	said    string
	last    nodestatus.Status
	trouble error // why nothing is heard; nil once the API server has answered
	moved   bool  // it was heard since the last reset of the backoff
}

// errAgain ends a watch that the API server closed in its own time.
var errAgain = errors.New("the watch ended")

func (w *readyWatch) say(text string) {
	if text != w.said {
		w.said = text
		w.tell("waiting: " + text)
	}
}

// seen tells whether the node is Ready.
func (w *readyWatch) seen(s nodestatus.Status) bool {
	if s.Ready && nodestatus.Stale(s.Heartbeat, w.after) {
		s.Ready, s.Unmet = false, "kubelet has not reported since it was started"
	}
	w.last, w.trouble, w.moved = s, nil, true
	if !s.Ready {
		w.say(s.Unmet)
	}
	return s.Ready
}

// follow lists and then watches; nil when the node is Ready.
func (w *readyWatch) follow(ctx context.Context) error {
	// A node may list and watch exactly this (Node authorizer, since 1.32 by the
	// selector alone).
	query := url.Values{"fieldSelector": {"metadata.name=" + w.name}}
	listCtx, cancel := context.WithTimeout(ctx, 15*time.Second)
	body, err := w.client.get(listCtx, "/api/v1/nodes?"+query.Encode())
	cancel()
	if err != nil {
		return err
	}
	s, _, version, err := nodestatus.ParseList(body)
	if err != nil {
		return fmt.Errorf("the API server's answer is not a NodeList: %w", err)
	}
	if w.seen(s) {
		return nil
	}
	for k, v := range map[string]string{"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "300"} {
		query.Set(k, v)
	}
	stream, err := w.client.open(ctx, "/api/v1/nodes?"+query.Encode())
	if err != nil {
		return err
	}
	defer stream.Close()
	// Bookmarks come about once a minute; a connection that is silent for longer
	// is dead, and TCP alone would notice after a quarter of an hour.
	silence := time.AfterFunc(watchSilence, func() { stream.Close() })
	defer silence.Stop()
	frames := json.NewDecoder(stream)
	for {
		var raw json.RawMessage
		if err := frames.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return errAgain
			}
			return fmt.Errorf("the watch broke: %w", err)
		}
		silence.Reset(watchSilence)
		e, err := nodestatus.ParseEvent(raw)
		switch {
		case err != nil:
			return fmt.Errorf("the watch brought something else than a Node: %w", err)
		case e.Type == "ERROR":
			if e.Code == http.StatusGone {
				return errAgain
			}
			return &statusError{code: e.Code, text: e.Text}
		case e.Type == "DELETED":
			w.seen(nodestatus.Status{Unmet: nodestatus.NotRegistered})
		case e.Type == "ADDED" || e.Type == "MODIFIED":
			if w.seen(e.Status) {
				return nil
			}
		}
	}
}

const watchSilence = 2 * time.Minute

// notReady names the condition that is missing, in the API's own words.
func (l *Linux) notReady(ctx context.Context, c change.WaitReady, w *readyWatch, since time.Time) error {
	if w.trouble != nil {
		return fail.New(fail.Timeout, "see whether the API server is up and reachable from here", "node %s is not known to be Ready after %s: %v", c.NodeName, c.Timeout, w.trouble)
	}
	unmet := w.last.Unmet
	hint := nodestatus.Hint(c.NodeName, w.last)
	if unmet == nodestatus.NotRegistered || w.last.Reason == "NodeStatusUnknown" {
		if e, _ := l.kubeletError(ctx, since.Add(-time.Minute)); e != "" {
			unmet += "; kubelet says: " + e
			if h := kubeadm.KubeletHint(e); h != "" {
				hint = h
			}
		}
	}
	if hint == "" {
		hint = "look at: journalctl -u kubelet, and kubectl describe node " + c.NodeName
	}
	return fail.New(fail.Timeout, hint, "node %s is not Ready after %s: %s", c.NodeName, c.Timeout, unmet)
}
