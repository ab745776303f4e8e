package mounts

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/rpmspec"
)

// Plan writes a mount unit for each mount and starts it, what lies on another
// after that. It is pure.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if len(spec.Mounts) == 0 {
		return p
	}
	if !f.Observed {
		p.Warnings = append(p.Warnings, "what is mounted can't be observed here; whether the mount points are free is decided on the host itself")
	}
	remote := spec.RemoteMounts()
	order, _ := spec.MountsInOrder() // no circle passes validation
	var files, mounts []change.Change
	fetches := false
	for _, m := range order {
		blocked := f.refusals(spec, m)
		p.Blocked = append(p.Blocked, blocked...)
		if len(blocked) > 0 {
			continue
		}
		name := disk.MountUnit(m.Where)
		unit, mounted := f.Files[unitDir+name], f.mounted(m)
		w, changed := unit.Write(unitDir+name, "0644", "root:root", unitText(m, remote[m.Where]), "write the mount unit of "+m.Where)
		if changed {
			files = append(files, w)
			if unit.Exists && mounted {
				p.Warnings = append(p.Warnings, fmt.Sprintf("%s is in use: other options hold when it is mounted anew, at the next boot or by: systemctl restart %s", m.Where, name))
			}
		}
		state, known := f.Units[name]
		settled := !known || state.LoadState == "loaded" && state.UnitFileState == "enabled" && !state.NeedsReload
		if f.Observed && (!mounted || changed || !settled) {
			mounts = append(mounts, change.Mount{Unit: name, Source: m.What, Target: m.Where, Type: m.Type})
			fetches = fetches || remote[m.Where] && !mounted
		}
	}
	if fetches && f.lacksRoute(spec) {
		p.Changes = append(p.Changes, change.WaitRoute{Family: spec.Network.DefaultRoute.Family, Timeout: spec.Network.DefaultRoute.Timeout.Duration})
	}
	p.Changes = append(p.Changes, files...)
	reload := ""
	for _, s := range services {
		text := s.text(order)
		if text == "" {
			continue
		}
		w, ok := f.Files[s.dropIn()].Write(s.dropIn(), "0644", "root:root", text, "let "+s.unit+" wait for its mounts")
		if ok {
			p.Changes = append(p.Changes, w)
		}
		if reload == "" && (ok || f.Units[s.unit].NeedsReload) {
			reload = s.unit
		}
	}
	p.Changes = append(p.Changes, mounts...)
	if reload != "" && f.Observed && len(mounts) == 0 { // a mount has systemd read them
		p.Changes = append(p.Changes, change.SetUnit{Unit: reload, Reload: true, Why: "its mounts have changed"})
	}
	return p
}

func (f Facts) lacksRoute(spec config.Spec) bool {
	family := spec.Network.DefaultRoute.Family
	return family != "none" && !slices.Contains(f.Routes, family) && (family != "any" || len(f.Routes) == 0)
}

// pending tells that p lies on a data disk, or on a mount other than m, that
// isn't mounted yet: what is seen there now isn't what m will meet.
func (f Facts) pending(spec config.Spec, m config.Mount, p string) bool {
	on := func(where string) bool {
		_, mounted := f.Mounted[where]
		return !mounted && where != m.Where && below(where, p)
	}
	return slices.ContainsFunc(spec.Disks, func(d config.Disk) bool { return d.MountPath != "" && on(d.MountPath) }) ||
		slices.ContainsFunc(spec.Mounts, func(o config.Mount) bool { return on(o.Where) })
}

// refusals is what keeps one mount from being made.
func (f Facts) refusals(spec config.Spec, m config.Mount) (out []error) {
	no := func(kind fail.Kind, hint, format string, a ...any) {
		out = append(out, fail.New(kind, hint, "spec.mounts: %s: %s", m.Where, fmt.Sprintf(format, a...)))
	}
	name := disk.MountUnit(m.Where)
	const theirs = "remove that if it isn't wanted any more, or leave the mount out of the configuration"
	if line := f.Fstab[m.Where]; line > 0 {
		no(fail.Safety, theirs, "line %d of /etc/fstab mounts something there already", line)
	}
	unit, state := f.Files[unitDir+name], f.Units[name]
	switch {
	case state.LoadState == "masked":
		no(fail.Safety, "systemctl unmask "+name, "%s is masked", name)
	case unit.Exists && !disk.Ours(unit):
		no(fail.Safety, theirs, "%s is there and isn't nodeagent's", unitDir+name)
	case state.LoadState == "loaded" && state.FragmentPath != "" && state.FragmentPath != unitDir+name && state.SourcePath != "/etc/fstab":
		no(fail.Safety, theirs, "%s is a unit of the system for it", state.FragmentPath)
	}
	if now, ok := f.Mounted[m.Where]; ok {
		if !f.mounted(m) {
			no(fail.Safety, "unmount it (systemctl stop "+name+") and remove what mounts it", "%s (%s) is mounted there, not %s (%s)", partOf(now), now.Type, m.What, m.Type)
		}
		return out
	}
	if t := f.Targets[m.Where]; !f.pending(spec, m, m.Where) {
		switch {
		case t.Link != "":
			no(fail.Safety, "take the link's target as the mount point, or remove the link", "it leads through a symbolic link, and systemd mounts on none: %s", t.Link)
		case t.File:
			no(fail.Safety, "move it away", "it is a file, and a directory is needed")
		case t.ReadOnly != "":
			no(fail.Step, "mount it below /var, or have the directory in the image", "the directory isn't there and can't be made: %s", t.ReadOnly)
		case t.Files+t.Index > 0:
			no(fail.Safety, "move them away, or mount it elsewhere", "it holds %s, which the mount would hide", holds(t))
		}
	}
	if s := f.Sources[m.What]; m.Bind() && !f.pending(spec, m, m.What) {
		switch {
		case s.Link != "":
			no(fail.Step, "take the link's target", "its source leads through a symbolic link: %s", s.Link)
		case s.Exists && !s.Dir:
			no(fail.Step, "bind the directory that holds it", "its source %s is a file", m.What)
		case !s.Exists && !spec.OnDataDisk(m.What): // on those systemd makes it: nobody could have before
			no(fail.Step, "make the directory before nodeagent runs", "its source %s isn't there", m.What)
		}
	}
	if h, ok := m.Helper(); ok && !f.Helpers[h.Program] && !installs(spec, h.Packages) {
		no(fail.Step, fmt.Sprintf("add it to spec.packages.install: %s (on other distributions %s)", h.Packages[0], strings.Join(h.Packages, ", ")),
			"%s can't be mounted without %s, which isn't installed", m.Type, h.Program)
	}
	return out
}

// installs tells whether the run itself brings one of these packages.
func installs(spec config.Spec, packages []string) bool {
	return slices.ContainsFunc(spec.Packages.Install, func(s string) bool { return slices.Contains(packages, rpmspec.Name(s)) })
}

func holds(t disk.Target) string {
	if len(t.Samples) == 0 {
		return "files of an idle containerd"
	}
	if t.Files > len(t.Samples) {
		return strings.Join(t.Samples, ", ") + " and more"
	}
	return strings.Join(t.Samples, ", ")
}

func partOf(m host.Mount) string {
	if m.Root == "" || m.Root == "/" {
		return m.Source
	}
	return m.Root + " of " + m.Source
}

// mounted tells whether what is mounted on the mount point is what is asked for.
func (f Facts) mounted(m config.Mount) bool {
	now, ok := f.Mounted[m.Where]
	switch {
	case !ok:
		return false
	case m.Bind():
		s := f.Sources[m.What]
		return now.Device == s.Mount.Device && now.Source == s.Mount.Source && now.Root == s.Root
	case !slices.Contains(shownAs(m.Type), now.Type):
		return false
	case m.Type == "ceph": // mount.ceph puts the monitors' addresses in place of their names
		return within(now.Source) == within(m.What)
	}
	return strings.TrimRight(now.Source, "/") == strings.TrimRight(m.What, "/")
}

// within is the path in a ceph filesystem: after the last ":" or "=".
func within(source string) string {
	return strings.TrimRight(source[strings.LastIndexAny(source, ":=")+1:], "/")
}

// shownAs are the types by which mountinfo may call a type of mount(8).
func shownAs(t string) []string {
	switch t {
	case "nfs":
		return []string{"nfs", "nfs4"} // the version is negotiated: nfs(5)
	case "glusterfs":
		return []string{"fuse.glusterfs"}
	case "smb3":
		return []string{"smb3", "cifs"}
	}
	return []string{t}
}
