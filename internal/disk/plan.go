package disk

import (
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// Plan formats what is provably blank, writes mount units, mounts parents
// before children, lets kubelet and containerd wait for it, and links raw disks.
// It is pure.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	disks, raw := apart(spec.Disks)
	var assigned []choice
	choices := map[string]choice{} // by name of the disk
	if f.Observed {
		assigned = assign(disks, raw, f)
		for _, c := range assigned {
			choices[c.disk.Name] = c
		}
	} else if len(spec.Disks) > 0 {
		p.Warnings = append(p.Warnings, "block devices can't be observed here; which device each disk gets, and whether it is formatted, is decided on the host itself")
	}
	var formats, files, mounts []change.Change
	for _, d := range parentsFirst(disks) {
		c := choices[d.Name]
		foreign, err := false, c.err
		var warn []string
		if err == nil {
			foreign, warn, err = foreignMount(d, c, f)
		}
		if err == nil {
			err = inTheWay(d, c, f, &warn)
		}
		var wipe *change.EmptyFilesystem
		if err == nil && f.Observed {
			wipe, err = empty(d, c, f)
		}
		p.Warnings = append(p.Warnings, warn...)
		if err != nil {
			p.Blocked = append(p.Blocked, err)
			continue
		}
		if c.format != nil {
			formats = append(formats, *c.format)
		}
		changed := false
		if !foreign {
			path := unitDir + "/" + MountUnit(d.MountPath)
			if w, ok := f.Files[path].Write(path, "0644", "root:root", unitText(d), "write the mount unit of "+d.MountPath); ok {
				files = append(files, w)
				changed = true
			}
		}
		if f.Observed {
			if stop, ok := stopIdle(d, c, f); ok {
				mounts = append(mounts, stop)
			}
			mounts = append(mounts, mount(d, c, f, foreign, changed)...)
			if wipe != nil {
				mounts = append(mounts, *wipe)
			}
		}
	}
	p.Changes = append(formats, files...)
	reload := false
	for _, service := range services {
		paths := needs(service, disks)
		if len(paths) == 0 {
			continue
		}
		path := dropIn(service)
		w, ok := f.Files[path].Write(path, "0644", "root:root", dropInText(paths), "let "+service+" wait for its mounts")
		if ok {
			p.Changes = append(p.Changes, w)
		}
		if ok || f.Units[service].NeedsReload {
			reload = true
		}
	}
	p.Changes = append(p.Changes, mounts...)
	if reload && f.Observed && !slices.ContainsFunc(mounts, func(c change.Change) bool { _, is := c.(change.Mount); return is }) {
		p.Changes = append(p.Changes, change.SetUnit{Unit: services[0], Reload: true, Why: "its mounts have changed"})
	}
	planRaw(&p, raw, assigned, f)
	return p
}

// mount plans the mount itself and what must follow it.
func mount(d config.Disk, c choice, f Facts, foreign, changed bool) []change.Change {
	var out []change.Change
	name := MountUnit(d.MountPath)
	state, known := f.Units[name]
	mounted := f.mounted(d, c.device)
	settled := !known || foreign || state.LoadState == "loaded" && state.UnitFileState == "enabled" && !state.NeedsReload
	if !mounted || changed || !settled {
		m := change.Mount{Unit: name, Label: d.Filesystem.Label, UUID: c.device.FSUUID, Target: d.MountPath, Type: d.Filesystem.Type, Foreign: foreign}
		if c.format != nil {
			m.UUID = c.format.UUID
		}
		out = append(out, m)
	}
	if f.SELinux != "" && f.SELinux != "disabled" && (!mounted || !host.Labelled(f.Targets[d.MountPath].SELinux)) {
		out = append(out, change.Relabel{Path: d.MountPath})
	}
	return out
}

// foreignMount looks for an fstab entry or a mount unit of somebody else for
// the path. One for the same device is adopted; any other is a refusal.
func foreignMount(d config.Disk, c choice, f Facts) (adopt bool, warnings []string, err error) {
	made := ""
	if c.format != nil {
		made = c.format.UUID
	}
	refuse := func(where, what string) error {
		return fail.New(fail.Safety, "remove it if it isn't wanted any more, or describe its device in the configuration", "disk %s: %s already mounts something else on %s: %s", d.Name, where, d.MountPath, what)
	}
	var entries []FstabEntry
	for _, e := range ParseFstab(f.Fstab.Content) {
		if e.Target == d.MountPath && e.Type != "swap" {
			entries = append(entries, e)
		}
	}
	if len(entries) > 1 {
		return false, nil, fail.New(fail.Safety, "keep one of them", "disk %s: /etc/fstab mounts %s twice, in lines %d and %d", d.Name, d.MountPath, entries[0].Line, entries[1].Line)
	}
	if len(entries) == 1 {
		e := entries[0]
		where := fmt.Sprintf("line %d of /etc/fstab", e.Line)
		if e.has("comment=cloudconfig") || e.has("x-cloud-init") {
			where += ", which cloud-init wrote,"
		}
		same, stable := means(e.Source, d, c.device, made)
		if !same && f.Observed || e.Type != d.Filesystem.Type && e.Type != "auto" {
			return false, nil, refuse(where, strings.TrimSpace(e.Text))
		}
		if !stable {
			warnings = append(warnings, fmt.Sprintf("%s mounts %s by the name %s, which may mean another device after the next boot; LABEL=%s would not", where, d.MountPath, e.Source, d.Filesystem.Label))
		}
		return true, warnings, nil
	}
	path := unitDir + "/" + MountUnit(d.MountPath)
	if u := f.Files[path]; u.Exists && !Ours(u) {
		what, kind := unitSetting(u.Content, "What"), unitSetting(u.Content, "Type")
		same, _ := means(what, d, c.device, made)
		if !same && f.Observed || kind != "" && kind != "auto" && kind != d.Filesystem.Type {
			return false, nil, refuse(path+", which isn't ours,", what)
		}
		return true, nil, nil
	}
	return false, nil, nil
}

func (e FstabEntry) has(option string) bool { return slices.Contains(e.Options, option) }

// precious are directories whose content must not vanish under a mount.
var precious = []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/nodeagent", "/var/lib/rpm", "/usr/lib/sysimage", "/home", "/root", "/etc", "/opt"}

// inTheWay tells what stands at the mount point.
func inTheWay(d config.Disk, c choice, f Facts, warnings *[]string) error {
	for _, o := range d.MountOptions {
		if strings.HasPrefix(o, "x-systemd.") || o == "noauto" {
			*warnings = append(*warnings, fmt.Sprintf("disk %s: mount option %s has a meaning in fstab only and none in a mount unit", d.Name, o))
		}
	}
	if f.Observed && f.mounted(d, c.device) {
		return nil
	}
	if m, ok := f.mountAt(d.MountPath); ok && f.Observed {
		return fail.New(fail.Safety, "unmount it and remove what mounts it, or describe it in the configuration", "disk %s: %s (%s%s) is mounted on %s already, not %s", d.Name, m.Source, m.Type, partOf(m), d.MountPath, describe(c.device))
	}
	t := f.Targets[d.MountPath]
	switch {
	case t.Link != "":
		return fail.New(fail.Safety, "take the link's target as mountPath, or remove the link", "disk %s: the mount path %s leads through a symbolic link: %s", d.Name, d.MountPath, t.Link)
	case t.File:
		return fail.New(fail.Safety, "move it away", "disk %s: %s is a file, nothing can be mounted there", d.Name, d.MountPath)
	case t.ReadOnly != "":
		return fail.New(fail.Step, "mount it below /var, or have the directory in the image", "disk %s: the directory %s isn't there and can't be made: %s", d.Name, d.MountPath, t.ReadOnly)
	case t.Files == 0:
		return nil
	}
	count := fmt.Sprint(t.Files)
	if t.Files >= manyFiles {
		count += " or more"
	}
	text := fmt.Sprintf("%s holds %s files, which the mount would hide: %s", d.MountPath, count, strings.Join(t.Samples, ", "))
	for _, p := range precious {
		if below(p, d.MountPath) || below(d.MountPath, p) {
			return fail.New(fail.Safety, "stop what uses them (kubelet, containerd) and move them away, or onto the disk", "disk %s: %s", d.Name, text)
		}
	}
	*warnings = append(*warnings, fmt.Sprintf("disk %s: %s", d.Name, text))
	return nil
}

func partOf(m host.Mount) string {
	if m.Root == "" || m.Root == "/" {
		return ""
	}
	return ", only " + m.Root + " of it"
}
