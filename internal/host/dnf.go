package host

import (
	"os"
	"path/filepath"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/prereq/diagnose"
)

// dnf 4, and dnf 5 where its options differ.
var dnf = manager{
	program:  "dnf",
	install:  dnfInstall,
	diagnose: diagnose.Dnf,
	progress: diagnose.DnfProgress,
	removals: diagnose.DnfRemovals,
	locks:    []string{"/var/cache/dnf/metadata_lock.pid", "/var/cache/dnf/download_lock.pid", "/var/lib/dnf/rpmdb_lock.pid", "/run/dnf/rpmtransaction.lock"},
}

// dnfInstall builds the arguments of dnf(8). It doesn't wait for another dnf by
// itself: we do, and can say for whom.
func dnfInstall(l *Linux, c change.InstallPackages, packages []string, o installOptions) []string {
	yes := "--assumeyes"
	if o.preview {
		yes = "--assumeno"
	}
	args := []string{yes, "--setopt=exit_on_lock=True"}
	if len(c.Unlock) > 0 && l.isDnf5() {
		args = append(args, "--setopt=disable_excludes="+strings.Join(c.Unlock, ","))
	} else {
		for _, repo := range c.Unlock {
			args = append(args, "--disableexcludes="+repo)
		}
	}
	if o.refresh {
		args = append(args, "--refresh")
	}
	verb := "install"
	if o.again {
		verb = "reinstall"
	}
	args = append(args, verb)
	if o.erase {
		args = append(args, "--allowerasing")
	}
	return append(args, packages...)
}

// isDnf5 tells whether dnf is a link to dnf5, which took --disableexcludes
// away.
func (l *Linux) isDnf5() bool {
	path, err := l.LookPath("dnf")
	if err != nil {
		return false
	}
	target, err := os.Readlink(l.path(path))
	return err == nil && strings.HasPrefix(filepath.Base(target), "dnf5")
}
