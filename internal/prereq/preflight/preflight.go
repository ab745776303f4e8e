// Package preflight says everything that is wrong with a host before anything
// is changed.
package preflight

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Facts is what was observed.
type Facts struct {
	Live        bool            `json:"live"`
	System      host.System     `json:"system"`
	Root        host.Filesystem `json:"root"`
	Var         host.Filesystem `json:"var"`
	Etc         host.Filesystem `json:"etc"`
	Systemd     bool            `json:"systemd"`
	KubeletPort bool            `json:"kubeletPort,omitempty"` // something listens on 10250
	KubeletRuns bool            `json:"kubeletRuns,omitempty"`
	Joined      bool            `json:"joined,omitempty"`
}

// Observe reads system, filesystems and listeners; it starts no program.
func Observe(ctx context.Context, v host.View, _ config.Spec) (Facts, error) {
	f := Facts{Live: v.Live()}
	var err error
	if f.System, err = v.System(); err != nil {
		return f, err
	}
	// What changes between two looks at the same host is no fact of it.
	f.System.Now = f.System.Now.UTC().Truncate(24 * 3600 * 1e9)
	for _, x := range []struct {
		path string
		to   *host.Filesystem
	}{{"/", &f.Root}, {"/var/lib", &f.Var}, {"/etc", &f.Etc}} {
		if *x.to, err = v.Filesystem(x.path); err != nil && !errors.Is(err, host.ErrUnobservable) {
			return f, err
		}
	}
	info, err := v.Stat("/run/systemd/system")
	if err != nil {
		return f, err
	}
	f.Systemd = info.Exists
	for _, p := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := v.ReadFile(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f.KubeletPort = f.KubeletPort || listens(string(b), 10250)
	}
	if f.KubeletPort {
		units, err := v.Units(ctx, []string{"kubelet.service"})
		if err != nil && !errors.Is(err, host.ErrUnobservable) {
			return f, err
		}
		f.KubeletRuns = units["kubelet.service"].ActiveState == "active" || units["kubelet.service"].ActiveState == "activating"
	}
	info, err = v.Stat(host.KubeletConf)
	f.Joined = info.Exists
	return f, err
}

// listens reads /proc/net/tcp or tcp6 (proc(5)): state 0A is LISTEN, addresses
// and ports are hexadecimal.
func listens(table string, port int) bool {
	want := strings.ToUpper(hex4(port))
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], ":"+want) {
			return true
		}
	}
	return false
}

func hex4(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15]})
}
