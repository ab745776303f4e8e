// Package preflight says everything that is wrong with a host before anything
// is changed.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/distro"
	"nodeagent/internal/prereq/preflight/sockets"
)

// kubeletPort is where the API server reaches kubelet.
const kubeletPort = 10250

// Facts is what was observed.
type Facts struct {
	Live        bool            `json:"live"`
	System      host.System     `json:"system"`
	Root        host.Filesystem `json:"root"`
	Var         host.Filesystem `json:"var"`
	Etc         host.Filesystem `json:"etc"`
	Usr         host.Filesystem `json:"usr"`
	Systemd     bool            `json:"systemd"`
	KubeletPort bool            `json:"kubeletPort,omitempty"` // something listens on 10250
	KubeletRuns bool            `json:"kubeletRuns,omitempty"`
	Listener    string          `json:"listener,omitempty"` // who does, when it can be told and isn't kubelet
	Joined      bool            `json:"joined,omitempty"`
	Family      distro.Family   `json:"family,omitempty"` // by os-release alone
}

// Observe reads system, filesystems and listeners; it starts no program.
func Observe(ctx context.Context, v host.View, _ config.Spec) (Facts, error) {
	f := Facts{Live: v.Live()}
	var err error
	if f.System, err = v.System(); err != nil {
		return f, err
	}
	release, err := distro.Read(v)
	if err != nil {
		return f, err
	}
	f.Family = distro.Classify(distro.Evidence{Release: release}).Family
	// What changes between two looks at the same host is no fact of it.
	f.System.Now = f.System.Now.UTC().Truncate(24 * 3600 * 1e9)
	for _, x := range []struct {
		path string
		to   *host.Filesystem
	}{{"/", &f.Root}, {"/var/lib", &f.Var}, {"/etc", &f.Etc}, {"/usr", &f.Usr}} {
		if *x.to, err = v.Filesystem(x.path); err != nil && !errors.Is(err, host.ErrUnobservable) {
			return f, err
		}
	}
	info, err := v.Stat("/run/systemd/system")
	if err != nil {
		return f, err
	}
	f.Systemd = info.Exists
	var socket uint64
	for _, p := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := v.ReadFile(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if inode, ok := sockets.Listener(string(b), kubeletPort); ok {
			f.KubeletPort, socket = true, inode
		}
	}
	if f.KubeletPort {
		units, err := v.Units(ctx, []string{"kubelet.service"})
		if err != nil && !errors.Is(err, host.ErrUnobservable) {
			return f, err
		}
		f.KubeletRuns = units["kubelet.service"].ActiveState == "active" || units["kubelet.service"].ActiveState == "activating"
		if !f.KubeletRuns {
			f.Listener = owner(v, socket)
		}
	}
	info, err = v.Stat(host.KubeletConf)
	f.Joined = info.Exists
	return f, err
}

// owner names the process that holds a socket; empty when it can't be told:
// others' sockets show only to root.
func owner(v host.View, inode uint64) string {
	want := fmt.Sprintf("socket:[%d]", inode)
	pids, _ := v.ReadDir("/proc")
	for _, pid := range pids {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		open, _ := v.ReadDir("/proc/" + pid + "/fd") // gone meanwhile, or not ours
		for _, fd := range open {
			if info, err := v.Stat("/proc/" + pid + "/fd/" + fd); err == nil && info.Link == want {
				name, _ := v.ReadFile("/proc/" + pid + "/comm")
				return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
			}
		}
	}
	return ""
}
