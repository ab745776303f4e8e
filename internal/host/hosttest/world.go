// Package hosttest is a host that lives in memory. It is a world with state,
// not a mock with expectations: changes are carried out on it, String prints
// it, and it can die at effect n.
package hosttest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"syscall"

	"nodeagent/internal/host"
)

// File is a file of the world.
type File struct {
	Content string
	Mode    string // octal, "0644" when empty
	Owner   string // "root:root" when empty
	Link    string // a symbolic link when not empty
	Dir     bool   // an empty directory
	Version string // of a program: what it says of itself; its package's when empty
	// Modified is when it was last written, in µs since the epoch.
	Modified int64
}

// Package is what a package brings when it is installed.
type Package struct {
	Version  string          // version-release
	From     string          // id of the repository that must be set up for it; the distribution's own when empty
	Provides []string        // other names it answers to
	Files    map[string]File // programs among them
	Units    []string
}

// Swap is an active swap area.
type Swap struct{ Area, Kind, Unit string }

// World is a host in memory. Its exported fields may be set before use.
type World struct {
	Sys        host.System
	Files      map[string]File
	Packages   map[string]string  // installed: name → version-release
	Repo       map[string]Package // what can be installed
	UnitStates map[string]host.Unit
	Swaps      []Swap
	Modules    map[string]bool   // loaded
	Sysctls    map[string]string // effective values
	Disks      []host.BlockDevice
	MountTable []host.Mount
	Firewall   host.Firewalld
	Tables     host.IPTables
	Net        host.Network
	LateRoute  *host.Route // appears when the route is awaited
	Owners     map[string]host.NetworkOwner
	Synced     bool // the clock, since its client was started
	NodeObject host.Node
	TokenDoc   string   // what fetching the token yields; empty: nothing there
	Minted     []string // ids of the tokens that were made on the cluster
	Spent      []string // keys of guestinfo that were overwritten
	PodsRun    []string
	Needs      map[string]string // package → another that needs it
	Cluster    host.ClusterNetwork

	// What managers go back to: before the last change, and before the first.
	unconfirmed, original map[string]netState

	image   image
	labels  map[string]string // SELinux contexts: by UUID for the top of a filesystem, else by path
	token   bool
	effects int
	dieAt   int
	death   Death
	dead    bool
	log     []string
	masked  map[string]host.Unit // what a mask hides
}

var _ host.Host = (*World)(nil)

// Death is how the world ends at an effect.
type Death int

// The ways to die: before the effect happens, after it happened but before
// anybody is told, and in the middle of appending a line to the journal.
const (
	Before Death = iota
	After
	Torn
)

// DieAt makes the nth effect (from 1) the last; 0 lives on.
func (w *World) DieAt(n int, how Death) { w.effects, w.dieAt, w.death = 0, n, how }

// Effects is how many effects have happened since DieAt.
func (w *World) Effects() int { return w.effects }

// Died tells whether the world has died.
func (w *World) Died() bool { return w.dead }

// Restart brings the program back after a death: what was only in its memory
// is gone.
func (w *World) Restart() { w.dead, w.dieAt, w.token = false, 0, false }

// Clone is a world of its own that is the same.
func (w *World) Clone() *World {
	c := *w
	c.Files, c.Packages, c.UnitStates, c.masked = maps.Clone(w.Files), maps.Clone(w.Packages), maps.Clone(w.UnitStates), maps.Clone(w.masked)
	c.Modules, c.Sysctls = maps.Clone(w.Modules), maps.Clone(w.Sysctls)
	c.Swaps, c.Disks, c.MountTable = slices.Clone(w.Swaps), slices.Clone(w.Disks), slices.Clone(w.MountTable)
	c.PodsRun, c.log, c.Net.Defaults = slices.Clone(w.PodsRun), slices.Clone(w.log), slices.Clone(w.Net.Defaults)
	c.Firewall.Zones, c.Firewall.Interfaces, c.Firewall.Permanent = maps.Clone(w.Firewall.Zones), maps.Clone(w.Firewall.Interfaces), maps.Clone(w.Firewall.Permanent)
	for name, z := range c.Firewall.Zones {
		for _, s := range []*host.ZoneSettings{&z.Runtime, &z.Permanent} {
			s.Ports, s.Protocols, s.Sources, s.Interfaces = slices.Clone(s.Ports), slices.Clone(s.Protocols), slices.Clone(s.Sources), slices.Clone(s.Interfaces)
		}
		c.Firewall.Zones[name] = z
	}
	c.Tables.Filter, c.labels = maps.Clone(w.Tables.Filter), maps.Clone(w.labels)
	return &c
}

// Log is the effects on the host, in order, without the journal's.
func (w *World) Log() []string { return w.log }

type died struct{}

func (died) Error() string { return "the process was killed" }

// effect counts one effect and lets the world die around it.
func (w *World) effect(do func() error) error {
	if w.dead {
		return died{}
	}
	w.effects++
	fatal := w.dieAt > 0 && w.effects == w.dieAt
	if fatal && w.death == Before {
		w.dead = true
		return died{}
	}
	err := do()
	if fatal {
		w.dead = true
		return died{}
	}
	return err
}

// String prints the world without journal and records, so that two worlds can
// be compared as text.
func (w *World) String() string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("hostname %s", w.Sys.Hostname)
	for _, p := range sorted(w.Files) {
		if strings.HasPrefix(p, "/var/lib/nodeagent/journal") || strings.HasPrefix(p, "/var/lib/nodeagent/last-run") {
			continue
		}
		if p == passwdFile || p == groupFile || p == shadowFile {
			continue
		}
		f := w.Files[p]
		if f.Link != "" {
			line("link %s -> %s", p, f.Link)
			continue
		}
		line("file %s %s %s %q", p, or(f.Mode, "0644"), or(f.Owner, "root:root"), f.Content)
	}
	w.printAccounts(line)
	for _, n := range sorted(w.Packages) {
		line("package %s %s", n, w.Packages[n])
	}
	for _, n := range sorted(w.UnitStates) {
		u := w.UnitStates[n]
		line("unit %s %s %s %s", n, u.LoadState, u.ActiveState, u.UnitFileState)
	}
	areas := map[string]Swap{}
	for _, s := range w.Swaps {
		areas[s.Area] = s
	}
	for _, a := range sorted(areas) {
		line("swap %s", a)
	}
	for _, n := range sorted(w.Modules) {
		line("module %s", n)
	}
	for _, n := range sorted(w.Sysctls) {
		line("sysctl %s = %s", n, w.Sysctls[n])
	}
	for _, d := range w.Disks {
		line("disk %s %s label=%s uuid=%s signatures=%v", d.Path, d.FSType, d.Label, d.FSUUID, d.Signatures)
	}
	for _, d := range w.Disks {
		for _, l := range d.ByCAPV {
			line("devlink %s -> %s", l, d.Path)
		}
	}
	for _, m := range w.MountTable {
		line("mount %s on %s type %s", m.Source, m.Target, m.Type)
	}
	for _, l := range sorted(w.labels) {
		line("label %s %s", l, w.labels[l])
	}
	for _, z := range sorted(w.Firewall.Zones) {
		line("zone %s %+v", z, w.Firewall.Zones[z])
	}
	for _, family := range sorted(w.Tables.Filter) {
		line("iptables %s %q", family, w.Tables.Filter[family])
	}
	line("pods %v", w.PodsRun)
	line("cluster network %v", w.Cluster)
	line("routes %v", w.Net.Defaults)
	for _, a := range w.Net.Addresses {
		line("address %v", a)
	}
	for _, n := range sorted(w.Owners) {
		line("owner of %s %+v", n, w.Owners[n])
	}
	line("node joined=%v ready=%v", w.NodeObject.Joined, w.NodeObject.Ready)
	if w.NodeObject.Joined {
		for _, k := range sorted(w.NodeObject.Labels) {
			line("node label %s=%s", k, w.NodeObject.Labels[k])
		}
	}
	for _, id := range w.Minted {
		line("token %s", id)
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// resolve follows links of the file map.
func (w *World) resolve(p string) string {
	p = path.Clean(p)
	for range 20 {
		f, ok := w.Files[p]
		if !ok || f.Link == "" {
			return p
		}
		if path.IsAbs(f.Link) {
			p = path.Clean(f.Link)
		} else {
			p = path.Join(path.Dir(p), f.Link)
		}
	}
	return p
}

func (w *World) put(p, content string) {
	w.Files[p] = File{Content: content, Modified: w.now()}
}

// writable says why a path can't be written: its filesystem is read-only.
func (w *World) writable(p string) error {
	fs, err := w.Filesystem(w.resolve(p))
	if err == nil && fs.ReadOnly {
		err = &os.PathError{Op: "open", Path: p, Err: syscall.EROFS}
	}
	return err
}

// selinux tells whether files have labels.
func (w *World) selinux() bool { return w.Sys.SELinux != "" && w.Sys.SELinux != "disabled" }

// labelled is the key of labels for a path: the filesystem's when one is
// mounted there.
func (w *World) labelled(p string) (key string, mounted bool) {
	for _, m := range w.MountTable {
		if d := w.disk(m.Source); m.Target == p && d != nil {
			return d.FSUUID, true
		}
	}
	return p, false
}

func notExist(p string) error { return &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist} }

// disk finds a device by any of its names.
func (w *World) disk(name string) *host.BlockDevice {
	for i := range w.Disks {
		d := &w.Disks[i]
		for _, n := range append(append([]string{d.Path, d.Name}, d.ByID...), d.ByPath...) {
			if n == name {
				return d
			}
		}
		if d.Label != "" && name == "/dev/disk/by-label/"+d.Label {
			return d
		}
	}
	return nil
}
