package reset

import (
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/firewall/iptables"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/pgpkey"
	"nodeagent/internal/prereq/rpmspec"
	"nodeagent/internal/prereq/swap/area"
)

func (p *planner) undoHostname(d Deed, c change.SetHostname) verdict {
	was, prior, _ := first[change.SetHostname](d)
	const file = "/etc/hostname"
	now, wanted := of(p.f.files[file].now), version(nil)
	if prior.File != nil {
		wanted = of(*prior.File)
	}
	set := &change.Saved{Mode: "0644", Owner: "root:root", Content: was.Before + "\n"}
	var v verdict
	switch p.f.Hostname {
	case was.Before:
		if !same(now, set) {
			return verdict{}
		}
	case c.Name:
		v.add(1, change.SetHostname{Name: was.Before, Before: c.Name})
	default:
		return verdict{left: []string{"the host name was changed since: left as it is"}, stands: true}
	}
	switch {
	case same(wanted, set):
	case wanted == nil: // the name came from the network
		v.add(1, change.RemoveFile{Path: file})
	default:
		v.add(1, change.WriteFile{Path: file, Mode: wanted.Mode, Owner: wanted.Owner, Content: wanted.Content, What: "put back " + file + " as it was"})
	}
	return v
}

func (p *planner) undoKeys(d Deed, c change.ImportKeys) verdict {
	_, prior, _ := first[change.ImportKeys](d)
	f := p.f.files[c.StoreAs]
	before := version(nil)
	if prior.File != nil {
		before = of(*prior.File)
	}
	now := of(f.now)
	var v verdict
	switch {
	case same(now, before):
		if now == nil && len(f.empty) > 0 {
			v.add(1, change.RemoveFile{Path: c.StoreAs, Dirs: f.empty, What: "remove the empty directory of " + c.StoreAs})
		}
		return v
	case now == nil || !slices.Equal(pgpkey.Sources(now.Content), unlikeInOrder(c.Keys)):
		return verdict{left: []string{c.StoreAs + " was changed since: it and its keys are left as they are"}, stands: true}
	}
	old := strings.Fields(prior.Installed[pubkeys])
	var drop []string
	keys, _ := pgpkey.Parse([]byte(now.Content)) // it was parsed before it was written
	for _, k := range keys {
		for _, name := range k.Provides() {
			for _, have := range strings.Fields(p.f.Installed[name]) {
				if !slices.Contains(old, have) && !slices.Contains(drop, have) {
					drop = append(drop, have)
				}
			}
		}
	}
	if len(drop) > 0 { // first: the file tells which they are
		v.add(1, change.RemoveKeys{Repository: c.Repository, Keys: drop})
	}
	if before == nil {
		v.add(1, change.RemoveFile{Path: c.StoreAs, Before: now, Dirs: f.empty})
	} else {
		v.add(1, change.WriteFile{Path: c.StoreAs, Mode: before.Mode, Owner: before.Owner, Content: before.Content, Before: now, What: "put back " + c.StoreAs + " as it was"})
	}
	return v
}

// unlikeInOrder leaves out what comes a second time.
func unlikeInOrder(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// installedByUs are the packages that a deed installed and that are installed
// now, and those that had to go for them.
func installedByUs(d Deed, installed map[string]string) (ours, erased []string) {
	for _, r := range d.Records {
		c, ok := r.Change.(change.InstallPackages)
		if !ok {
			continue
		}
		for _, spec := range slices.Concat(c.Packages, c.Optional) {
			name := rpmspec.Name(spec)
			if r.Prior.Installed[name] == "" && installed[name] != "" {
				ours = append(ours, name)
			}
		}
		for _, name := range c.Remove {
			if r.Prior.Installed[name] != "" && installed[name] == "" {
				erased = append(erased, name)
			}
		}
	}
	return unlike(ours), unlike(erased)
}

func (p *planner) undoPackages(d Deed) verdict {
	ours, erased := installedByUs(d, p.f.Installed)
	var v verdict
	if len(erased) > 0 {
		v = gone("%s had to go for others to be installed, and is not installed again", strings.Join(erased, ", "))
	}
	keep := func(names []string, why string) {
		v.left, v.stands = append(v.left, "kept: "+strings.Join(names, ", ")+", which nodeagent installed; "+why), true
	}
	switch {
	case len(ours) == 0:
		return v
	case !p.f.Options.RemovePackages:
		keep(ours, "--remove-packages removes what nobody else needs of it")
		return v
	case p.f.Manager == "":
		keep(ours, "the package manager is gone")
		return v
	}
	var going []string
	for _, name := range ours {
		if by := p.f.Needed[name]; by != "" {
			keep([]string{name}, by+" needs it")
		} else {
			going = append(going, name)
		}
	}
	if len(going) > 0 {
		v.add(1, change.RemovePackages{Manager: p.f.Manager, Packages: going})
	}
	return v
}

func (p *planner) undoArchive(c change.InstallArchive) verdict {
	m, ok := p.f.Archives[c.Marker]
	if !ok {
		return verdict{}
	}
	if !p.f.Options.RemovePackages {
		return kept("kept: what was unpacked from %s into %s; --remove-packages removes it", c.URL, c.Into)
	}
	var v verdict
	v.add(1, change.RemoveArchive{URL: c.URL, Marker: c.Marker, Files: len(m.Files)})
	return v
}

func (p *planner) undoSysctl(d Deed, c change.SetSysctl) verdict {
	was, prior, _ := first[change.SetSysctl](d)
	before := prior.Value
	if before == "" {
		before = was.Before
	}
	now, before := p.f.Sysctls[c.Key], host.SysctlValue(before)
	switch now {
	case "", before:
		return verdict{}
	case host.SysctlValue(c.Value):
	default:
		return verdict{left: []string{"sysctl " + c.Key + " was changed since: left at " + now}, stands: true}
	}
	if before == "" {
		return gone("sysctl %s stays at %s: it did not exist before", c.Key, now)
	}
	var v verdict
	v.add(1, change.SetSysctl{Key: c.Key, Value: before, Before: now})
	return v
}

// swapOn plans an area to be used again, once what configures it is back.
func (p *planner) swapOn(path, unit string) verdict {
	if path == "" || slices.ContainsFunc(p.f.Areas, func(a area.Area) bool { return a.Path == path }) {
		return verdict{}
	}
	if !p.f.areaThere[path] {
		return gone("swap %s stays off: it isn't there any more", path)
	}
	var v verdict
	v.add(3, change.SwapOn{Area: path, Unit: unit})
	return v
}

func (p *planner) undoMask(d Deed, unit string) verdict {
	_, prior, _ := first[change.MaskUnit](d)
	before, now := prior.Units[unit], p.f.Units[unit]
	if before.LoadState == "masked" {
		return verdict{}
	}
	var v verdict
	if now.LoadState == "masked" {
		v.add(1, change.UnmaskUnit{Unit: unit})
	}
	if before.ActiveState == "active" && now.ActiveState != "active" {
		v.acts = append(v.acts, p.swapOn(before.What, unit).acts...)
	}
	return v
}

// undoUnit brings a unit back to whether it ran and whether it starts at boot.
// What somebody has changed of that since is as it should be for them.
func (p *planner) undoUnit(d Deed, unit string) verdict {
	var did change.SetUnit
	for _, r := range d.Records {
		if c, ok := r.Change.(change.SetUnit); ok {
			did.Enable, did.Start = did.Enable || c.Enable, did.Start || c.Start || c.Restart
			did.Restart, did.Disable = did.Restart || c.Restart, did.Disable || c.Disable
		}
	}
	_, prior, _ := first[change.SetUnit](d)
	before, now := prior.Units[unit], p.f.Units[unit]
	if now.LoadState != "loaded" {
		return verdict{}
	}
	enabled := func(u host.Unit) bool { return strings.HasPrefix(u.UnitFileState, "enabled") }
	ran := before.ActiveState == "active" || before.ActiveState == "activating"
	runs := now.ActiveState == "active" || now.ActiveState == "activating"
	var v verdict
	stop := did.Start && !ran && runs
	switch {
	case did.Enable && !enabled(before) && enabled(now) && ran:
		v.add(0, change.SetUnit{Unit: unit, OffBoot: true, Why: "as it was"})
	case did.Enable && !enabled(before) && enabled(now):
		v.add(0, change.SetUnit{Unit: unit, Disable: true, Why: "as it was"})
	case stop:
		v.add(0, change.SetUnit{Unit: unit, Stop: true, Why: "it did not run"})
	}
	swap := strings.HasSuffix(unit, ".swap")
	if did.Disable && enabled(before) && !enabled(now) {
		v.add(1, change.SetUnit{Unit: unit, Enable: true, Why: "as it was"})
	}
	switch {
	case did.Disable && ran && !runs && swap:
		v.acts = append(v.acts, p.swapOn(before.What, unit).acts...)
	case did.Disable && ran && !runs:
		v.add(3, change.SetUnit{Unit: unit, Start: true, Why: "it ran"})
	case did.Restart && ran && runs:
		v.restart = change.SetUnit{Unit: unit, Restart: true, Why: "its configuration is as it was"}
		v.older = now.StartedAt < p.f.Modified
	}
	return v
}

// undoRules deletes the live rules of iptables that are still there.
func (p *planner) undoRules(c change.AllowPorts) verdict {
	t, err := iptables.Filter(p.f.IPTables.Filter[c.Family])
	if err != nil || c.Backend != "iptables-"+p.f.IPTables.Variant {
		return verdict{left: []string{"the live rules for " + c.Family + " are left: they can't be read as they were"}, stands: true}
	}
	rules := iptables.Present(t, unlikeInOrder(c.Rules))
	if len(rules) == 0 {
		return verdict{}
	}
	var v verdict
	v.add(1, change.ClosePorts{Backend: c.Backend, Family: c.Family, Rules: rules})
	return v
}
