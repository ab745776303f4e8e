package hosttest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// ReadFile returns a file of the map, or one of /proc made from the world.
func (w *World) ReadFile(p string) ([]byte, error) {
	switch {
	case p == "/proc/swaps":
		s := "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
		for i, a := range w.Swaps {
			s += fmt.Sprintf("%s\t\t%s\t65532\t0\t%d\n", a.Area, or(a.Kind, "file"), -2-i)
		}
		return []byte(s), nil
	case p == "/proc/modules":
		s := ""
		for _, m := range sorted(w.Modules) {
			s += m + " 16384 0 - Live 0x0\n"
		}
		return []byte(s), nil
	case strings.HasPrefix(p, "/proc/sys/"):
		v, ok := w.Sysctls[strings.ReplaceAll(strings.TrimPrefix(p, "/proc/sys/"), "/", ".")]
		if !ok {
			return nil, notExist(p)
		}
		return []byte(v + "\n"), nil
	}
	f, ok := w.Files[w.resolve(p)]
	if !ok || f.Link != "" {
		return nil, notExist(p)
	}
	if f.Dir {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("is a directory")}
	}
	return []byte(f.Content), nil
}

// Stat describes a file or a directory that holds one, with its SELinux label
// where there are any.
func (w *World) Stat(p string) (host.FileInfo, error) {
	info, err := w.stat(path.Clean(p))
	if err == nil && info.Exists && w.selinux() {
		key, mounted := w.labelled(path.Clean(p))
		info.SELinux = w.labels[key]
		switch {
		case info.SELinux != "":
		case mounted: // by nobody yet
			info.SELinux = "system_u:object_r:unlabeled_t:s0"
		default:
			info.SELinux = "system_u:object_r:etc_t:s0"
		}
	}
	return info, err
}

func (w *World) stat(p string) (host.FileInfo, error) {
	if strings.HasPrefix(p, "/proc/sys/") {
		_, ok := w.Sysctls[strings.ReplaceAll(strings.TrimPrefix(p, "/proc/sys/"), "/", ".")]
		return host.FileInfo{Exists: ok, Mode: 0o644, Owner: "root:root"}, nil
	}
	f, ok := w.Files[p]
	if !ok {
		for name := range w.Files {
			if strings.HasPrefix(name, p+"/") {
				return host.FileInfo{Exists: true, Dir: true, Mode: 0o755, Owner: "root:root"}, nil
			}
		}
		for _, m := range w.MountTable {
			if m.Target == p {
				return host.FileInfo{Exists: true, Dir: true, Mode: 0o755, Owner: "root:root"}, nil
			}
		}
		return host.FileInfo{}, nil
	}
	info := host.FileInfo{Exists: true, Link: f.Link}
	if f.Link != "" {
		if f, ok = w.Files[w.resolve(p)]; !ok {
			return info, nil
		}
	}
	mode, _ := strconv.ParseUint(or(f.Mode, "0644"), 8, 32)
	info.Mode, info.Owner, info.Size, info.Dir = uint32(mode), or(f.Owner, "root:root"), int64(len(f.Content)), f.Dir
	info.Modified = f.Modified
	return info, nil
}

// ReadDir lists the files of the map below a directory.
func (w *World) ReadDir(dir string) ([]string, error) {
	seen := map[string]bool{}
	info, _ := w.Stat(dir)
	for p := range w.Files {
		if rest, ok := strings.CutPrefix(p, path.Clean(dir)+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			seen[name] = true
		}
	}
	if len(seen) == 0 && !info.Exists {
		return nil, notExist(dir)
	}
	names := sorted(seen)
	sort.Strings(names)
	return names, nil
}

// LookPath finds a program among the files.
func (w *World) LookPath(program string) (string, error) {
	for _, dir := range []string{"/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if f, ok := w.Files[dir+"/"+program]; ok && f.Mode == "0755" {
			return dir + "/" + program, nil
		}
	}
	return "", notExist(program)
}

// Live is true: the world stands for a running host.
func (w *World) Live() bool { return true }

// System returns the identity; time goes on with every effect.
func (w *World) System() (host.System, error) {
	s := w.Sys
	s.Now = time.UnixMicro(w.now()).UTC()
	return s, nil
}

// Filesystem is the mount that a path lies on, or a large ext4.
func (w *World) Filesystem(p string) (host.Filesystem, error) {
	best := host.Filesystem{Type: "ext4", Source: "/dev/vda1", FreeBytes: 40 << 30}
	longest := 0
	for _, m := range w.MountTable {
		if (p == m.Target || strings.HasPrefix(p, strings.TrimSuffix(m.Target, "/")+"/")) && len(m.Target) > longest {
			best = host.Filesystem{Type: m.Type, Source: m.Source, Target: m.Target, FreeBytes: 40 << 30, ReadOnly: slices.Contains(m.Options, "ro")}
			longest = len(m.Target)
		}
	}
	return best, nil
}

// Version is what the program says of itself, or the version of the package
// that brought it.
func (w *World) Version(_ context.Context, program string) (string, error) {
	file, err := w.LookPath(program)
	if err != nil {
		return "", err
	}
	if v := w.Files[file].Version; v != "" {
		return v, nil
	}
	for name, p := range w.Repo {
		for f := range p.Files {
			if path.Base(f) == program && w.Packages[name] != "" {
				v, _, _ := strings.Cut(w.Packages[name], "-")
				return v, nil
			}
		}
	}
	return "", fail.New(fail.Step, "", "%s does not tell its version", program)
}

// Installed returns the versions of those names that are installed or
// provided.
func (w *World) Installed(_ context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range names {
		if v, ok := w.Packages[n]; ok {
			out[n] = v
		}
		for pkg, p := range w.Repo {
			for _, provided := range p.Provides {
				if provided == n && w.Packages[pkg] != "" {
					out[n] = w.Packages[pkg]
				}
			}
		}
	}
	return out, nil
}

// Needed is what another installed package needs.
func (w *World) Needed(_ context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range names {
		if by := w.Needs[n]; by != "" {
			out[n] = by
		}
	}
	return out, nil
}

// Units describes units.
func (w *World) Units(_ context.Context, names []string) (map[string]host.Unit, error) {
	out := map[string]host.Unit{}
	for _, n := range names {
		u, ok := w.UnitStates[n]
		if !ok {
			u = host.Unit{LoadState: "not-found", ActiveState: "inactive"}
		}
		out[n] = u
	}
	return out, nil
}

// SwapUnits lists swap units.
func (w *World) SwapUnits(context.Context) (map[string]host.Unit, error) {
	out := map[string]host.Unit{}
	for n, u := range w.UnitStates {
		if strings.HasSuffix(n, ".swap") {
			out[n] = u
		}
	}
	return out, nil
}

// BlockDevices lists the disks.
func (w *World) BlockDevices(context.Context, bool) ([]host.BlockDevice, error) {
	out := append([]host.BlockDevice(nil), w.Disks...)
	for i := range out {
		out[i].Mounts = nil
		for _, m := range w.MountTable {
			if m.Source == out[i].Path {
				out[i].Mounts = append(out[i].Mounts, m.Target)
			}
		}
	}
	return out, nil
}

// Probe finds what the world says the disk holds.
func (w *World) Probe(_ context.Context, d host.BlockDevice) (host.BlockDevice, error) {
	d.Probed = true
	return d, nil
}

// Mounts is the mount table.
func (w *World) Mounts() ([]host.Mount, error) {
	return append([]host.Mount(nil), w.MountTable...), nil
}

// Firewalld is the firewall.
func (w *World) Firewalld(context.Context) (host.Firewalld, error) { return w.Firewall, nil }

// IPTables is the other firewall; as a copy, since a map is shared.
func (w *World) IPTables(context.Context) (host.IPTables, error) {
	t := w.Tables
	t.Filter = maps.Clone(t.Filter)
	return t, nil
}

// Network is links and routes.
func (w *World) Network() (host.Network, error) { return w.Net, nil }

// SourceAddress is the first address when there is a default route.
func (w *World) SourceAddress(_ context.Context, hostport string) (string, error) {
	if len(w.Net.Defaults) == 0 || len(w.Net.Addresses) == 0 {
		return "", fail.New(fail.Step, "", "no route to %s", hostport)
	}
	return w.Net.Addresses[0].IP, nil
}

// CRI answers when containerd runs.
func (w *World) CRI(_ context.Context, socket string) (host.RuntimeVersion, error) {
	if w.UnitStates["containerd.service"].ActiveState != "active" {
		return host.RuntimeVersion{}, fail.New(fail.Step, "", "no runtime listens on %s", socket)
	}
	v, _ := w.Version(context.Background(), "containerd")
	return host.RuntimeVersion{Name: "containerd", Version: v}, nil
}

// Node is the node object.
func (w *World) Node(context.Context, string) (host.Node, error) { return w.NodeObject, nil }

// TokenHeld tells whether the token has been fetched since the last Restart.
func (w *World) TokenHeld() bool { return w.token }

// Pods are those that run while the runtime does.
func (w *World) Pods(ctx context.Context, socket string) ([]string, error) {
	if _, err := w.CRI(ctx, socket); err != nil {
		return nil, err
	}
	return slices.Clone(w.PodsRun), nil
}

// ClusterNetwork is what a cluster has put into the kernel.
func (w *World) ClusterNetwork(context.Context) (host.ClusterNetwork, error) { return w.Cluster, nil }
