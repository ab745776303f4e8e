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

	systemdunit "github.com/coreos/go-systemd/v22/unit"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/swap/area"
)

// swapOffTime bounds swapoff(8), which reads every used page back.
const swapOffTime = 30 * time.Minute

// MaskedCopy is where a unit file of the administrator's is kept while a mask
// is in its place. systemd ignores names without a unit's suffix.
const MaskedCopy = ".nodeagent-saved"

// applyMaskUnit makes a unit unstartable, whatever brought it there, and stops
// it. The mask comes first: what is masked stays off after a reboot even if it
// can't be stopped now.
func (l *Linux) applyMaskUnit(ctx context.Context, c change.MaskUnit, progress func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	before, err := l.unit(ctx, c.Unit)
	if err != nil {
		return err
	}
	if err := mask(path.Join(unitDirs[0], c.Unit)); err != nil {
		return fmt.Errorf("masking %s: %w", c.Unit, err)
	}
	if err := l.reload(ctx, m); err != nil {
		return err
	}
	return l.stop(ctx, m, c.Unit, before.What, progress)
}

// mask puts a link to /dev/null in a unit file's place in one step, and keeps
// what was there beside it.
func mask(file string) error {
	if target, err := os.Readlink(file); err == nil && target == "/dev/null" {
		return nil
	}
	dir := filepath.Dir(file)
	if err := makeDirs(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		saved := file + MaskedCopy
		if err := os.Remove(saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Link(file, saved); err != nil {
			return err
		}
	}
	temporary := filepath.Join(dir, ".nodeagent-mask")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink("/dev/null", temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, file); err != nil {
		return err
	}
	return syncDir(dir)
}

// areasOf are the areas in use that a swap unit stands for. A unit names its
// device by any link, the kernel by its own name.
func (l *Linux) areasOf(unit, what string) []area.Area {
	real := func(p string) string {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			return r
		}
		return p
	}
	if what == "" {
		what = systemdunit.UnitNamePathUnescape(strings.TrimSuffix(unit, ".swap"))
	}
	return slices.DeleteFunc(area.Parse(l.text("/proc/swaps")), func(a area.Area) bool { return real(a.Path) != real(what) })
}

// applySwapOff stops using one area. One that isn't in use is fine.
func (l *Linux) applySwapOff(ctx context.Context, c change.SwapOff, progress func(string)) error {
	for _, a := range area.Parse(l.text("/proc/swaps")) {
		if a.Path == c.Area {
			return l.swapOff(ctx, a, progress)
		}
	}
	return nil
}

func (l *Linux) swapOff(ctx context.Context, a area.Area, progress func(string)) error {
	if a.Deleted {
		return fail.New(fail.Step, "reboot: it is off then", "swap on %s can't be turned off: the file was removed while it was in use", a.Path)
	}
	if a.UsedKiB > 0 {
		progress(fmt.Sprintf("moving %s from %s back to memory", change.Size(a.UsedKiB<<10), a.Path))
	}
	r, err := l.exec(ctx, program{name: "swapoff", args: []string{"--", a.Path}, timeout: swapOffTime})
	if err != nil {
		return err
	}
	if r.exit != 0 {
		return fail.New(fail.Step, "free memory so that the swapped pages fit in, or reboot: it stays off then", "swap on %s can't be turned off: %s", a.Path, r.last())
	}
	for _, left := range area.Parse(l.text("/proc/swaps")) {
		if left.Path == a.Path {
			return fail.New(fail.Step, "disable what does it, then run again", "swap on %s was turned on again at once%s", a.Path, l.swapMakers(ctx, a.Path))
		}
	}
	return nil
}

// swapMakers names what systemd knows to have to do with an area.
func (l *Linux) swapMakers(ctx context.Context, path string) string {
	l.forget() // what was remembered is from before
	units, err := l.SwapUnits(ctx)
	if err != nil {
		return ""
	}
	var names []string
	for n, u := range units {
		if u.ActiveState == "active" && (strings.HasSuffix(n, ".service") || u.What == path && u.FragmentPath != "") {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ", by " + strings.Join(names, " or ")
}
