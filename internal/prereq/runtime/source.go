package runtime

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/distro"
)

// Present is what a host already has of a runtime.
type Present struct {
	Binary string `json:"binary,omitempty"` // path of the containerd (or crio) program
	Shim   bool   `json:"shim,omitempty"`   // containerd-shim-runc-v2 is there
	Runc   bool   `json:"runc,omitempty"`   // runc (or crun) is there
	Socket bool   `json:"socket,omitempty"` // something is at the CRI socket's path
}

// Look finds out. It starts no program.
func Look(v host.View, r config.Runtime) (Present, error) {
	var p Present
	for _, x := range []struct {
		program string
		found   func(path string)
	}{
		{daemon(r), func(path string) { p.Binary = path }},
		{"containerd-shim-runc-v2", func(string) { p.Shim = true }},
		{"runc", func(string) { p.Runc = true }},
		{"crun", func(string) { p.Runc = true }},
	} {
		path, err := v.LookPath(x.program)
		if err == nil {
			x.found(path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	info, err := v.Stat(SocketPath(r))
	p.Socket = info.Exists
	return p, err
}

// The sources of a runtime.
const (
	FromArchive  = "archive"
	FromPackage  = "package"
	Preinstalled = "preinstalled"
)

// Source resolves "auto": archives when they are given, what is installed when
// there is something, the package otherwise.
func Source(r config.Runtime, p Present) string {
	switch {
	case r.Source != "" && r.Source != "auto":
		return r.Source
	case len(r.Archives) > 0:
		return FromArchive
	case p.Binary != "" || p.Socket:
		return Preinstalled
	}
	return FromPackage
}

// Packages are those that bring the runtime on a family of distributions, for
// source package.
func Packages(r config.Runtime, f distro.Family) []string {
	if f == distro.Photon {
		name := r.Package
		if name == "" {
			name = "containerd"
		}
		if name == "containerd" { // the shim is packaged apart
			return []string{"containerd", "containerd-extras", "runc"}
		}
		return []string{name}
	}
	if r.Package != "" {
		return []string{r.Package}
	}
	return []string{"containerd.io"}
}

// SocketPath is the CRI socket as a path.
func SocketPath(r config.Runtime) string { return strings.TrimPrefix(r.Socket, "unix://") }

// isContainerd tells whether the socket is containerd's, whose configuration
// nodeagent keeps; other runtimes keep their own.
func isContainerd(r config.Runtime) bool {
	return !slices.Contains([]string{"/run/crio/crio.sock", "/var/run/crio/crio.sock"}, SocketPath(r))
}

func daemon(r config.Runtime) string {
	if isContainerd(r) {
		return "containerd"
	}
	return "crio"
}

// Unit is the systemd unit of the runtime at the socket.
func Unit(r config.Runtime) string { return daemon(r) + ".service" }
