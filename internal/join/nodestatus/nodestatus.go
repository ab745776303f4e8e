// Package nodestatus reads a Node object: is it Ready, and if not, which
// condition is missing, in the API's own words.
package nodestatus

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Status is what a Node object says.
type Status struct {
	Name            string
	ResourceVersion string
	Ready           bool
	Unmet           string // empty when Ready
	Reason          string // the reason of the Ready condition: KubeletNotReady
	Version         string // kubelet's
	Labels          map[string]string
	Heartbeat       time.Time
}

type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type      string    `json:"type"`
			Status    string    `json:"status"`
			Reason    string    `json:"reason"`
			Message   string    `json:"message"`
			Heartbeat time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
		NodeInfo struct {
			KubeletVersion string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// Parse reads the JSON of a Node.
func Parse(b []byte) (Status, error) {
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		return Status{}, err
	}
	return o.read(), nil
}

func (o object) read() Status {
	s := Status{Name: o.Metadata.Name, ResourceVersion: o.Metadata.ResourceVersion, Labels: o.Metadata.Labels, Version: o.Status.NodeInfo.KubeletVersion,
		Unmet: "kubelet has not reported a status yet"}
	for _, c := range o.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		s.Reason, s.Heartbeat = c.Reason, c.Heartbeat
		if c.Status == "True" {
			s.Ready, s.Unmet = true, ""
			continue
		}
		s.Unmet = strings.TrimSpace(c.Message)
		if s.Unmet == "" {
			s.Unmet = fmt.Sprintf("condition Ready is %s (%s)", c.Status, c.Reason)
		}
	}
	return s
}

// ParseList reads the JSON of a NodeList of at most one Node. found is false
// when it is empty: kubelet hasn't registered. version is the list's own
// resourceVersion, from where a watch goes on.
func ParseList(b []byte) (s Status, found bool, version string, err error) {
	var l struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return Status{}, false, "", err
	}
	if len(l.Items) == 0 {
		return Status{Unmet: NotRegistered}, false, l.Metadata.ResourceVersion, nil
	}
	return l.Items[0].read(), true, l.Metadata.ResourceVersion, nil
}

// Stale tells whether a status is from before kubelet's last start. Both times
// are of the same host's clock; the API keeps whole seconds.
func Stale(reported, start time.Time) bool {
	return !reported.IsZero() && reported.Before(start.Truncate(time.Second))
}

// NotRegistered is the unmet condition of a node without a Node object.
const NotRegistered = "kubelet has not registered the node yet"

// Event is one line of a watch.
type Event struct {
	Type   string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	Status Status
	Code   int    // of an ERROR: 410 means that the watch has to begin anew
	Text   string // of an ERROR
}

// ParseEvent reads one JSON object of a watch.
func ParseEvent(b []byte) (Event, error) {
	var raw struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return Event{}, err
	}
	e := Event{Type: raw.Type}
	if raw.Type == "ERROR" {
		e.Code, e.Text = StatusText(raw.Object)
		return e, nil
	}
	s, err := Parse(raw.Object)
	e.Status = s
	return e, err
}

// StatusText reads a meta/v1 Status, which is what the API server answers
// when it refuses.
func StatusText(b []byte) (code int, text string) {
	var s struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(b, &s) != nil {
		return 0, ""
	}
	return s.Code, s.Message
}

// Hint is the next action for an unmet condition; empty when there is none of
// its own.
func Hint(node string, s Status) string {
	u := strings.ToLower(s.Unmet)
	switch {
	case strings.Contains(u, "cni") || strings.Contains(u, "network plugin") || strings.Contains(u, "networkready=false"):
		return "the cluster's network plugin doesn't run on this node yet; see its pod: kubectl get pods -A -o wide --field-selector spec.nodeName=" + node
	case strings.Contains(u, "container runtime is down") || strings.Contains(u, "runtimeready=false"):
		return "look at the runtime: journalctl -u containerd"
	case strings.Contains(u, "stopped posting"):
		return "kubelet doesn't reach the API server or has died; look at: journalctl -u kubelet"
	case strings.Contains(u, "csinode"):
		return "kubelet can't create its CSINode yet; look at: journalctl -u kubelet"
	case s.Unmet == NotRegistered || strings.Contains(u, "not reported"): // at all, or since its start
		return "look at: journalctl -u kubelet"
	}
	return ""
}
