package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/diagnose"
	"nodeagent/internal/prereq/rpmspec"
)

// manager is what one package manager does in its own way.
type manager struct {
	program string
	// install returns the arguments that install packages in one transaction.
	install func(l *Linux, c change.InstallPackages, packages []string, o installOptions) []string
	// diagnose classifies the end of a run.
	diagnose func(exit int, output string) diagnose.Diagnosis
	// progress makes a short text of a line of output, or "".
	progress func(line string) string
	// removals lists what a transaction that was only shown would remove; nil
	// when the program can't show that.
	removals func(output string) []string
	// locks are files with the pid of who holds them.
	locks []string
}

// installOptions change from one try to the next.
type installOptions struct {
	refresh bool // fetch the repositories' metadata anew
	erase   bool // conflicting packages may be removed
	preview bool // show the transaction and answer no
	again   bool // install once more what is installed
}

func managerOf(name string) (manager, error) {
	switch name {
	case "dnf":
		return dnf, nil
	case "tdnf":
		return tdnf, nil
	}
	return manager{}, fmt.Errorf("there is no package manager %q", name)
}

// installTime bounds one run of a package manager, slow mirrors included.
const installTime = time.Hour

// How often what may pass by itself is tried again. Locks are waited for
// lockPauses times the first pause: ten minutes.
const (
	networkTries = 3
	lockPauses   = 600
)

// installer is one InstallPackages being carried out.
type installer struct {
	l        *Linux
	c        change.InstallPackages
	m        manager
	progress func(string)

	optional  []string // still asked for
	options   installOptions
	network   int // failed tries
	renewed   bool
	lockSince time.Time
	pause     interface{ NextBackOff() time.Duration }
}

// applyInstallPackages runs the package manager until the packages are there
// or it is clear that trying again won't help.
func (l *Linux) applyInstallPackages(ctx context.Context, c change.InstallPackages, progress func(string)) error {
	m, err := managerOf(c.Manager)
	if err != nil {
		return err
	}
	var mu sync.Mutex // a program's two outputs are read side by side
	told := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		progress(s)
	}
	i := &installer{l: l, c: c, m: m, progress: told, optional: slices.Clone(c.Optional), pause: pauses(ctx)}
	for done := !i.asks(); !done; {
		if done, err = i.try(ctx); err != nil {
			return err
		}
	}
	if c.CutOff != 0 {
		return i.repair(ctx)
	}
	return nil
}

// try runs the package manager once; done is false when it shall be run again.
func (i *installer) try(ctx context.Context) (done bool, err error) {
	d, _, err := i.run(ctx, i.options)
	if err != nil {
		return false, err
	}
	switch {
	case d.Kind == diagnose.None:
		return true, i.verify(ctx)
	case d.Kind == diagnose.Lock:
		return false, i.waitForLock(ctx, d)
	case (d.Kind == diagnose.Network || d.Kind == diagnose.Changed) && d.Transient && i.network < networkTries-1:
		i.network++
		i.progress(d.Sentence() + "; trying again")
		return false, i.sleep(ctx)
	case d.Kind == diagnose.Network && len(d.Packages) > 0: // another repository may not be needed
		return false, i.without(d)
	case d.Kind == diagnose.Signature && !d.Unsigned && len(i.c.Keys) > 0 && !i.renewed:
		i.renewed = true
		i.progress(d.Sentence() + "; fetching the signing keys anew")
		return false, i.l.renewKeys(ctx, i.c.Keys)
	case d.Kind == diagnose.NotFound || d.Kind == diagnose.Excluded:
		return false, i.without(d)
	case d.Kind == diagnose.Conflict && len(i.c.Remove) > 0 && i.m.removals != nil && !i.options.erase:
		return false, i.mayErase(ctx, d)
	}
	return false, i.failure(d)
}

func (i *installer) run(ctx context.Context, o installOptions) (diagnose.Diagnosis, string, error) {
	packages := append(slices.Clone(i.c.Packages), i.optional...)
	r, err := i.l.exec(ctx, program{name: i.m.program, args: i.m.install(i.l, i.c, packages, o), env: proxies(), timeout: installTime,
		line: func(s string) {
			if p := i.m.progress(s); p != "" {
				i.progress(p)
			}
		}})
	if err != nil {
		return diagnose.Diagnosis{}, "", err
	}
	return i.m.diagnose(r.exit, r.text()), r.text(), nil
}

func (i *installer) failure(d diagnose.Diagnosis) error {
	return fail.New(fail.Step, d.Hint(), "%s: %s", i.c.Manager, d.Sentence())
}

// without leaves out the optional packages that no repository has. When a
// required one is missing, the metadata may be old: it is fetched anew, once.
func (i *installer) without(d diagnose.Diagnosis) error {
	required := slices.DeleteFunc(slices.Clone(d.Packages), func(p string) bool { return slices.Contains(i.optional, p) })
	if len(required) > 0 || len(d.Packages) == 0 {
		if !i.options.refresh && d.Kind == diagnose.NotFound {
			i.options.refresh = true
			return nil
		}
		d.Packages = required
		return i.failure(d)
	}
	i.optional = slices.DeleteFunc(i.optional, func(p string) bool { return slices.Contains(d.Packages, p) })
	i.progress("going on without " + strings.Join(d.Packages, ", ") + ": " + d.Sentence())
	return nil
}

// mayErase lets the next try remove conflicting packages, if all that would be
// removed was listed by the user.
func (i *installer) mayErase(ctx context.Context, d diagnose.Diagnosis) error {
	o := i.options
	o.erase, o.preview = true, true
	_, out, err := i.run(ctx, o)
	if err != nil {
		return err
	}
	would := i.m.removals(out)
	unlisted := slices.DeleteFunc(slices.Clone(would), func(p string) bool { return slices.Contains(i.c.Remove, p) })
	if len(would) == 0 {
		return i.failure(d)
	}
	if len(unlisted) > 0 {
		return fail.New(fail.Step, "list them in spec.packages.remove as well, if this host can do without them",
			"%s: %s; solving it would also remove %s, which spec.packages.remove doesn't list", i.c.Manager, d.Sentence(), strings.Join(unlisted, ", "))
	}
	i.progress("removing " + strings.Join(would, ", "))
	i.options.erase = true
	return nil
}

// waitForLock pauses while another process holds a lock, for ten minutes in
// all. The last error names the process that lives now.
func (i *installer) waitForLock(ctx context.Context, d diagnose.Diagnosis) error {
	if i.lockSince.IsZero() {
		i.lockSince = time.Now()
	}
	who := i.l.lockHolder(i.m, d)
	if waited := time.Since(i.lockSince); waited > lockPauses*pace(ctx) {
		if who == "" {
			return i.failure(d)
		}
		return fail.New(fail.Timeout, d.Hint(), "%s: the package database has been locked by %s for %s", i.c.Manager, who, waited.Round(time.Second))
	}
	if who == "" {
		who = "another process"
	}
	i.progress("waiting for " + who + " to release the package database")
	return i.sleep(ctx)
}

func (i *installer) sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(i.pause.NextBackOff()):
		return nil
	}
}

// verify asks rpm, since package managers have reported success for nothing.
func (i *installer) verify(ctx context.Context) error {
	have, err := i.l.rpmQuery(ctx, rpmspec.Names(i.c.Packages))
	if err != nil {
		return err
	}
	var missing []string
	for _, p := range i.c.Packages {
		if len(rpmspec.Candidates(p)) > 0 && !rpmspec.Satisfied(p, have) {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fail.New(fail.Step, "run it by hand and look at its output: "+i.m.program+" install "+strings.Join(missing, " "),
			"%s reported success, but %s is not installed", i.c.Manager, strings.Join(missing, ", "))
	}
	// rpm syncs its database and not the files: without this a power cut could
	// leave an installed package with empty programs.
	unix.Sync()
	return nil
}
