package hosttest

import (
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"nodeagent/internal/host"
)

// image is what a world has at every boot, whatever was done to it since.
type image struct {
	modules    map[string]bool
	sysctls    map[string]string
	mounts     []host.Mount
	interfaces map[string]string
}

// stock remembers what the world boots with.
func (w *World) stock() *World {
	w.image = image{maps.Clone(w.Modules), maps.Clone(w.Sysctls), slices.Clone(w.MountTable), maps.Clone(w.Firewall.Interfaces)}
	return w
}

// Reboot starts the world anew: what is left is what its files and units bring
// back. It is for worlds made by this package, before or after anything was
// done to them.
func (w *World) Reboot() {
	w.Restart()
	w.Sys.Now = w.Sys.Now.Add(time.Minute)
	w.Synced = false
	for p := range w.Files {
		if strings.HasPrefix(p, "/run/") && !strings.HasPrefix(p, "/run/systemd/") {
			delete(w.Files, p)
		}
	}
	w.Sys.Hostname = strings.TrimSpace(w.Files["/etc/hostname"].Content)
	w.bootModules()
	w.bootSysctls()
	w.devices(func(host.BlockDevice) bool { return true })
	w.bootUnits()
	w.bootMounts()
	w.bootSwap()
	w.bootFirewall()
}

// configured are the files of a directory that is read below /usr/lib, /run and
// /etc, in the order of their names; the last directory's file of a name counts
// (sysctl.d(5), modules-load.d(5)).
func (w *World) configured(dir string) []string {
	byName := map[string]string{}
	for _, root := range []string{"/usr/lib/", "/run/", "/etc/"} {
		for p := range w.Files {
			if path.Dir(p) == root+dir && strings.HasSuffix(p, ".conf") {
				byName[path.Base(p)] = p
			}
		}
	}
	names := sorted(byName)
	sort.Strings(names)
	var out []string
	for _, n := range names {
		out = append(out, w.Files[w.resolve(byName[n])].Content)
	}
	return out
}

func (w *World) bootModules() {
	w.Modules = maps.Clone(w.image.modules)
	for _, text := range w.configured("modules-load.d") {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				w.Modules[line] = true
			}
		}
	}
}

func (w *World) bootSysctls() {
	w.Sysctls = maps.Clone(w.image.sysctls)
	w.bridge()
	for _, text := range w.configured("sysctl.d") {
		for line := range strings.Lines(text) {
			key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-"), "=")
			key = strings.TrimSpace(key)
			if _, exists := w.Sysctls[key]; ok && exists {
				w.Sysctls[key] = strings.TrimSpace(value)
			}
		}
	}
}

// bridge brings the sysctls that come with br_netfilter.
func (w *World) bridge() {
	if !w.Modules["br_netfilter"] {
		return
	}
	for _, k := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
		if _, ok := w.Sysctls[k]; !ok {
			w.Sysctls[k] = "0"
		}
	}
}

func (w *World) bootUnits() {
	for name, u := range w.UnitStates {
		if u.UnitFileState == "generated" {
			delete(w.UnitStates, name)
			continue
		}
		u.ActiveState, u.StartedAt, u.NeedsReload = "inactive", 0, false
		if u.LoadState == "loaded" && u.UnitFileState == "enabled" {
			u.ActiveState, u.StartedAt = "active", w.now()
		}
		w.UnitStates[name] = u
	}
}

// bootMounts mounts what the image mounts, and what enabled mount units name by
// label.
func (w *World) bootMounts() {
	w.MountTable = slices.Clone(w.image.mounts)
	for _, name := range sorted(w.UnitStates) {
		set := map[string]string{}
		for line := range strings.Lines(w.Files["/etc/systemd/system/"+name].Content) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				set[k] = v
			}
		}
		if !strings.HasSuffix(name, ".mount") || w.UnitStates[name].ActiveState != "active" {
			continue
		}
		if d := w.disk(set["What"]); d != nil {
			w.MountTable = append(w.MountTable, host.Mount{Source: d.Path, Target: set["Where"], Type: set["Type"], Root: "/"})
		} else if !strings.HasPrefix(set["What"], "/dev/") {
			w.MountTable = append(w.MountTable, w.shown(set["What"], set["Where"], set["Type"]))
		}
	}
}

// shown is how mountinfo shows a mount that is no data disk: a bind mount as a
// part of what it was bound from.
func (w *World) shown(what, where, kind string) host.Mount {
	m := host.Mount{Source: what, Target: where, Type: kind, Root: "/"}
	if kind != "none" {
		return m
	}
	longest := 0
	for _, on := range w.MountTable {
		if rest, ok := strings.CutPrefix(what, strings.TrimSuffix(on.Target, "/")); ok && len(on.Target) > longest && (rest == "" || rest[0] == '/') {
			m, longest = on, len(on.Target)
			m.Target, m.Root = where, path.Join("/", on.Root, rest)
		}
	}
	return m
}

// bootSwap turns on what fstab and enabled units name.
func (w *World) bootSwap() {
	w.Swaps = nil
	for line := range strings.Lines(w.Files["/etc/fstab"].Content) {
		if f := strings.Fields(line); len(f) > 2 && !strings.HasPrefix(f[0], "#") && f[2] == "swap" {
			unit := strings.ReplaceAll(strings.Trim(f[0], "/"), "/", "-") + ".swap"
			if w.UnitStates[unit].LoadState == "masked" {
				continue
			}
			w.UnitStates[unit] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", FragmentPath: "/run/systemd/generator/" + unit, SourcePath: "/etc/fstab", What: f[0]}
			w.Swaps = append(w.Swaps, Swap{f[0], "file", unit})
		}
	}
	for _, name := range sorted(w.UnitStates) {
		if u := w.UnitStates[name]; strings.HasSuffix(name, ".swap") && u.UnitFileState == "enabled" && u.ActiveState == "active" {
			w.Swaps = append(w.Swaps, Swap{u.What, "file", name})
		}
	}
}

// bootFirewall loads what is permanent: firewalld's zones, or the files that
// iptables.service gives to iptables-restore.
func (w *World) bootFirewall() {
	w.Firewall.Running = w.UnitStates["firewalld.service"].ActiveState == "active"
	w.Firewall.Interfaces = maps.Clone(w.image.interfaces)
	for i, zone := range w.Firewall.Permanent {
		w.Firewall.Interfaces[i] = zone
	}
	for name, z := range w.Firewall.Zones {
		z.Runtime = z.Permanent
		w.Firewall.Zones[name] = z
	}
	for family, file := range map[string]string{"ipv4": "/etc/systemd/scripts/ip4save", "ipv6": "/etc/systemd/scripts/ip6save"} {
		if f, ok := w.Files[file]; ok && w.UnitStates["iptables.service"].ActiveState == "active" {
			w.Tables.Filter[family] = loaded(f.Content)
		}
	}
}
