// Package runtime plans the container runtime: containerd from a package, from
// archives or as it is, its configuration, and that it answers over CRI. It
// observes and plans; it writes nothing.
package runtime

import (
	"context"
	"errors"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/archive"
	"nodeagent/internal/prereq/trust"
)

const configPath = "/etc/containerd/config.toml"

// Facts are what the step knows about a host.
type Facts struct {
	Present Present              `json:"present"`
	CRI     *host.RuntimeVersion `json:"cri,omitempty"` // the answer at the socket
	// Silent is why nothing answers there.
	Silent string `json:"silent,omitempty"`
	// Version is the containerd program's own word; asked only when CRI is silent.
	Version  string               `json:"version,omitempty"`
	Unit     host.Unit            `json:"unit"`
	UnitFile host.Text            `json:"unitFile"`
	Config   Config               `json:"config"`
	Hosts    map[string]host.Text `json:"hosts,omitempty"` // hosts.toml files by path
	// Proxy is the unit's drop-in with the proxy; Hostname, the host's own name,
	// is asked only when a proxy is asked for.
	Proxy    host.Text `json:"proxy,omitzero"`
	Hostname string    `json:"hostname,omitempty"`
	// Archives are the records of archives that were unpacked and whose files
	// are still those, by URL.
	Archives map[string]archive.Marker `json:"archives,omitempty"`
	// ReadOnly says by directory why an archive can't be unpacked there.
	ReadOnly map[string]string `json:"readOnly,omitempty"`
	// Changed is when configuration, unit file or programs last changed, in µs
	// since the epoch.
	Changed int64    `json:"changed,omitempty"`
	Now     int64    `json:"now,omitempty"` // µs since the epoch
	Routes  []string `json:"routes,omitempty"`
	SELinux string   `json:"selinux,omitempty"`
	// Beside are the services of others that run and that a runtime meets.
	Beside []string `json:"beside,omitempty"`
}

// meets are services of others whose running says something about a runtime.
var meets = []string{"docker.service", "fapolicyd.service"}

// Observe reads what the step needs. It starts no program unless the runtime
// is silent.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	r := spec.Runtime
	f := Facts{Hosts: map[string]host.Text{}, Archives: map[string]archive.Marker{}}
	var err error
	if f.Present, err = Look(v, r); err != nil {
		return f, err
	}
	if err := f.readFiles(v, r); err != nil {
		return f, err
	}
	if err := f.readArchives(v, r); err != nil {
		return f, err
	}
	units, err := v.Units(ctx, append([]string{Unit(r)}, meets...))
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.Unit = units[Unit(r)]
	for _, name := range meets {
		if units[name].ActiveState == "active" {
			f.Beside = append(f.Beside, name)
		}
	}
	if f.Unit.FragmentPath == unitPath {
		if err := f.touched(v, unitPath); err != nil {
			return f, err
		}
	}
	if err := errors.Join(f.readTrust(v, spec), f.readProxy(v, spec)); err != nil {
		return f, err
	}
	s, err := v.System()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.SELinux = s.SELinux
	if spec.Proxy.Asked() {
		f.Hostname = s.Hostname
	}
	if !s.Now.IsZero() {
		f.Now = s.Now.UnixMicro()
	}
	n, err := v.Network()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	for _, d := range n.Defaults {
		f.Routes = append(f.Routes, d.Family)
	}
	return f, f.ask(ctx, v, r)
}

func (f *Facts) readFiles(v host.View, r config.Runtime) error {
	var err error
	if f.Config.Text, err = host.ReadText(v, configPath); err != nil {
		return err
	}
	if f.UnitFile, err = host.ReadText(v, unitPath); err != nil {
		return err
	}
	dir := hostsDir(f.Config.Content)
	for _, m := range r.Mirrors {
		p := hostsPath(dir, m.Registry)
		if f.Hosts[p], err = host.ReadText(v, p); err != nil {
			return err
		}
	}
	// hosts.toml is read at every pull; config.toml when the daemon starts.
	return f.touched(v, configPath)
}

// readTrust counts the authorities of spec.caTrust: containerd reads the host's
// bundle when it starts.
func (f *Facts) readTrust(v host.View, spec config.Spec) error {
	if len(spec.CATrust) == 0 {
		return nil
	}
	paths, err := trust.Files(v)
	for _, path := range paths {
		err = errors.Join(err, f.touched(v, path))
	}
	return err
}

// touched moves Changed to a file's last change.
func (f *Facts) touched(v host.View, path string) error {
	info, err := v.Stat(path)
	f.Changed = max(f.Changed, info.Modified)
	return err
}

func (f *Facts) readArchives(v host.View, r config.Runtime) error {
	for _, a := range r.Archives {
		why, err := host.ReadOnlyAt(v, a.Into)
		if err != nil {
			return err
		}
		if why != "" {
			if f.ReadOnly == nil {
				f.ReadOnly = map[string]string{}
			}
			f.ReadOnly[a.Into] = why
		}
		path := markerPath(a)
		t, err := host.ReadText(v, path)
		if err != nil {
			return err
		}
		m, err := archive.Decode(t.Content)
		if !t.Exists || err != nil || !strings.EqualFold(m.SHA256, a.SHA256) || m.Into != a.Into {
			continue // it is unpacked again
		}
		intact, err := unchanged(v, m)
		if err != nil {
			return err
		}
		if intact {
			f.Archives[a.URL] = m
			if err := f.touched(v, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func markerPath(a config.Archive) string { return archive.Path(strings.ToLower(a.SHA256), a.Into) }

// unchanged tells whether every file of a record is as it was left.
func unchanged(v host.View, m archive.Marker) (bool, error) {
	for _, want := range m.Files {
		info, err := v.Stat(want.Path)
		if err != nil {
			return false, err
		}
		same := info.Exists && info.Link == want.Link && !info.Dir
		if want.Link == "" {
			same = same && info.Size == want.Size && info.Modified == want.Modified
		}
		if !same {
			return false, nil
		}
	}
	return true, nil
}

// ask lets the runtime tell its version, or the program when it is silent.
func (f *Facts) ask(ctx context.Context, v host.View, r config.Runtime) error {
	answer, err := v.CRI(ctx, r.Socket)
	switch {
	case err == nil:
		f.CRI = &answer
		return nil
	case errors.Is(err, host.ErrUnobservable):
		return nil
	}
	f.Silent = err.Error()
	if f.Present.Binary == "" || !isContainerd(r) {
		return nil
	}
	if f.Version, err = v.Version(ctx, daemon(r)); err != nil {
		f.Version = "" // a broken program; the daemon's start will tell more
	}
	return nil
}
