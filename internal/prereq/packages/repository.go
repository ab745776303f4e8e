package packages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/distro"
	"nodeagent/internal/prereq/pgpkey"
)

// render is the whole .repo file of one repository (dnf.conf(5)). Keys are
// named by their local copies, which every package manager can read, and which
// stay what was checked.
func render(r config.Repository, exclude []string) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s=%s\n", key, value) }
	fmt.Fprintf(&b, "# Kept by nodeagent (spec.packages.repositories).\n[%s]\n", r.ID)
	line("name", r.Name)
	line("baseurl", r.BaseURL)
	line("enabled", "1") // tdnf's default is 0
	line("gpgcheck", bit(*r.GPGCheck))
	line("repo_gpgcheck", bit(r.RepoGPG))
	if len(r.GPGKeys) > 0 {
		line("gpgkey", "file://"+keyPrefix+r.ID)
	}
	if len(exclude) > 0 {
		line("exclude", strings.Join(exclude, " "))
	}
	return b.String()
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// repositories plans .repo files and keys. A repository is asked for its
// metadata before its file is written (case O4).
func repositories(spec config.Spec, f Facts, hide bool) (p change.Plan) {
	for _, r := range spec.Packages.Repositories {
		exclude := excludes(spec, r, hide)
		for _, s := range f.Sections {
			if s.ID == r.ID && s.File != repoPath(r.ID) {
				p.Blocked = append(p.Blocked, fail.New(fail.Step, "remove it there, or leave it out of spec.packages.repositories",
					"repository %s is already defined in %s, and package managers take only one of the two", r.ID, s.File))
			}
		}
		if slices.Contains(f.Private, repoPath(r.ID)) {
			p.Blocked = append(p.Blocked, fail.New(fail.Safety, "leave it out of spec.packages.repositories and use it as it is, or give yours another id",
				"%s holds credentials of repository %s, which would be lost", repoPath(r.ID), r.ID))
			continue
		}
		if m := series.FindStringSubmatch(r.BaseURL); m != nil && m[1] != minorSeries(spec) {
			p.Warnings = append(p.Warnings, fmt.Sprintf("repository %s is of %s by its URL, and Kubernetes %s is asked for: it should be %s", r.ID, m[1], spec.Kubernetes.Version, minorSeries(spec)))
		}
		if !*r.GPGCheck {
			p.Warnings = append(p.Warnings, fmt.Sprintf("repository %s: signatures of its packages are not checked", r.ID))
		}
		file, changed := f.Files[repoPath(r.ID)].Write(repoPath(r.ID), "0644", "root:root", render(r, exclude), "set up repository "+r.ID)
		if url := expand(r.BaseURL, f); changed && !strings.Contains(url, "$") {
			p.Changes = append(p.Changes, change.ProbeRepository{Repository: r.ID, BaseURL: url})
		}
		if len(r.GPGKeys) > 0 && !keysThere(r, f) {
			p.Changes = append(p.Changes, importKeys(r))
		}
		if changed {
			p.Changes = append(p.Changes, file)
		}
	}
	return p
}

// series is the segment of a URL that has the release in the Kubernetes
// project's own layout, which mirrors keep: …/core:/stable:/v1.35/rpm/.
var series = regexp.MustCompile(`/core:/(?:stable|prerelease):/(v[^/]+)/`)

// minorSeries is v1.35 for v1.35.4: the repositories have one for each.
func minorSeries(spec config.Spec) string {
	n := numbers(strings.TrimPrefix(spec.Kubernetes.Version, "v"))
	return fmt.Sprintf("v%d.%d", n[0], n[1])
}

func importKeys(r config.Repository) change.ImportKeys {
	return change.ImportKeys{Repository: r.ID, Keys: r.GPGKeys, StoreAs: keyPrefix + r.ID}
}

// keysThere tells whether the stored copy holds keys from exactly the
// configured sources, and the RPM database has each of them.
func keysThere(r config.Repository, f Facts) bool {
	t := f.Files[keyPrefix+r.ID]
	if !t.Exists || t.Mode != "0644" || !slices.Equal(pgpkey.Sources(t.Content), unique(r.GPGKeys)) {
		return false
	}
	keys, err := pgpkey.Parse([]byte(t.Content))
	if err != nil {
		return false
	}
	for _, k := range keys {
		imported := slices.ContainsFunc(k.Provides(), func(name string) bool { _, ok := f.Installed[name]; return ok })
		if !imported && f.Installed != nil {
			return false
		}
	}
	return true
}

// excludes are those of one configured repository. When they have to lock the
// Kubernetes packages, the list of the repository that hides them anyway is
// completed; if none does, each gets them, since nobody said which has them.
func excludes(spec config.Spec, r config.Repository, hide bool) []string {
	known := slices.ContainsFunc(spec.Packages.Repositories, func(r config.Repository) bool { return isKubernetesRepository(Section{Exclude: r.Exclude}) })
	if !hide || known && !isKubernetesRepository(Section{Exclude: r.Exclude}) {
		return r.Exclude
	}
	return hideKubernetes(r.Exclude)
}

// hideKubernetes adds the Kubernetes packages to a list of excludes that
// doesn't hide them yet.
func hideKubernetes(exclude []string) []string {
	out := slices.Clone(exclude)
	for _, name := range kubernetes {
		if !(Section{Exclude: out}).hides(name) {
			out = append(out, name)
		}
	}
	return out
}

var variable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// expand fills in the variables of dnf.conf(5) that a host's own facts tell;
// others stay.
func expand(url string, f Facts) string {
	return variable.ReplaceAllStringFunc(url, func(s string) string {
		value := ""
		switch m := variable.FindStringSubmatch(s); m[1] + m[2] {
		case "basearch", "arch":
			value = f.Arch
		case "releasever":
			value = releasever(f.Evidence)
		}
		if value == "" {
			return s
		}
		return value
	})
}

// releasever is the major version on Enterprise Linux and the whole one on
// Photon.
func releasever(e distro.Evidence) string {
	switch distro.Classify(e).Family {
	case distro.EL:
		if e.Release.ID == "centos" { // CentOS Stream: 9-stream
			return ""
		}
		if n := e.Release.Major(); n > 0 {
			return fmt.Sprint(n)
		}
	case distro.Photon:
		return e.Release.VersionID
	}
	return ""
}

// unlocked lists the repositories whose excludes hide what is to be installed:
// ours, and those that are recognised as the Kubernetes repository, "main" for
// dnf.conf. Excludes with another purpose (kubelet kept out of a
// distribution's own repository) stay in force.
func unlocked(spec config.Spec, f Facts, names []string, hide bool) []string {
	var out []string
	hides := func(s Section) bool { return slices.ContainsFunc(names, s.hides) }
	for _, r := range spec.Packages.Repositories {
		if hides(Section{Exclude: excludes(spec, r, hide)}) {
			out = append(out, r.ID)
		}
	}
	for _, s := range f.Sections {
		if s.Enabled && !slices.Contains(out, s.ID) && isKubernetesRepository(s) && hides(s) {
			out = append(out, s.ID)
		}
	}
	return out
}
