package runtime

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/kubelet/release"
	"nodeagent/internal/prereq/archive"
)

// Plan brings the runtime to where the CRI socket answers, as the
// configuration says.
func Plan(spec config.Spec, f Facts) change.Plan {
	r := spec.Runtime
	var p change.Plan
	source := Source(r, f.Present)
	p.Blocked = append(p.Blocked, refusals(spec, f, source)...)
	var archives []change.Change
	if source == FromArchive {
		archives = planArchives(r, f)
		if waits(spec, f, archives) {
			p.Changes = append(p.Changes, change.WaitRoute{Family: spec.Network.DefaultRoute.Family, Timeout: spec.Network.DefaultRoute.Timeout.Duration})
		}
		p.Changes = append(p.Changes, archives...)
		if !f.Present.Runc && !bringsRunc(r.Archives) {
			p.Warnings = append(p.Warnings, "there is no runc on this host, and no archive brings it: containers can't start (add an archive of runc with into: /usr/local/sbin/runc)")
		}
	}
	beside(spec, f, archives, &p)
	unit, writesUnit := planUnit(r, f, source)
	if writesUnit {
		p.Changes = append(p.Changes, unit)
	}
	configured := false
	if isContainerd(r) {
		c, ok, err := planConfig(r, f, len(archives) > 0)
		if err != nil {
			p.Blocked = append(p.Blocked, err)
		}
		if ok {
			p.Changes = append(p.Changes, c)
			configured = true
		}
		p.Changes = append(p.Changes, planHosts(r, f)...)
	}
	replaced := len(archives) > 0 || writesUnit
	proxied := planProxy(spec, f, foreign(f) && !replaced && !configured, &p)
	set, warning := planService(r, f, replaced, configured || proxied)
	if warning != "" {
		p.Warnings = append(p.Warnings, warning)
	}
	set.Reload = set.Reload || writesUnit || proxied
	if set.Reload || set.Enable || set.Start || set.Restart {
		p.Changes = append(p.Changes, set)
	}
	return p
}

// beside says what services of others mean for the runtime.
func beside(spec config.Spec, f Facts, archives []change.Change, p *change.Plan) {
	if slices.Contains(f.Beside, "fapolicyd.service") && len(archives) > 0 {
		var dirs []string
		for _, a := range spec.Runtime.Archives {
			if !slices.Contains(dirs, a.Into) {
				dirs = append(dirs, a.Into)
			}
		}
		p.Warnings = append(p.Warnings, "fapolicyd runs and lets only programs of packages start: trust what the archives bring (fapolicyd-cli --file add "+strings.Join(dirs, " && fapolicyd-cli --file add ")+
			" && fapolicyd-cli --update), or take the runtime from a package")
	}
	if slices.Contains(f.Beside, "docker.service") && isContainerd(spec.Runtime) {
		p.Notes = append(p.Notes, "Docker runs here and shares containerd; kubelet doesn't use Docker, and Docker's containers aren't pods")
	}
	minor, _ := release.Minor(spec.Kubernetes.Version)
	version := f.Version
	if f.CRI != nil && f.CRI.Name == "containerd" {
		version = f.CRI.Version
	}
	version = strings.TrimPrefix(version, "v")
	if source := Source(spec.Runtime, f.Present); minor >= 35 && strings.HasPrefix(version, "1.") && len(archives) == 0 && source != FromArchive {
		where := "install a newer one (spec.runtime)"
		if source == Preinstalled {
			where = "it belongs to the image, or to another spec.runtime.source"
		}
		p.Warnings = append(p.Warnings, "containerd here is "+version+": Kubernetes "+spec.Kubernetes.Version+" wants 2.0 or later and 1.38 will refuse it; "+where)
	}
}

// refusals are what no change of this step can mend.
func refusals(spec config.Spec, f Facts, source string) []error {
	r := spec.Runtime
	var out []error
	if !isContainerd(r) && (r.SandboxImage != "" || len(r.Mirrors) > 0) {
		out = append(out, fail.New(fail.Usage, "set them in CRI-O's own configuration", "spec.runtime.sandboxImage and mirrors are for containerd, and the socket is %s", r.Socket))
	}
	brings := slices.ContainsFunc(spec.Packages.Install, func(s string) bool { return strings.HasPrefix(s, daemon(r)) || strings.HasPrefix(s, "cri-o") })
	if source == Preinstalled && f.Present.Binary == "" && !f.Present.Socket && !brings {
		out = append(out, fail.New(fail.Usage, "set spec.runtime.source to package or archive, or install it", "spec.runtime.source is preinstalled, but there is no %s on this host and nothing at %s", daemon(r), SocketPath(r)))
	}
	if source == Preinstalled && isContainerd(r) && f.Present.Binary != "" && !f.Present.Runc && !bringsRunc(r.Archives) && !ownRuntime(spec, f) {
		out = append(out, fail.New(fail.Step, "install runc (spec.packages.install, or an archive with into: /usr/local/sbin/runc), or use an image that has it",
			"containerd is on this host, but runc isn't: the node would become Ready and could start no container"))
	}
	for _, a := range r.Archives {
		if _, done := f.Archives[a.URL]; !done && source == FromArchive && f.ReadOnly[a.Into] != "" {
			out = append(out, fail.New(fail.Step, "unpack it below /opt or /var where that can be written, or put the runtime into the image and set spec.runtime.source: preinstalled",
				"%s can't be unpacked into %s: %s", a.URL, a.Into, f.ReadOnly[a.Into]))
		}
	}
	if f.Unit.LoadState == "masked" {
		out = append(out, fail.New(fail.Safety, "systemctl unmask "+Unit(r)+", if it shall run", "%s is masked: somebody decided that it must not run", Unit(r)))
	}
	return out
}

// ownRuntime tells whether something else than a runc in the PATH starts the
// containers, or brings it.
func ownRuntime(spec config.Spec, f Facts) bool {
	return strings.Contains(f.Config.Content, "BinaryName") || strings.Contains(f.Config.Content, "default_runtime_name") ||
		slices.ContainsFunc(spec.Packages.Install, func(s string) bool { return strings.HasPrefix(s, "runc") || strings.HasPrefix(s, "crun") })
}

func planArchives(r config.Runtime, f Facts) []change.Change {
	var out []change.Change
	var relabel []string
	for _, a := range r.Archives {
		if _, done := f.Archives[a.URL]; done {
			continue
		}
		limit := int64(archive.MaxDownload)
		if n, err := config.ParseSize(a.MaxSize); err == nil {
			limit = n
		}
		out = append(out, change.InstallArchive{URL: a.URL, SHA256: strings.ToLower(a.SHA256), Into: a.Into, Marker: markerPath(a), MaxSize: limit})
		relabel = append(relabel, labelled(a))
	}
	if f.SELinux == "" || f.SELinux == "disabled" {
		return out
	}
	slices.Sort(relabel)
	for _, p := range slices.Compact(relabel) { // programs without bin_t or their own type can't be started by systemd
		out = append(out, change.Relabel{Path: p})
	}
	return out
}

// labelled is the path below which an archive's programs get their SELinux
// types.
func labelled(a config.Archive) string {
	if a.Into == "/" {
		return "/usr/local"
	}
	return a.Into
}

func bringsRunc(archives []config.Archive) bool {
	return slices.ContainsFunc(archives, func(a config.Archive) bool {
		name := path.Base(a.URL)
		return strings.Contains(name, "runc") || strings.Contains(name, "crun") || path.Base(a.Into) == "runc" || strings.Contains(name, "nerdctl-full") || strings.HasPrefix(name, "cri-containerd")
	})
}

func waits(spec config.Spec, f Facts, changes []change.Change) bool {
	family := spec.Network.DefaultRoute.Family
	if family == "none" || family == "any" && len(f.Routes) > 0 || slices.Contains(f.Routes, family) {
		return false
	}
	return slices.ContainsFunc(changes, func(c change.Change) bool {
		a, ok := c.(change.InstallArchive)
		return ok && !strings.HasPrefix(a.URL, "file:")
	})
}

// planUnit writes the service for containerd from archives. A unit that is
// there and starts that program stays as it is, whoever wrote it.
func planUnit(r config.Runtime, f Facts, source string) (change.WriteFile, bool) {
	if source != FromArchive || !isContainerd(r) {
		return change.WriteFile{}, false
	}
	program := programPath(r.Archives, f.Archives)
	if f.UnitFile.Exists && starts(f.UnitFile.Content, program) {
		return change.WriteFile{}, false
	}
	for _, m := range f.Archives {
		for _, file := range m.Files {
			if file.Path == f.Unit.FragmentPath { // the archive brought it
				return change.WriteFile{}, false
			}
		}
	}
	return f.UnitFile.Write(unitPath, "0644", "root:root", unitFile(program), "write "+unitPath+" for "+program)
}

func planConfig(r config.Runtime, f Facts, unpacking bool) (change.WriteFile, bool, error) {
	schema := int64(2) // which every containerd reads
	if v := daemonVersion(r, f, unpacking); major(v) >= 2 {
		schema = 3
	}
	text := f.Config.Content
	if !f.Config.Exists {
		text = fresh(schema)
	}
	edited, changed, err := edit(text, settings{socket: SocketPath(r), sandboxImage: r.SandboxImage, mirrors: len(r.Mirrors) > 0}, schema)
	if err != nil {
		return change.WriteFile{}, false, fail.Wrap(fail.Step, err, "mend the file, or move it away to have a new one written", "%s can't be edited", configPath)
	}
	if !changed && f.Config.Exists {
		return change.WriteFile{}, false, nil
	}
	c, ok := f.Config.Keep(configPath, edited, "configure containerd in "+configPath)
	c.Secret = f.Config.secret()
	return c, ok, nil
}

// daemonVersion is the version of the containerd that will read the
// configuration; empty when it isn't known yet.
func daemonVersion(r config.Runtime, f Facts, unpacking bool) string {
	if unpacking {
		return versionOf(r.Archives)
	}
	if f.CRI != nil && f.CRI.Name == "containerd" {
		return f.CRI.Version
	}
	return f.Version
}

func major(version string) int {
	s, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(s)
	return n
}

func planHosts(r config.Runtime, f Facts) []change.Change {
	var out []change.Change
	dir := hostsDir(f.Config.Content)
	for _, m := range r.Mirrors {
		p := hostsPath(dir, m.Registry)
		if c, ok := f.Hosts[p].Write(p, "0644", "root:root", hostsFile(m), "mirrors of "+m.Registry); ok {
			out = append(out, c)
		}
	}
	return out
}

// foreign tells whether something answers that isn't the runtime's own unit.
func foreign(f Facts) bool { return f.CRI != nil && f.Unit.LoadState == "not-found" }

// planService enables and starts the runtime. A daemon that is older than what
// it should have read is restarted, so that a run cut off between writing and
// restarting is finished by the next one.
func planService(r config.Runtime, f Facts, replaced, configured bool) (change.SetUnit, string) {
	set := change.SetUnit{Unit: Unit(r), Socket: r.Socket, Reload: f.Unit.NeedsReload}
	answers := f.CRI != nil
	if foreign(f) && !replaced && !configured {
		return change.SetUnit{}, "something other than " + Unit(r) + " runs the runtime at " + r.Socket + "; whether it comes back after a reboot is its own affair"
	}
	set.Enable = slices.Contains([]string{"", "disabled", "enabled-runtime", "linked", "bad"}, f.Unit.UnitFileState)
	switch {
	case f.Unit.ActiveState != "active":
		set.Start = true
	case configured:
		set.Restart, set.Why = true, "its configuration changes"
	case replaced:
		set.Restart, set.Why = true, "its program or unit changes"
	case stale(f):
		set.Restart, set.Why = true, "it runs with an older configuration or program"
	case !answers && f.Silent != "":
		set.Restart, set.Why = true, f.Silent
	}
	return set, ""
}

// stale tells whether the daemon started before the last change. A change from
// the future is the clock's fault, and no restart would get past it.
func stale(f Facts) bool {
	return f.Unit.StartedAt > 0 && f.Unit.StartedAt < f.Changed && (f.Now == 0 || f.Changed <= f.Now)
}
