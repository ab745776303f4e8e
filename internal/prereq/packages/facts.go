// Package packages plans repositories, signing keys, packages and the version
// lock of the Kubernetes packages. It observes and plans; it writes nothing.
package packages

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/distro"
	"nodeagent/internal/prereq/pgpkey"
	"nodeagent/internal/prereq/rpmspec"
	"nodeagent/internal/prereq/runtime"
	"nodeagent/internal/run/journal"
)

// Facts are what the step knows about a host.
type Facts struct {
	Evidence distro.Evidence `json:"evidence"`
	Arch     string          `json:"arch"`
	Kernel   string          `json:"kernel"`
	SELinux  string          `json:"selinux,omitempty"`
	DNF      bool            `json:"dnf"`  // the program is there
	TDNF     bool            `json:"tdnf"` // the program is there
	Joined   bool            `json:"joined"`
	// CutOff is when the first package transaction began, in seconds since the
	// epoch, of which the journal doesn't know that it ended well; 0: none.
	CutOff int64 `json:"cutOff,omitempty"`
	// Installed is version-release by name, also of names that other packages
	// provide; nil when the RPM database can't be asked.
	Installed map[string]string    `json:"installed,omitempty"`
	Sections  []Section            `json:"sections,omitempty"` // of all .repo files and dnf.conf
	Files     map[string]host.Text `json:"files,omitempty"`    // those that the step keeps
	// Private are .repo files with credentials; their content isn't taken along.
	Private []string        `json:"private,omitempty"`
	Plugin  VersionLock     `json:"versionLock"`
	Runtime runtime.Present `json:"runtime"`
	// Bridge tells whether the running kernel has the module br_netfilter on
	// disk or built in.
	Bridge bool `json:"bridge"`
	// Routes are the families that have a default route.
	Routes []string `json:"routes,omitempty"`
	// Versions of kubelet and kubeadm by their own word; only asked when no
	// package manager is used.
	Versions map[string]string `json:"versions,omitempty"`
}

// VersionLock is dnf's versionlock plugin.
type VersionLock struct {
	Enabled bool   `json:"enabled"`
	List    string `json:"list,omitempty"` // the file with the locks
}

// Observe reads what the step needs. It starts at most one rpm; kubelet and
// kubeadm are asked for their versions only when packages aren't managed.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Files: map[string]host.Text{}}
	for _, read := range []func(host.View, config.Spec) error{f.readHost, f.readRepositories, f.readLocks, f.readRoutes, f.readJournal} {
		if err := read(v, spec); err != nil {
			return f, err
		}
	}
	var err error
	if f.Runtime, err = runtime.Look(v, spec.Runtime); err != nil {
		return f, err
	}
	m, _ := resolve(spec, f)
	if m.name == none {
		return f, f.askVersions(ctx, v)
	}
	return f, f.askDatabase(ctx, v, spec, m)
}

func (f *Facts) readHost(v host.View, _ config.Spec) error {
	var err error
	if f.Evidence.Release, err = distro.Read(v); err != nil {
		return err
	}
	for program, found := range map[string]*bool{"dnf": &f.DNF, "tdnf": &f.TDNF, "transactional-update": &f.Evidence.TransactionalUpdate} {
		_, err := v.LookPath(program)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		*found = err == nil
	}
	for p, found := range map[string]*bool{"/run/ostree-booted": &f.Evidence.OSTree, "/etc/kubernetes/kubelet.conf": &f.Joined} {
		info, err := v.Stat(p)
		if err != nil {
			return err
		}
		*found = info.Exists
	}
	if v.Live() { // a tree of files lies on the filesystem of whoever looks at it
		usr, err := v.Filesystem("/usr")
		if err != nil {
			return err
		}
		f.Evidence.ReadOnlyUsr = usr.ReadOnly && !usr.Sandboxed
	}
	s, err := v.System()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return err
	}
	f.Arch, f.Kernel, f.SELinux = s.Arch, s.Kernel, s.SELinux
	return f.readModules(v)
}

// readModules looks for br_netfilter in depmod's lists.
func (f *Facts) readModules(v host.View) error {
	if f.Kernel == "" {
		return nil
	}
	for _, name := range []string{"modules.dep", "modules.builtin"} {
		t, err := host.ReadText(v, "/lib/modules/"+f.Kernel+"/"+name)
		if err != nil {
			return err
		}
		f.Bridge = f.Bridge || strings.Contains(t.Content, "/br_netfilter.ko")
	}
	return nil
}

// Where repositories and their keys are kept.
const (
	repoDirectory = "/etc/yum.repos.d"
	keyPrefix     = "/etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-"
	dnfConf       = "/etc/dnf/dnf.conf"
)

func repoPath(id string) string { return path.Join(repoDirectory, id+".repo") }

func (f *Facts) readRepositories(v host.View, spec config.Spec) error {
	names, err := v.ReadDir(repoDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files := []string{dnfConf}
	for _, n := range names {
		if strings.HasSuffix(n, ".repo") {
			files = append(files, path.Join(repoDirectory, n))
		}
	}
	for _, p := range files {
		t, err := host.ReadText(v, p)
		if err != nil {
			return err
		}
		f.Sections = append(f.Sections, parseRepo(p, t.Content)...)
	}
	for _, r := range spec.Packages.Repositories {
		for _, p := range []string{repoPath(r.ID), keyPrefix + r.ID} {
			t, err := host.ReadText(v, p)
			if err != nil {
				return err
			}
			if private(t.Content) {
				f.Private = append(f.Private, p)
				t.Content = ""
			}
			f.Files[p] = t
		}
	}
	return nil
}

func (f *Facts) readRoutes(v host.View, _ config.Spec) error {
	n, err := v.Network()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return err
	}
	for _, r := range n.Defaults {
		f.Routes = append(f.Routes, r.Family)
	}
	return nil
}

func (f *Facts) readJournal(v host.View, _ config.Spec) error {
	entries, err := journal.Read(v.ReadFile)
	for _, e := range entries {
		switch {
		case e.ID != change.InstallPackages{}.ID():
		case e.Event == journal.Done:
			f.CutOff = 0
		case e.Event == journal.Intent && f.CutOff == 0:
			f.CutOff = max(e.Time.Unix(), 1)
		}
	}
	return err
}

func (f *Facts) askVersions(ctx context.Context, v host.View) error {
	f.Versions = map[string]string{}
	for _, program := range []string{"kubelet", "kubeadm"} {
		if _, err := v.LookPath(program); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		version, err := v.Version(ctx, program)
		if err != nil && !errors.Is(err, host.ErrUnobservable) {
			return err
		}
		f.Versions[program] = version // empty: there, of unknown version
	}
	return nil
}

func (f *Facts) askDatabase(ctx context.Context, v host.View, spec config.Spec, m manager) error {
	if _, err := v.LookPath("rpm"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	want := wanted(spec, *f, m)
	names := rpmspec.Names(append(append(append([]string{}, want.required...), want.optional...), "kubectl"))
	for _, r := range spec.Packages.Repositories {
		keys, err := pgpkey.Parse([]byte(f.Files[keyPrefix+r.ID].Content))
		if err != nil {
			continue // not there yet, or damaged: it is fetched again
		}
		for _, k := range keys {
			names = append(names, k.Provides()...)
		}
	}
	have, err := v.Installed(ctx, unique(names))
	if errors.Is(err, host.ErrUnobservable) {
		return nil
	}
	f.Installed = have
	return err
}

func unique(names []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}
