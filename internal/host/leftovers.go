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
	"nodeagent/internal/prereq/diagnose"
)

// unpacking is the name of a file that rpm has unpacked and not yet put in its
// place: the path with the transaction's id in hexadecimal behind it (rpm,
// lib/fsm.c). A transaction that is killed leaves them behind, whole programs of
// them, and no later transaction looks for them.
var unpacking = regexp.MustCompile(`^(.+);[0-9a-f]{8}$`)

// sweepLeftovers removes the temporary files of transactions that were cut off.
// It looks only in directories that packages own, and takes only regular files
// beside a file that a package owns.
func (i *installer) sweepLeftovers(ctx context.Context) error {
	// A package manager may have gone on after the run that started it was
	// killed; its files are no leftovers yet.
	for i.l.lockHolder(i.m, diagnose.Diagnosis{}) != "" {
		if err := i.waitForLock(ctx, diagnose.Diagnosis{Kind: diagnose.Lock}); err != nil {
			return err
		}
	}
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
