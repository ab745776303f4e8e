package vm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// The product's exit codes.
const (
	converged = 0
	failed    = 1
	pending   = 3
	refused   = 4
)

// binary returns the nodeagent binary that `make build` left, or the one that
// NODEAGENT_BINARY names.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NODEAGENT_BINARY")
	if path == "" {
		path = "../../bin/nodeagent"
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no nodeagent to test: %v: run `make build` first", err)
	}
	return path
}

// lastRun is what the tests read of last-run.json.
type lastRun struct {
	Result   string        `json:"result"`
	ExitCode int           `json:"exitCode"`
	Changes  int           `json:"changes"`
	Step     string        `json:"step"`
	Error    string        `json:"error"`
	Hint     string        `json:"hint"`
	Took     time.Duration `json:"took"`
	Steps    []struct {
		Name    string        `json:"name"`
		Changes []string      `json:"changes"`
		Took    time.Duration `json:"took"`
	} `json:"steps"`
}

// plan is what the tests read of `plan -o json`.
type plan struct {
	Steps []struct {
		Name    string `json:"name"`
		Changes []struct {
			ID      string `json:"id"`
			Kind    string `json:"kind"`
			Summary string `json:"summary"`
		} `json:"changes"`
	} `json:"steps"`
	Blocked []struct {
		Step, Error, Hint string
	} `json:"blocked"`
}

func (p plan) changes() (ids []string) {
	for _, s := range p.Steps {
		for _, c := range s.Changes {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// must ends the test on an error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// check ends the test on an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peakMemory watches the nodeagent processes of the guest from now on. The
// returned function ends that and gives the highest resident size in MiB.
func peakMemory(t *testing.T, g *lab.Guest) func() float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		// VmHWM is the kernel's own high-water mark: reading it now and then loses nothing but the last moment.
		g.Stream(ctx, &out, `while :; do for p in $(pidof nodeagent); do grep VmHWM /proc/$p/status; done; sleep 0.5; done 2>/dev/null`)
	}()
	return func() float64 {
		cancel()
		<-done
		peak := 0.0
		for line := range strings.Lines(out.String()) {
			var kib float64
			if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
				peak = max(peak, kib/1024)
			}
		}
		return peak
	}
}

// up runs `nodeagent up` with its output in the test's log, and returns all of
// that output and the exit code.
func up(t *testing.T, g *lab.Guest, args string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	start := time.Now()
	code, err := g.Stream(t.Context(), &logAndKeep{t, &out}, "nodeagent up "+args)
	check(t, err)
	t.Logf("nodeagent up %s: exit %d after %.1f s", args, code, time.Since(start).Seconds())
	return out.String(), code
}

type logAndKeep struct {
	t    *testing.T
	keep *bytes.Buffer
}

func (l *logAndKeep) Write(p []byte) (int, error) {
	l.t.Output().Write(p)
	return l.keep.Write(p)
}

func planOf(t *testing.T, g *lab.Guest) (plan, int) {
	t.Helper()
	r := must(g.Exec(t.Context(), "nodeagent plan -o json"))(t)
	var p plan
	if err := json.Unmarshal([]byte(r.Stdout), &p); err != nil {
		t.Fatalf("plan -o json, exit %d: %v\n%s\n%s", r.Code, err, r.Stdout, r.Stderr)
	}
	return p, r.Code
}

func lastRunOf(t *testing.T, g *lab.Guest) lastRun {
	t.Helper()
	var l lastRun
	b := must(g.Run(t.Context(), "cat /var/lib/nodeagent/last-run.json"))(t)
	check(t, json.Unmarshal([]byte(b), &l))
	return l
}

// node is what the tests read of a Node.
type node struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Taints []struct{ Key, Value, Effect string } `json:"taints"`
	} `json:"spec"`
	Status struct {
		NodeInfo struct {
			KubeletVersion string `json:"kubeletVersion"`
			BootID         string `json:"bootID"`
			OSImage        string `json:"osImage"`
		} `json:"nodeInfo"`
		Addresses  []struct{ Type, Address string } `json:"addresses"`
		Conditions []struct{ Type, Status string }  `json:"conditions"`
	} `json:"status"`
}

func (n node) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

func nodeOf(ctx context.Context, l *lab.Lab, name string) (node, error) {
	var n node
	out, err := l.Kubectl(ctx, "get", "node", name, "--output=json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &n)
	}
	return n, err
}

// tokenSecret is the part of a join command that must not be found anywhere.
func tokenSecret(t *testing.T, join string) string {
	t.Helper()
	fields := strings.Fields(join)
	for i, f := range fields[:len(fields)-1] {
		if f == "--token" {
			_, secret, ok := strings.Cut(fields[i+1], ".")
			if ok {
				return secret
			}
		}
	}
	t.Fatal("no token in the join command")
	return ""
}
