// Package mounts mounts what is no data disk: network filesystems, bind mounts
// and filesystems in memory, each by a systemd mount unit. It observes and
// plans; it writes nothing.
package mounts

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/disk"
	"nodeagent/internal/host"
)

// Facts is what was observed; nothing when no mount is asked for. It holds no
// option of anybody else's: those may have passwords.
type Facts struct {
	// Observed is false when only a tree of files is at hand: then nothing is
	// known of what is mounted.
	Observed bool                   `json:"observed,omitempty"`
	Mounted  map[string]host.Mount  `json:"mounted,omitempty"` // by mount point: ours, and those of data disks
	Sources  map[string]Source      `json:"sources,omitempty"` // of bind mounts, by path
	Targets  map[string]disk.Target `json:"targets,omitempty"` // by mount point
	Fstab    map[string]int         `json:"fstab,omitempty"`   // mount point → the line that mounts something there
	Files    map[string]host.Text   `json:"files,omitempty"`   // units and drop-ins, by path; content only of ours
	Units    map[string]host.Unit   `json:"units,omitempty"`
	Helpers  map[string]bool        `json:"helpers,omitempty"` // programs of mount(8) that are there
	Routes   []string               `json:"routes,omitempty"`  // families with a usable default route
}

// Source is the directory that a bind mount shows.
type Source struct {
	Exists bool       `json:"exists"`
	Dir    bool       `json:"dir,omitempty"`
	Link   string     `json:"link,omitempty"` // the first symbolic link on the way, "PATH -> TARGET"
	Mount  host.Mount `json:"mount,omitzero"` // the one it lies on
	Root   string     `json:"root,omitempty"` // where in that filesystem it is: the root of a bind mount of it
}

const unitDir = "/etc/systemd/system/"

// Observe reads what Plan needs.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	if len(spec.Mounts) == 0 {
		return f, nil
	}
	f = Facts{Mounted: map[string]host.Mount{}, Sources: map[string]Source{}, Targets: map[string]disk.Target{}, Fstab: map[string]int{}, Files: map[string]host.Text{}, Helpers: map[string]bool{}}
	if err := f.readFiles(ctx, v, spec); err != nil {
		return f, err
	}
	table, err := v.Mounts()
	switch {
	case errors.Is(err, host.ErrUnobservable):
	case err != nil:
		return f, err
	default:
		f.Observed = true
	}
	for _, m := range table {
		// An automount point alone holds nothing; of several the last one counts.
		if m.Type != "autofs" && (slices.ContainsFunc(spec.Mounts, func(w config.Mount) bool { return w.Where == m.Target }) ||
			slices.ContainsFunc(spec.Disks, func(d config.Disk) bool { return d.MountPath == m.Target })) {
			m.Options = nil
			f.Mounted[m.Target] = m
		}
	}
	for _, m := range spec.Mounts {
		_, mounted := f.Mounted[m.Where]
		if f.Targets[m.Where], err = disk.ObserveTarget(v, m.Where, mounted); err != nil {
			return f, err
		}
		if m.Bind() {
			if f.Sources[m.What], err = observeSource(v, m.What, table); err != nil {
				return f, err
			}
		}
		if h, ok := m.Helper(); ok {
			_, err := v.LookPath(h.Program)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
			f.Helpers[h.Program] = err == nil
		}
	}
	return f, f.readRoutes(v)
}

func (f *Facts) readFiles(ctx context.Context, v host.View, spec config.Spec) error {
	fstab, err := host.ReadText(v, "/etc/fstab")
	if err != nil {
		return err
	}
	for _, e := range disk.ParseFstab(fstab.Content) {
		if e.Type != "swap" && slices.ContainsFunc(spec.Mounts, func(m config.Mount) bool { return m.Where == e.Target }) {
			f.Fstab[e.Target] = e.Line
		}
	}
	var units, paths []string
	for _, s := range services {
		units, paths = append(units, s.unit), append(paths, s.dropIn())
	}
	for _, m := range spec.Mounts {
		name := disk.MountUnit(m.Where)
		units, paths = append(units, name), append(paths, unitDir+name)
	}
	for _, p := range paths {
		t, err := host.ReadText(v, p)
		if err != nil {
			return err
		}
		if !disk.Ours(t) {
			t.Content = ""
		}
		f.Files[p] = t
	}
	f.Units, err = v.Units(ctx, units)
	if errors.Is(err, host.ErrUnobservable) {
		return nil
	}
	return err
}

func (f *Facts) readRoutes(v host.View) error {
	n, err := v.Network()
	if errors.Is(err, host.ErrUnobservable) {
		return nil
	}
	for _, r := range n.Usable("any") {
		if !slices.Contains(f.Routes, r.Family) {
			f.Routes = append(f.Routes, r.Family)
		}
	}
	return err
}

// observeSource looks at a directory, at links on the way to it, and at what it
// lies on.
func observeSource(v host.View, what string, table []host.Mount) (Source, error) {
	var s Source
	for at := what; at != "/"; at = path.Dir(at) {
		info, err := v.Stat(at)
		if err != nil {
			return s, err
		}
		if info.Link != "" {
			s.Link = at + " -> " + info.Link
		}
		if at == what {
			s.Exists, s.Dir = info.Exists, info.Dir
		}
	}
	if what == "/" {
		s.Exists, s.Dir = true, true
	}
	for _, m := range table {
		if below(m.Target, what) && len(m.Target) >= len(s.Mount.Target) {
			s.Mount = m
			s.Mount.Options = nil
		}
	}
	s.Root = path.Join("/", s.Mount.Root, strings.TrimPrefix(what, strings.TrimSuffix(s.Mount.Target, "/")))
	return s, nil
}

// below tells whether p is dir or lies below it.
func below(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
