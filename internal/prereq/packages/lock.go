package packages

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/rpmspec"
)

// lockPlan is how the Kubernetes packages are kept at their version.
type lockPlan struct {
	before   []change.Change // than the transaction
	after    []change.Change
	exclude  bool     // our .repo files hide them from ordinary updates
	optional []string // packages that make a lock possible
	warnings []string
}

// dnf's versionlock plugin (dnf-versionlock(8)).
const (
	pluginConf    = "/etc/dnf/plugins/versionlock.conf"
	pluginList    = "/etc/dnf/plugins/versionlock.list"
	pluginPackage = "python3-dnf-plugin-versionlock"
)

// readLocks observes the plugin and the files that hold locks.
func (f *Facts) readLocks(v host.View, _ config.Spec) error {
	conf, err := host.ReadText(v, pluginConf)
	if err != nil {
		return err
	}
	f.Plugin = readPlugin(conf)
	lists := []string{pluginList}
	if f.Plugin.List != "" && f.Plugin.List != pluginList {
		lists = append(lists, f.Plugin.List)
	}
	for _, name := range kubernetes {
		lists = append(lists, tdnfLockPath(name))
	}
	for _, p := range lists {
		t, err := host.ReadText(v, p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if t.Exists {
			f.Files[p] = t
		}
	}
	return nil
}

var pluginSetting = regexp.MustCompile(`(?m)^\s*(enabled|locklist)\s*[=:]\s*(\S+)\s*$`)

// readPlugin reads the plugin's configuration; the file comes with the plugin.
func readPlugin(conf host.Text) VersionLock {
	if !conf.Exists {
		return VersionLock{}
	}
	l := VersionLock{Enabled: true, List: pluginList}
	for _, m := range pluginSetting.FindAllStringSubmatch(conf.Content, -1) {
		if m[1] == "locklist" {
			l.List = m[2]
		} else {
			l.Enabled = slices.Contains([]string{"1", "yes", "true", "on"}, strings.ToLower(m[2]))
		}
	}
	return l
}

// lockDnf keeps the packages by the versionlock plugin where it is, otherwise
// by excludes in the .repo files we write or those that are there already;
// where there are neither, the plugin is asked for.
func lockDnf(spec config.Spec, f Facts, installing []string) lockPlan {
	var p lockPlan
	if f.Plugin.Enabled {
		version := ""
		if *spec.Packages.Lock {
			version = strings.TrimPrefix(spec.Kubernetes.Version, "v")
		}
		// Written before the transaction: a lock on another version would hide the
		// one that is asked for.
		if c, ok := writeLocks(f, f.Plugin.List, version); ok {
			p.before = append(p.before, c)
		}
		return p
	}
	if !*spec.Packages.Lock {
		return p
	}
	guarded := slices.ContainsFunc(f.Sections, func(s Section) bool { return s.Enabled && isKubernetesRepository(s) })
	switch {
	case len(spec.Packages.Repositories) > 0:
		p.exclude = true
	case guarded:
	case len(installing) > 0:
		p.optional = []string{pluginPackage}
		if c, ok := writeLocks(f, pluginList, strings.TrimPrefix(spec.Kubernetes.Version, "v")); ok {
			p.after = append(p.after, c)
		}
	default:
		p.warnings = []string{"nothing keeps kubelet and kubeadm at their version: install " + pluginPackage + " or name their repository in packages.repositories"}
	}
	return p
}

// isKubernetesRepository recognises the documented exclude= line: a section
// that hides kubelet and kubeadm both holds them, and hides them on purpose
// from ordinary updates only.
func isKubernetesRepository(s Section) bool { return s.hides("kubelet") && s.hides("kubeadm") }

func writeLocks(f Facts, list, version string) (change.WriteFile, bool) {
	t := f.Files[list]
	return t.Keep(list, editLocks(t.Content, version), "lock kubelet, kubeadm and kubectl in "+list)
}

const lockComment = "# nodeagent keeps these at spec.kubernetes.version"

// ourLock is a line of ours: any release of one version, any architecture.
// dnf itself writes full releases.
var ourLock = regexp.MustCompile(`^(?:kubelet|kubeadm|kubectl)-0:\d+\.\d+\.\d+-\*\.\*$`)

// editLocks replaces our lines of a lock list and keeps all others; without a
// version ours are taken out.
func editLocks(content, version string) string {
	var b strings.Builder
	for line := range strings.Lines(content) {
		s := strings.TrimSpace(line)
		if s != lockComment && !ourLock.MatchString(s) {
			b.WriteString(line)
		}
	}
	if version == "" {
		return b.String()
	}
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(lockComment + "\n")
	for _, name := range kubernetes {
		b.WriteString(name + "-0:" + version + "-*.*\n")
	}
	return b.String()
}

func tdnfLockPath(name string) string { return "/etc/tdnf/locks.d/" + name + ".conf" }

// lockTdnf keeps the packages by tdnf's own locks, one file per package. tdnf
// ignores exclude= of repositories and has no versionlock command. A locked
// package can't be upgraded at all, so its lock is taken away before our own
// transaction and put back after it.
func lockTdnf(spec config.Spec, f Facts, installing []string) lockPlan {
	var p lockPlan
	for _, name := range kubernetes {
		path := tdnfLockPath(name)
		t := f.Files[path]
		changing := slices.ContainsFunc(installing, func(s string) bool { return rpmspec.Name(s) == name })
		if t.Exists && (changing || !*spec.Packages.Lock) {
			p.before = append(p.before, change.RemoveFile{Path: path, What: "unlock " + name,
				Before: &change.Saved{Mode: t.Mode, Owner: t.Owner, Content: t.Content}})
			t = host.Text{}
		}
		if !*spec.Packages.Lock {
			continue
		}
		if c, ok := t.Keep(path, name+"\n", "lock "+name); ok {
			p.after = append(p.after, c)
		}
	}
	return p
}
