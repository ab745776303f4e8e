package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/diagnose"
)

// unpacking is the name of a file that rpm has unpacked and not yet put in its
// place: the path with the transaction's id in hexadecimal behind it (rpm,
// lib/fsm.c). A transaction that is killed leaves them behind, whole programs of
// them, and no later transaction looks for them.
var unpacking = regexp.MustCompile(`^(.+);[0-9a-f]{8}$`)

// repair makes good what transactions have left that were cut off: packages
// that the database holds and the filesystem doesn't, since rpm doesn't sync
// files, and files that were only unpacked.
func (i *installer) repair(ctx context.Context) error {
	// A package manager may have gone on after the run that started it was
	// killed; its files are no leftovers yet.
	for i.l.lockHolder(i.m, diagnose.Diagnosis{}) != "" {
		if err := i.waitForLock(ctx, diagnose.Diagnosis{Kind: diagnose.Lock}); err != nil {
			return err
		}
	}
	damaged, err := i.damaged(ctx)
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		i.progress("installing again what was cut off: " + strings.Join(damaged, ", "))
		again := *i
		again.c.Packages, again.optional, again.options.again = damaged, nil, true
		for done := false; !done; {
			if done, err = again.try(ctx); err != nil {
				names := strings.Join(damaged, ", ")
				return fail.Wrap(fail.KindOf(err), err, "an enabled repository must have the very version that is installed: rpm -q "+strings.Join(damaged, " ")+"; or remove it with rpm --erase --nodeps and run again",
					"%s is damaged since a package transaction was cut off, and can't be installed again", names)
			}
		}
		if damaged, err = i.damaged(ctx); err != nil {
			return err
		}
		if len(damaged) > 0 {
			return fail.New(fail.Step, "see what is wrong with its files: rpm -V "+damaged[0], "%s is damaged and stays so after it was installed again", strings.Join(damaged, ", "))
		}
		// systemd takes an empty unit file for a mask until it reads it again.
		if i.l.managed() {
			m, err := i.l.manager(ctx)
			if err != nil {
				return err
			}
			if err := i.l.reload(ctx, m); err != nil {
				return err
			}
		}
	}
	return i.sweep(ctx)
}

// clockMargin is how much a host's clock may have been set back between a
// transaction that was cut off and the next run, in seconds.
const clockMargin = 24 * 3600

// damaged are the packages installed since the cut-off transaction began whose
// files aren't what they should be. Configuration, documentation and what a
// package only claims (ghost) may differ (rpm(8), VERIFY OPTIONS).
func (i *installer) damaged(ctx context.Context) ([]string, error) {
	r, err := i.l.must(ctx, program{name: "rpm", args: []string{"-qa", "--qf", `%{INSTALLTIME} %{NAME}\n`}})
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(r.stdout)) {
		var at int64
		var name string
		if n, _ := fmt.Sscan(line, &at, &name); n == 2 && at >= i.c.CutOff-clockMargin && name != "gpg-pubkey" {
			names = append(names, name)
		}
	}
	var out []string
	for _, name := range sortedUnique(names) {
		r, err := i.l.exec(ctx, program{name: "rpm", args: []string{"-V", "--nodeps", "--noscripts", "--nomtime", "--nomode", "--nouser", "--nogroup", name}})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(strings.Split(string(r.stdout), "\n"), harmed) {
			out = append(out, name)
		}
	}
	return out, nil
}

// harmed reads one line of rpm -V: nine letters or dots, or "missing", then
// perhaps what kind of file it is, and the path.
func harmed(line string) bool {
	f := strings.Fields(line)
	if len(f) < 2 || !strings.HasPrefix(f[len(f)-1], "/") {
		return false
	}
	if len(f) > 2 && slices.Contains([]string{"c", "d", "g", "l", "r", "a"}, f[1]) {
		return false
	}
	return f[0] == "missing" || len(f[0]) == 9 && strings.ContainsAny(f[0], "S5L")
}

// sweep removes the files that were only unpacked. It looks only in directories
// that packages own, and takes only regular files beside a file that a package
// owns.
func (i *installer) sweep(ctx context.Context) error {
	r, err := i.l.must(ctx, program{name: "rpm", args: []string{"-qa", "--qf", `[%{DIRNAMES}\n]`}})
	if err != nil {
		return err
	}
	dirs := sortedUnique(strings.Fields(string(r.stdout)))
	var removed int
	var bytes int64
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a directory that somebody removed
		}
		for _, e := range entries {
			m := unpacking.FindStringSubmatch(e.Name())
			if m == nil || !e.Type().IsRegular() {
				continue
			}
			path := filepath.Join(dir, m[1])
			if owner, err := i.l.exec(ctx, program{name: "rpm", args: []string{"-qf", path}}); err != nil || owner.exit != 0 {
				continue
			}
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !os.IsNotExist(err) {
				return err
			}
			removed++
		}
	}
	if removed > 0 {
		i.progress(fmt.Sprintf("removed %d files (%s) of a transaction that was cut off", removed, change.Size(bytes)))
	}
	return nil
}

// asks tells whether anything is to be installed.
func (i *installer) asks() bool { return len(slices.Concat(i.c.Packages, i.optional)) > 0 }
