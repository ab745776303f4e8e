package packages

import (
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/distro"
	"nodeagent/internal/prereq/rpmspec"
)

// Plan brings repositories, keys, packages and the version lock to what the
// configuration says.
func Plan(spec config.Spec, f Facts) change.Plan {
	m, err := resolve(spec, f)
	if err != nil {
		return change.Plan{Blocked: []error{err}}
	}
	var p change.Plan
	if w := distro.Classify(f.Evidence).Warning; w != "" {
		p.Warnings = append(p.Warnings, w)
	}
	if m.name == none {
		return planImage(spec, f, p)
	}
	if m.name == "dnf" && !f.DNF || m.name == "tdnf" && !f.TDNF {
		p.Blocked = append(p.Blocked, fail.New(fail.Usage, "set packages.manager to what this host has, or to none", "the package manager is %s, but this host has no such program", m.name))
	}
	p.Blocked = append(p.Blocked, versions(spec, f, m)...)
	w := wanted(spec, f, m)
	for _, s := range spec.Packages.Install {
		if len(rpmspec.Candidates(s)) == 0 {
			p.Blocked = append(p.Blocked, fail.New(fail.Usage, "name each package; only the version may have wildcards", "spec.packages.install: whether %s is installed can't be told", s))
		}
	}
	installing := missing(w.required, f.Installed)
	if f.Installed == nil && len(installing) > 0 {
		p.Warnings = append(p.Warnings, "what is installed can't be told here, so every package that is needed is listed; those that are there already stay as they are")
	}
	lock := m.lock(spec, f, installing)
	p.Warnings = append(p.Warnings, lock.warnings...)
	repos := repositories(spec, f, lock.exclude)
	p.Warnings = append(p.Warnings, repos.Warnings...)
	p.Blocked = append(p.Blocked, repos.Blocked...)
	if waits(spec, f, repos.Changes, len(installing) > 0 || f.CutOff != 0) {
		p.Changes = append(p.Changes, change.WaitRoute{Family: spec.Network.DefaultRoute.Family, Timeout: spec.Network.DefaultRoute.Timeout.Duration})
	}
	p.Changes = append(p.Changes, repos.Changes...)
	p.Changes = append(p.Changes, lock.before...)
	switch {
	case len(installing) > 0:
		if !fetchable(spec, f) {
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "name the repositories in spec.packages.repositories, or install them beforehand",
				"%s must be installed, but this host has no enabled package repository", strings.Join(installing, ", ")))
		}
		p.Changes = append(p.Changes, install(spec, f, m, w, installing, append(w.optional, lock.optional...), lock.exclude))
	case f.CutOff != 0: // everything was there already when the run was cut off
		p.Changes = append(p.Changes, install(spec, f, m, w, nil, nil, lock.exclude))
	}
	p.Changes = append(p.Changes, lock.after...)
	return p
}

// install is the one transaction. After one that was cut off, any package that
// is wanted may turn out to be damaged and is then fetched again, so their
// repositories must show them all.
func install(spec config.Spec, f Facts, m manager, w want, required, optional []string, hide bool) change.InstallPackages {
	optional = missing(optional, f.Installed)
	c := change.InstallPackages{Manager: m.name, Packages: required, Optional: optional, CutOff: f.CutOff}
	fetched := slices.Concat(required, optional)
	if f.CutOff != 0 {
		fetched = append(fetched, slices.Concat(w.required, w.optional)...)
	}
	// What these require is hidden by the documented exclude line, too.
	names := []string{"kubernetes-cni", "cri-tools"}
	for _, s := range fetched {
		names = append(names, rpmspec.Name(s))
	}
	c.Unlock = unlocked(spec, f, names, hide)
	if len(required) > 0 {
		c.Remove = spec.Packages.Remove
	}
	for _, r := range spec.Packages.Repositories {
		if len(r.GPGKeys) > 0 {
			c.Keys = append(c.Keys, importKeys(r))
		}
	}
	return c
}

// versions refuses what an installation can't mend: a kubelet that is newer
// than asked for, and any other version on a node that has joined.
func versions(spec config.Spec, f Facts, m manager) []error {
	asked := strings.TrimPrefix(spec.Kubernetes.Version, "v")
	var out []error
	for _, name := range kubernetes {
		if have := strings.Fields(f.Installed[name]); len(have) > 1 {
			out = append(out, fail.New(fail.Step, "see which one is whole (rpm -V "+name+"), and remove the other from the database: rpm --erase --justdb "+name+"-VERSION",
				"%s is in the package database %d times (%s): an upgrade of it was cut off", name, len(have), strings.Join(have, ", ")))
		}
	}
	for _, name := range []string{"kubelet", "kubeadm"} {
		have, ok := f.Installed[name]
		if !ok || strings.Contains(have, " ") || rpmspec.Satisfied(name+"-"+asked+"-*", f.Installed) {
			continue
		}
		switch {
		case f.Joined:
			out = append(out, fail.New(fail.Safety,
				"set spec.kubernetes.version to what the node runs; to upgrade it, drain it and follow kubeadm's upgrade of worker nodes",
				"%s %s is installed and this host is a node of a cluster already; its version is not changed to %s on the fly", name, have, asked))
		case older(asked, have):
			out = append(out, fail.New(fail.Safety,
				m.downgrade+" "+name+"-"+asked+"-*, if that is meant, or set spec.kubernetes.version",
				"%s %s is installed, which is newer than %s; packages are not downgraded", name, have, asked))
		}
	}
	return out
}

// waits tells whether something must be fetched over a network that isn't up
// yet.
func waits(spec config.Spec, f Facts, changes []change.Change, installing bool) bool {
	family := spec.Network.DefaultRoute.Family
	if family == none || family == "any" && len(f.Routes) > 0 || slices.Contains(f.Routes, family) {
		return false
	}
	remote := installing && slices.ContainsFunc(f.Sections, func(s Section) bool { return s.Enabled && !s.Local && s.File != dnfConf })
	for _, r := range spec.Packages.Repositories {
		remote = remote || installing && isRemote(r.BaseURL)
	}
	for _, c := range changes {
		switch c := c.(type) {
		case change.ProbeRepository:
			remote = remote || isRemote(c.BaseURL)
		case change.ImportKeys:
			remote = remote || slices.ContainsFunc(c.Keys, isRemote)
		}
	}
	return remote
}

func isRemote(source string) bool {
	return !strings.HasPrefix(source, "/") && !strings.HasPrefix(source, "file:")
}

// fetchable tells whether packages can come from anywhere.
func fetchable(spec config.Spec, f Facts) bool {
	return len(spec.Packages.Repositories) > 0 || slices.ContainsFunc(f.Sections, func(s Section) bool { return s.Enabled && s.File != dnfConf })
}

// planImage checks a host whose packages belong to its image: nothing is
// installed, and what the configuration asks for must be there.
func planImage(spec config.Spec, f Facts, p change.Plan) change.Plan {
	why := "packages.manager is none"
	if spec.Packages.Manager != none {
		why = distro.Classify(f.Evidence).Why + ", so its packages belong to its image"
	}
	block := func(hint, format string, a ...any) {
		p.Blocked = append(p.Blocked, fail.New(fail.Usage, hint, format, a...))
	}
	if len(spec.Packages.Repositories) > 0 {
		block("build the image with these packages, and leave spec.packages.repositories out", "repositories can't be set up on this host: %s", why)
	}
	if len(spec.Packages.Install) > 0 && spec.Packages.Manager != none { // the configuration is refused otherwise
		block("build the image with them, and leave spec.packages.install out", "%s can't be installed on this host: %s", strings.Join(spec.Packages.Install, ", "), why)
	}
	asked := strings.TrimPrefix(spec.Kubernetes.Version, "v")
	for _, name := range []string{"kubelet", "kubeadm"} {
		have, ok := f.Versions[name]
		switch {
		case !ok:
			block("use an image that has Kubernetes "+asked+", or set packages.manager", "%s is not on this host, and nothing can be installed: %s", name, why)
		case have != "" && numbers(have) != numbers(asked):
			block("set spec.kubernetes.version to v"+have+", or use an image of "+asked, "%s of this host is %s, not %s, and nothing can be installed: %s", name, have, asked, why)
		}
	}
	return p
}
