package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/archive"
	"nodeagent/internal/prereq/diagnose"
	"nodeagent/internal/prereq/swap/area"
)

// applyUnmaskUnit takes a mask of ours away in one step: the file that it hid
// takes its place, or nothing.
func (l *Linux) applyUnmaskUnit(ctx context.Context, c change.UnmaskUnit, _ func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	file := path.Join(unitDirs[0], c.Unit)
	if target, err := os.Readlink(file); err == nil && target == "/dev/null" {
		err := os.Rename(file+MaskedCopy, file)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(file)
		}
		if err != nil {
			return fmt.Errorf("unmasking %s: %w", c.Unit, err)
		}
		if err := syncDir(unitDirs[0]); err != nil {
			return err
		}
	}
	return l.reload(ctx, m)
}

// applySwapOn uses an area again: by its unit when one configures it, which
// knows its options, else by swapon(8). What makes a unit may just have come
// back, so systemd reads it first.
func (l *Linux) applySwapOn(ctx context.Context, c change.SwapOn, _ func(string)) error {
	on := func() bool {
		return slices.ContainsFunc(area.Parse(l.text("/proc/swaps")), func(a area.Area) bool { return a.Path == c.Area })
	}
	if on() {
		return nil
	}
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	if err := l.reload(ctx, m); err != nil {
		return err
	}
	if u, err := l.unit(ctx, c.Unit); err == nil && u.LoadState == "loaded" && u.FragmentPath != "" {
		started := time.Now()
		if err := l.job(ctx, m.StartUnitContext, c.Unit, "start"); err != nil {
			return l.unitFailure(ctx, c.Unit, "does not start again", err, started)
		}
		if on() {
			return nil
		}
	}
	r, err := l.exec(ctx, program{name: "swapon", args: []string{"--", c.Area}})
	if err != nil {
		return err
	}
	if r.exit != 0 && !on() {
		return fail.New(fail.Step, "see whether it is still a swap area: swapon --show; blkid -p "+c.Area, "swap on %s can't be turned on again: %s", c.Area, r.last())
	}
	return nil
}

// applyUnmount stops a mount unit of ours, which unmounts, and disables it.
func (l *Linux) applyUnmount(ctx context.Context, c change.Unmount, progress func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	if err := l.offBoot(ctx, m, c.Unit); err != nil {
		return err
	}
	progress("stopping " + c.Unit)
	if err := l.stop(ctx, m, c.Unit, "", progress); err != nil {
		return err
	}
	mounts, err := l.Mounts()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == c.Target }) {
		return fail.New(fail.Step, "see what still uses it: fuser -vm "+c.Target, "%s is stopped, but %s is still mounted", c.Unit, c.Target)
	}
	return removeDirs(filepath.Dir(c.Target), c.Dirs)
}

// applyRemoveKeys drops keys from the RPM database.
func (l *Linux) applyRemoveKeys(ctx context.Context, c change.RemoveKeys, _ func(string)) error {
	for _, version := range c.Keys {
		name := "gpg-pubkey-" + version
		if r, err := l.exec(ctx, program{name: "rpm", args: []string{"-q", name}}); err != nil {
			return err
		} else if r.exit != 0 {
			continue // dropped already
		}
		if _, err := l.must(ctx, program{name: "rpm", args: []string{"-e", "--allmatches", name}}); err != nil {
			return fmt.Errorf("dropping the signing key %s of repository %s: %w", version, c.Repository, err)
		}
	}
	return nil
}

// applyRemovePackages lets the package manager remove packages. What others
// need stays, for the package manager refuses or keeps it; nothing but what was
// asked for and its now unneeded companions may go.
func (l *Linux) applyRemovePackages(ctx context.Context, c change.RemovePackages, progress func(string)) error {
	m, err := managerOf(c.Manager)
	if err != nil {
		return err
	}
	var there []string
	have, err := l.rpmQuery(ctx, c.Packages)
	if err != nil {
		return err
	}
	for _, name := range c.Packages {
		if have[name] != "" {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	wait := pauses(ctx)
	for began := time.Now(); ; {
		r, err := l.exec(ctx, program{name: m.program, args: append([]string{"--assumeyes", "remove"}, there...), env: proxies(), timeout: installTime})
		if err != nil {
			return err
		}
		d := m.diagnose(r.exit, r.text())
		switch {
		case d.Kind == diagnose.Lock && time.Since(began) < lockPauses*pace(ctx):
			progress("waiting for another process to release the package database")
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait.NextBackOff()):
			}
			continue
		case d.Kind != diagnose.None:
			return fail.New(fail.Step, d.Hint(), "%s: %s", c.Manager, d.Sentence())
		}
		left, err := l.rpmQuery(ctx, there)
		if err != nil {
			return err
		}
		for _, name := range there {
			if left[name] != "" {
				return fail.New(fail.Step, "run it by hand and look at its output: "+m.program+" remove "+name, "%s reported success, but %s is still installed", c.Manager, name)
			}
		}
		return nil
	}
}

// applyRemoveArchive removes the files that are still as they were unpacked,
// then the marker, which lists them. Directories stay.
func (l *Linux) applyRemoveArchive(_ context.Context, c change.RemoveArchive, progress func(string)) error {
	b, err := l.ReadFile(c.Marker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := archive.Decode(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Marker, err)
	}
	for _, f := range m.Files {
		info, err := os.Lstat(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		link, _ := os.Readlink(f.Path) // not a link: empty
		if link != f.Link || f.Link == "" && (!info.Mode().IsRegular() || info.Size() != f.Size || info.ModTime().UnixMicro() != f.Modified) {
			progress("left, since it was changed: " + f.Path)
			continue
		}
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(c.Marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeDirs(filepath.Dir(c.Marker), []string{filepath.Dir(c.Marker)})
}

// applyClosePorts takes back one thing at a time, live or permanently; what is
// gone already is fine.
func (l *Linux) applyClosePorts(ctx context.Context, c change.ClosePorts, _ func(string)) error {
	switch {
	case strings.HasPrefix(c.Backend, "iptables-"):
		return l.deleteRules(ctx, c)
	case c.Backend == "firewalld-offline":
		return l.closeOffline(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*firewalldStart)
	defer cancel()
	f, err := l.firewalldBus(ctx)
	if err != nil {
		return err
	}
	if f == nil {
		return fail.New(fail.Step, "run again: a firewalld that is stopped is configured for its next start", "firewalld has stopped since it was looked at")
	}
	defer f.Close()
	defer l.external(time.Now())
	return f.close(ctx, c)
}
