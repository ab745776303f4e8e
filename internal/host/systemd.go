package host

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"nodeagent/internal/fail"
)

// systemdAnswer bounds one question to systemd.
const systemdAnswer = 25 * time.Second

// unitDirs are where units of the administrator, of packages and of the running
// system lie, first one first (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// managed tells whether systemd runs here (the test of sd_booted(3)). Where it
// doesn't, preflight says so once and units are described by their files.
func (l *Linux) managed() bool {
	_, err := os.Stat("/run/systemd/system")
	return l.Live() && err == nil
}

// manager returns the connection to systemd, which is kept. Its private socket
// works before the message bus does, but is for root only.
func (l *Linux) manager(context.Context) (*systemd.Conn, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	if !l.managed() {
		return nil, fail.New(fail.Step, "nodeagent is for hosts that systemd has booted", "systemd doesn't run on this host (no /run/systemd/system)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.systemd != nil && l.systemd.Connected() {
		return l.systemd, nil
	}
	// The connection outlives the question, so it must not end with its context.
	c, err := systemd.NewSystemdConnectionContext(context.Background())
	if err != nil {
		if c, err = systemd.NewSystemConnectionContext(context.Background()); err != nil {
			return nil, fail.Wrap(fail.Step, err, "run as root", "systemd can't be asked")
		}
	}
	l.systemd = c
	return c, nil
}

// Units describes units, with one question each. Below a root, and where systemd
// doesn't run, the files tell whether a unit is there and enabled.
func (l *Linux) Units(ctx context.Context, names []string) (map[string]Unit, error) {
	out := map[string]Unit{}
	for _, n := range names {
		if !l.managed() {
			out[n] = l.unitOfTree(n)
			continue
		}
		u, err := once(l, "unit "+n, func() (Unit, error) { return l.unit(ctx, n) })
		if err != nil {
			return nil, err
		}
		out[n] = u
	}
	return out, nil
}

// unit asks systemd about one unit, which loads it when it isn't.
func (l *Linux) unit(ctx context.Context, name string) (Unit, error) {
	m, err := l.manager(ctx)
	if err != nil {
		return Unit{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, systemdAnswer)
	defer cancel()
	ask := m.GetUnitPropertiesContext
	if strings.HasSuffix(name, ".swap") {
		ask = m.GetAllPropertiesContext // What is of the type's own interface
	}
	p, err := ask(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("asking systemd about %s: %w", name, err)
	}
	u := unitOf(p)
	if strings.HasSuffix(name, ".swap") {
		for _, k := range []string{"WantedBy", "RequiredBy"} {
			units, _ := p[k].([]string)
			u.WantedBy = append(u.WantedBy, units...)
		}
	}
	return u, nil
}

// unitOf reads properties of org.freedesktop.systemd1(5).
func unitOf(p map[string]any) Unit {
	text := func(k string) string { s, _ := p[k].(string); return s }
	reload, _ := p["NeedDaemonReload"].(bool)
	started, _ := p["ActiveEnterTimestamp"].(uint64)
	return Unit{
		LoadState: text("LoadState"), ActiveState: text("ActiveState"), SubState: text("SubState"), UnitFileState: text("UnitFileState"),
		NeedsReload: reload, FragmentPath: text("FragmentPath"), SourcePath: text("SourcePath"), What: text("What"),
		StartedAt: int64(started),
	}
}

// unitOfTree tells from the files below the root what systemd would load.
func (l *Linux) unitOfTree(name string) Unit {
	u := Unit{LoadState: "not-found", ActiveState: "inactive"}
	for _, dir := range unitDirs {
		file := path.Join(dir, name)
		info, err := l.Stat(file)
		if err != nil || !info.Exists {
			continue
		}
		if info.Link == "/dev/null" || info.Link == "" && info.Size == 0 {
			u.LoadState, u.UnitFileState = "masked", "masked"
			return u
		}
		u.LoadState, u.UnitFileState, u.FragmentPath = "loaded", "disabled", file
		for line := range strings.Lines(l.text(file)) {
			if what, ok := strings.CutPrefix(strings.TrimSpace(line), "What="); ok {
				u.What = what
			}
		}
		break
	}
	if u.LoadState == "loaded" && l.wantedInTree(name) {
		u.UnitFileState = "enabled"
	}
	return u
}

// wantedInTree tells whether a link in /etc enables a unit.
func (l *Linux) wantedInTree(name string) bool {
	dirs, _ := l.ReadDir(unitDirs[0]) // not there: nothing is enabled
	return slices.ContainsFunc(dirs, func(dir string) bool {
		if !strings.HasSuffix(dir, ".wants") && !strings.HasSuffix(dir, ".requires") {
			return false
		}
		info, err := l.Stat(path.Join(unitDirs[0], dir, name))
		return err == nil && info.Exists
	})
}

// SwapUnits lists .swap units that are loaded or have a file, and active
// services that are named after swap: three questions, and one for each found.
func (l *Linux) SwapUnits(ctx context.Context) (map[string]Unit, error) {
	if !l.managed() {
		out := map[string]Unit{}
		for _, dir := range unitDirs {
			names, _ := l.ReadDir(dir)
			for _, n := range names {
				if strings.HasSuffix(n, ".swap") {
					out[n] = l.unitOfTree(n)
				}
			}
		}
		return out, nil
	}
	return once(l, "swap units", func() (map[string]Unit, error) {
		names, err := l.swapUnitNames(ctx)
		if err != nil {
			return nil, err
		}
		return l.Units(ctx, names)
	})
}

func (l *Linux) swapUnitNames(ctx context.Context) ([]string, error) {
	m, err := l.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, systemdAnswer)
	defer cancel()
	loaded, err := m.ListUnitsByPatternsContext(ctx, nil, []string{"*.swap"})
	if err != nil {
		return nil, fmt.Errorf("asking systemd for swap units: %w", err)
	}
	services, err := m.ListUnitsByPatternsContext(ctx, []string{"active"}, []string{"*swap*.service", "*zram*.service"})
	if err != nil {
		return nil, fmt.Errorf("asking systemd for services that make swap: %w", err)
	}
	files, err := m.ListUnitFilesByPatternsContext(ctx, nil, []string{"*.swap"})
	if err != nil {
		return nil, fmt.Errorf("asking systemd for swap unit files: %w", err)
	}
	var names []string
	for _, u := range append(loaded, services...) {
		names = append(names, u.Name)
	}
	for _, f := range files {
		names = append(names, path.Base(f.Path))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
