package hosttest

import (
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// install does what the package manager does: dnf goes by excludes and tdnf
// doesn't; tdnf goes by locks and dnf doesn't know them.
func (w *World) install(c change.InstallPackages) error {
	if _, err := w.LookPath(c.Manager); err != nil {
		return fail.Wrap(fail.Step, err, "", "%s is not on this host", c.Manager)
	}
	if err := w.writable("/usr/bin"); err != nil {
		return err
	}
	for _, spec := range c.Packages {
		name, p, ok := w.find(spec)
		switch {
		case !ok:
			return fail.New(fail.Step, "", "no repository has %s", spec)
		case c.Manager == "dnf" && w.excluded(name, p, c.Unlock):
			return fail.New(fail.Step, "", "%s is excluded", spec)
		case c.Manager == "tdnf" && w.locked(name) && w.Packages[name] != "" && w.Packages[name] != p.Version:
			return fail.New(fail.Step, "", "%s is locked", name)
		}
		w.bring(name, p)
	}
	for _, spec := range c.Optional {
		if name, p, ok := w.find(spec); ok {
			w.bring(name, p)
		}
	}
	return nil
}

func (w *World) locked(name string) bool {
	return strings.TrimSpace(w.Files["/etc/tdnf/locks.d/"+name+".conf"].Content) == name
}

// excluded tells whether the excludes of a package's repository hide it.
func (w *World) excluded(name string, p Package, unlock []string) bool {
	if p.From == "" || slices.Contains(unlock, p.From) {
		return false
	}
	for line := range strings.Lines(w.Files["/etc/yum.repos.d/"+p.From+".repo"].Content) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "exclude="); ok && slices.Contains(strings.Fields(list), name) {
			return true
		}
	}
	return false
}

// find resolves a package spec: a name, a provided name, or name-version-*, in
// the repositories that are set up.
func (w *World) find(spec string) (string, Package, bool) {
	for name, p := range w.Repo {
		if p.From != "" && !strings.Contains(w.Files["/etc/yum.repos.d/"+p.From+".repo"].Content, "\nenabled=1\n") {
			continue
		}
		if name == spec || slices.Contains(p.Provides, spec) {
			return name, p, true
		}
		if v, ok := strings.CutPrefix(spec, name+"-"); ok {
			if match, _ := path.Match(v, p.Version); match || v == p.Version {
				return name, p, true
			}
		}
	}
	return "", Package{}, false
}

func (w *World) bring(name string, p Package) {
	w.Packages[name] = p.Version
	for f, content := range p.Files {
		if _, there := w.Files[f]; !there {
			w.Files[f] = content
		}
	}
	for _, u := range p.Units {
		if _, there := w.UnitStates[u]; !there {
			w.UnitStates[u] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled", FragmentPath: "/usr/lib/systemd/system/" + u}
		}
	}
}
