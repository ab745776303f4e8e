package disk

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
	"nodeagent/internal/run/journal"
)

// Observe reads what Plan needs. When every disk is mounted as asked, no
// device is opened and no program but lsblk is started.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	disks, raw := apart(spec.Disks)
	rules, err := host.ReadText(v, udev.Path)
	if err != nil || len(spec.Disks) == 0 && !udev.Ours(rules.Content) {
		return Facts{}, err
	}
	f := Facts{Files: map[string]host.Text{udev.Path: rules}, Targets: map[string]Target{}}
	sys, err := v.System()
	if err != nil {
		return f, err
	}
	f.MachineID, f.SELinux = sys.MachineID, sys.SELinux
	// A kernel with SELinux built in shows its switch even where no policy is
	// installed; libselinux goes by this file, is_selinux_enabled(3).
	if config, err := v.Stat("/etc/selinux/config"); err != nil || !config.Exists {
		f.SELinux = "disabled"
	}
	if err := f.readFiles(ctx, v, disks); err != nil {
		return f, err
	}
	mounts, err := v.Mounts()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	for _, m := range mounts {
		if slices.ContainsFunc(disks, func(d config.Disk) bool { return d.MountPath == m.Target }) {
			f.Mounts = append(f.Mounts, m)
		}
	}
	if err := f.readDevices(ctx, v, disks, raw); err != nil {
		return f, err
	}
	if err := f.readEmptied(v, disks); err != nil {
		return f, err
	}
	for _, d := range disks {
		_, mounted := f.mountAt(d.MountPath)
		t, err := ObserveTarget(v, d.MountPath, mounted)
		if err != nil {
			return f, err
		}
		if spec.OnDataDisk(d.MountPath) {
			t.ReadOnly = "" // another disk is mounted first, and the directory is made there
		}
		f.Targets[d.MountPath] = t
	}
	return f, nil
}

func (f *Facts) readFiles(ctx context.Context, v host.View, disks []config.Disk) (err error) {
	if f.Fstab, err = host.ReadText(v, "/etc/fstab"); err != nil {
		return err
	}
	if len(disks) == 0 {
		return nil
	}
	units := slices.Clone(services)
	paths := []string{}
	for _, s := range services {
		paths = append(paths, dropIn(s))
	}
	for _, d := range disks {
		units = append(units, MountUnit(d.MountPath))
		paths = append(paths, unitDir+"/"+MountUnit(d.MountPath))
	}
	for _, p := range paths {
		if f.Files[p], err = host.ReadText(v, p); err != nil {
			return err
		}
	}
	f.Units, err = v.Units(ctx, units)
	if errors.Is(err, host.ErrUnobservable) {
		return nil
	}
	return err
}

// readDevices lists the devices and probes those that matter.
func (f *Facts) readDevices(ctx context.Context, v host.View, disks, raw []config.Disk) error {
	devices, err := v.BlockDevices(ctx, false)
	if errors.Is(err, host.ErrUnobservable) {
		return nil
	}
	if err != nil {
		return err
	}
	f.Observed, f.Devices = true, devices
	if slices.ContainsFunc(disks, f.missing) || slices.ContainsFunc(raw, func(d config.Disk) bool { return len(rawCandidates(d, f.Devices)) == 0 }) {
		// Perhaps it has only just appeared.
		if f.Devices, err = v.BlockDevices(ctx, true); err != nil {
			return err
		}
	}
	if err := f.readUdev(ctx, v, raw); err != nil {
		return err
	}
	if !slices.ContainsFunc(disks, func(d config.Disk) bool { return !f.settled(d) }) {
		return nil
	}
	probed := slices.Clone(f.Devices)
	for i, x := range f.Devices {
		if !f.matters(disks, x) {
			continue
		}
		if probed[i], err = v.Probe(ctx, x); err != nil {
			return err
		}
	}
	f.Devices = probed
	return f.readJournal(v)
}

// readUdev asks udev for what raw disks are known by, and reads the rules of
// others that make links like theirs. The disks themselves aren't opened.
func (f *Facts) readUdev(ctx context.Context, v host.View, raw []config.Disk) (err error) {
	if len(raw) == 0 && f.ourLinks() == nil {
		return nil
	}
	for _, d := range raw {
		found := rawCandidates(d, f.Devices)
		if len(found) != 1 {
			continue
		}
		properties, err := v.UdevProperties(ctx, found[0])
		if err != nil {
			return err
		}
		if f.Udev == nil {
			f.Udev = map[string]map[string]string{}
		}
		f.Udev[found[0].Name] = properties
	}
	f.Rules, err = udev.Others(v)
	return err
}

// settled tells that a disk needs nothing: its label is on one device, which
// is the one it selects and is mounted where it belongs.
func (f *Facts) settled(d config.Disk) bool {
	dev, found, err := named(d, f.Devices)
	return err == nil && found && dev.Label == d.Filesystem.Label && f.mounted(d, dev)
}

// missing tells that nothing is found for a disk.
func (f *Facts) missing(d config.Disk) bool {
	return !slices.ContainsFunc(f.Devices, func(x host.BlockDevice) bool {
		return x.Label == d.Filesystem.Label || selects(d.Select, x)
	})
}

// matters tells whether a device must be probed: one that a disk not yet
// mounted selects, one with its label, and, for disks that must be searched by
// what is on them, each of which udev knows nothing.
func (f *Facts) matters(disks []config.Disk, x host.BlockDevice) bool {
	unknown := (x.Type == "disk" || x.Type == "part" || x.Type == "loop") && x.Size > 0 && x.FSType == "" && x.PTType == "" && len(x.Children) == 0
	for _, d := range disks {
		if f.settled(d) {
			continue
		}
		if x.Label == d.Filesystem.Label || selects(d.Select, x) {
			return true
		}
		byContent := d.Select.Label != "" || d.Select.FSUUID != "" || d.Select.Blank != nil && (x.Type != "disk" || inRange(d.Select.Blank, x.Size))
		if unknown && byContent && f.missing(d) {
			return true
		}
	}
	return false
}

// readJournal collects the formats that were begun and not finished.
func (f *Facts) readJournal(v host.View) error {
	entries, err := journal.Read(v.ReadFile)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.ID, "mkfs:") {
			continue
		}
		last, ok := journal.Unfinished(entries, e.ID)
		var c change.MakeFilesystem
		if !ok || json.Unmarshal(last.Change, &c) != nil {
			continue
		}
		if f.Unfinished == nil {
			f.Unfinished = map[string]change.MakeFilesystem{}
		}
		f.Unfinished[e.ID] = c
	}
	return nil
}

// manyFiles ends the counting.
const manyFiles = 1000

// ObserveTarget looks at a mount point: links on the way to it, and files that
// a mount would hide.
func ObserveTarget(v host.View, path string, mounted bool) (Target, error) {
	var t Target
	for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
		info, err := v.Stat(at)
		if err != nil {
			return t, err
		}
		if info.Link != "" {
			t.Link = at + " -> " + info.Link
		}
		if at == path {
			if !info.Exists {
				if t.ReadOnly, err = host.ReadOnlyAt(v, path); err != nil {
					return t, err
				}
			}
			t.SELinux = info.SELinux
			t.File = info.Exists && !info.Dir && info.Link == ""
		}
	}
	if mounted || t.Link != "" || t.File {
		return t, nil
	}
	t.SELinux = ""
	return t, t.count(v, path, 0)
}

// count adds the files below a directory. Directories alone hide nothing:
// packages make them.
func (t *Target) count(v host.View, dir string, depth int) error {
	names, err := v.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		if t.Files >= manyFiles {
			return nil
		}
		p := filepath.Join(dir, n)
		info, err := v.Stat(p)
		if err != nil {
			return err
		}
		if info.Dir && info.Link == "" && depth < 40 {
			if err := t.count(v, p, depth+1); err != nil {
				return err
			}
			continue
		}
		if index.MatchString(p) {
			t.Index++
			continue
		}
		if info.Exists {
			t.Files++
			if len(t.Samples) < 3 {
				t.Samples = append(t.Samples, p)
			}
		}
	}
	return nil
}
