package hosttest

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/firewall/iptables"
	"nodeagent/internal/firewall/port"
	"nodeagent/internal/host"
)

// applyReset carries out the kinds that only a reset has.
func (w *World) applyReset(c change.Change) error {
	switch c := c.(type) {
	case change.ResetInterface:
		w.resetInterface(c)
	case change.RestoreFile:
		return w.restore(c.Path)
	case change.RevokeKeys:
		w.revokeKeys(c)
	case change.SwapOn:
		w.generate() // the manager is reloaded first
		for n, u := range w.UnitStates {
			if n == c.Unit || u.What == c.Area {
				u.ActiveState = "active"
				w.UnitStates[n] = u
			}
		}
		w.Swaps = append(w.Swaps, Swap{Area: c.Area, Unit: c.Unit})
	case change.UnmaskUnit:
		w.unmask(c.Unit)
	case change.RemoveKeys:
		for name, version := range w.Packages {
			if strings.HasPrefix(name, "gpg(") && slices.Contains(c.Keys, version) {
				delete(w.Packages, name)
			}
		}
	case change.RemovePackages:
		for _, name := range c.Packages {
			w.erase(name)
		}
	case change.RemoveArchive:
		delete(w.Files, c.Marker)
		for name, p := range w.Repo {
			if strings.Contains(c.URL, name) {
				w.erase(name)
				for f := range p.Files {
					delete(w.Files, f)
				}
			}
		}
	case change.ClosePorts:
		return w.close(c)
	case change.Unmount:
		w.MountTable = slices.DeleteFunc(w.MountTable, func(m host.Mount) bool { return m.Target == c.Target })
		u := w.UnitStates[c.Unit]
		u.ActiveState, u.UnitFileState = "inactive", "disabled"
		w.UnitStates[c.Unit] = u
	case change.StopPods:
		w.PodsRun = nil
	case change.UnmountVolumes:
		w.MountTable = slices.DeleteFunc(w.MountTable, func(m host.Mount) bool { return slices.Contains(c.Targets, m.Target) })
	case change.RemoveState:
		for _, p := range c.Paths {
			for _, m := range w.MountTable {
				if m.Target == p || strings.HasPrefix(m.Target, p+"/") {
					return fmt.Errorf("%s is mounted", m.Target)
				}
			}
			for f := range w.Files {
				if f == p || strings.HasPrefix(f, p+"/") {
					delete(w.Files, f)
				}
			}
		}
		if _, ok := w.Files[host.KubeletConf]; !ok {
			n := &w.NodeObject
			n.Joined, n.Reached, n.Ready, n.Name = false, false, false, ""
			n.Labels = nil
		}
	case change.CleanNetwork:
		w.Cluster = w.Cluster.Without(host.ClusterNetwork(c))
	default:
		return fmt.Errorf("the world has no %s", change.Kind(c))
	}
	return nil
}

// populate is what comes to a node after it has joined: a pod, its volume, the
// network plugin's configuration, kube-proxy's chains.
func (w *World) populate() {
	w.PodsRun = []string{"kube-system/proxy"}
	w.put("/var/lib/kubelet/pods/0a1b/etc-hosts", "pod\n")
	w.put("/etc/cni/net.d/10-plugin.conflist", "{}\n")
	w.MountTable = append(w.MountTable, host.Mount{Source: "tmpfs", Target: "/var/lib/kubelet/pods/0a1b/volumes/token", Type: "tmpfs", Root: "/"})
	w.Cluster.Chains = append(slices.Clone(w.Cluster.Chains), "nft ipv4 nat KUBE-SERVICES")
	w.Cluster.Links = append(slices.Clone(w.Cluster.Links), "cni0")
}

// keep notes a file of secret content as it is, as the host does.
func (w *World) keep(c change.WriteFile) error {
	p := change.KeepsakePath(c.Path)
	var now *change.Content
	if f, ok := w.Files[w.resolve(c.Path)]; ok {
		now = &change.Content{Mode: or(f.Mode, "0644"), Owner: or(f.Owner, "root:root"), Data: []byte(f.Content)}
	}
	b, err := change.Keep([]byte(w.Files[p].Content), c.Path, now, c.Content)
	if err != nil {
		return err
	}
	w.Files[p] = File{Content: string(b), Mode: "0600"}
	return nil
}

func (w *World) restore(p string) error {
	var k change.Keepsake
	if err := json.Unmarshal([]byte(w.Files[change.KeepsakePath(p)].Content), &k); err != nil {
		return err
	}
	w.Files[w.resolve(p)] = File{Content: string(k.Before.Data), Mode: k.Before.Mode, Owner: k.Before.Owner, Modified: w.now()}
	delete(w.Files, change.KeepsakePath(p))
	return nil
}

// forgetUnit lets the manager see at its next reload that a unit file is gone.
func (w *World) forgetUnit(p string) {
	if u, ok := w.UnitStates[path.Base(p)]; ok && u.FragmentPath == p {
		u.NeedsReload = true
		w.UnitStates[path.Base(p)] = u
	}
}

func (w *World) mask(unit string) {
	if w.masked == nil {
		w.masked = map[string]host.Unit{}
	}
	if u := w.UnitStates[unit]; u.LoadState != "masked" {
		w.masked[unit] = u
	}
	w.UnitStates[unit] = host.Unit{LoadState: "masked", ActiveState: "inactive", UnitFileState: "masked"}
	file := "/etc/systemd/system/" + unit
	if f, ok := w.Files[file]; ok && f.Link != "/dev/null" {
		w.Files[file+host.MaskedCopy] = f
	}
	w.Files[file] = File{Link: "/dev/null"}
}

func (w *World) unmask(unit string) {
	file := "/etc/systemd/system/" + unit
	delete(w.Files, file)
	if f, ok := w.Files[file+host.MaskedCopy]; ok {
		w.Files[file] = f
		delete(w.Files, file+host.MaskedCopy)
	}
	u := w.masked[unit]
	if u.LoadState == "" {
		delete(w.UnitStates, unit)
		return
	}
	u.ActiveState = "inactive"
	w.UnitStates[unit] = u
}

// generate makes the units of fstab's swap entries.
func (w *World) generate() {
	for line := range strings.Lines(w.Files["/etc/fstab"].Content) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || f[2] != "swap" {
			continue
		}
		name := strings.ReplaceAll(strings.Trim(f[0], "/"), "/", "-") + ".swap"
		if _, ok := w.UnitStates[name]; !ok {
			w.UnitStates[name] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "generated", FragmentPath: "/run/systemd/generator/" + name, SourcePath: "/etc/fstab", What: f[0]}
		}
	}
}

// erase removes a package and what it brought, unless somebody changed it.
func (w *World) erase(name string) {
	p := w.Repo[name]
	if _, ok := w.Packages[name]; !ok {
		return
	}
	delete(w.Packages, name)
	for f, brought := range p.Files {
		if w.Files[f] == brought || w.Files[f].Content == brought.Content {
			delete(w.Files, f)
		}
	}
	for _, u := range p.Units {
		delete(w.UnitStates, u)
	}
}

func (w *World) close(c change.ClosePorts) error {
	if c.Family != "" {
		var kept strings.Builder
		for line := range strings.Lines(w.Tables.Filter[c.Family]) {
			t, err := iptables.Filter("*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n" + line + "COMMIT\n")
			if !strings.HasPrefix(line, "-A ") || err != nil || len(iptables.Present(t, c.Rules)) == 0 {
				kept.WriteString(line)
			}
		}
		w.Tables.Filter[c.Family] = kept.String()
		return nil
	}
	z := w.Firewall.Zones[c.Zone]
	s, bound := &z.Runtime, w.Firewall.Interfaces
	if c.Permanent {
		s, bound = &z.Permanent, w.Firewall.Permanent
	}
	less := func(from *[]string, what []string) {
		if *from = slices.DeleteFunc(*from, func(x string) bool { return slices.Contains(what, x) }); len(*from) == 0 {
			*from = nil
		}
	}
	ranges, other := port.ParseAll(s.Ports)
	closed, _ := port.ParseAll(c.Ports)
	if s.Ports = append(port.Strings(port.Missing(ranges, closed)), other...); len(s.Ports) == 0 {
		s.Ports = nil
	}
	less(&s.Protocols, c.Protocols)
	less(&s.Sources, c.Sources)
	less(&s.Interfaces, c.Interfaces)
	for _, i := range c.Interfaces {
		delete(bound, i)
	}
	s.Forward = s.Forward && !c.Forward
	w.Firewall.Zones[c.Zone] = z
	return nil
}
