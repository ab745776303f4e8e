package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// managed tells whether systemd runs here. Where it doesn't, preflight says so
// once and units are described by their files.
func (l *Linux) managed() bool {
	_, err := os.Stat("/run/systemd/system")
	return l.Live() && err == nil
}

// manager returns a connection to systemd itself, not through the message bus,
// so that it works before dbus.service does.
func (l *Linux) manager(ctx context.Context) (*systemd.Conn, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	if !l.managed() {
		return nil, fail.New(fail.Step, "nodeagent needs a host that systemd manages", "systemd isn't running here (no /run/systemd/system)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.systemd != nil && l.systemd.Connected() {
		return l.systemd, nil
	}
	c, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		// Its private socket is for root; the bus answers others.
		if c, err = systemd.NewSystemConnectionContext(ctx); err != nil {
			return nil, fmt.Errorf("systemd can't be reached: %w", err)
		}
	}
	l.systemd = c
	return c, nil
}

// Units describes units with one round trip each. Below a --root it tells from
// the files whether a unit is there and enabled.
func (l *Linux) Units(ctx context.Context, names []string) (map[string]Unit, error) {
	out := map[string]Unit{}
	if !l.managed() {
		for _, n := range names {
			out[n] = l.unitFile(n)
		}
		return out, nil
	}
	for _, n := range names {
		u, err := once(l, "unit:"+n, func() (Unit, error) { return l.unit(ctx, n) })
		if err != nil {
			return nil, err
		}
		out[n] = u
	}
	return out, nil
}

func (l *Linux) unit(ctx context.Context, name string) (Unit, error) {
	m, err := l.manager(ctx)
	if err != nil {
		return Unit{}, err
	}
	p, err := m.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("asking systemd about %s: %w", name, err)
	}
	text := func(k string) string { s, _ := p[k].(string); return s }
	u := Unit{LoadState: text("LoadState"), ActiveState: text("ActiveState"), SubState: text("SubState"), UnitFileState: text("UnitFileState"),
		FragmentPath: text("FragmentPath"), SourcePath: text("SourcePath"), What: text("What")}
	u.NeedsReload, _ = p["NeedDaemonReload"].(bool)
	if at, ok := p["ActiveEnterTimestamp"].(uint64); ok {
		u.StartedAt = int64(at)
	}
	return u, nil
}

var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

func (l *Linux) unitFile(name string) Unit {
	u := Unit{LoadState: "not-found", ActiveState: "inactive"}
	for _, dir := range unitDirs {
		p := path.Join(dir, name)
		info, err := l.Stat(p)
		if err != nil || !info.Exists {
			continue
		}
		if info.Link == "/dev/null" {
			u.LoadState, u.UnitFileState = "masked", "masked"
			return u
		}
		u.LoadState, u.UnitFileState, u.FragmentPath = "loaded", "disabled", p
		break
	}
	wants, _ := filepath.Glob(filepath.Join(l.root, "/etc/systemd/system/*.wants", name))
	requires, _ := filepath.Glob(filepath.Join(l.root, "/etc/systemd/system/*.requires", name))
	if u.LoadState == "loaded" && len(wants)+len(requires) > 0 {
		u.UnitFileState = "enabled"
	}
	return u
}

// SwapUnits lists the swap units that systemd has loaded, with what they swap
// on.
func (l *Linux) SwapUnits(ctx context.Context) (map[string]Unit, error) {
	if !l.managed() {
		out := map[string]Unit{}
		for _, dir := range unitDirs {
			names, _ := l.ReadDir(dir)
			for _, n := range names {
				if strings.HasSuffix(n, ".swap") {
					out[n] = l.unitFile(n)
				}
			}
		}
		return out, nil
	}
	return once(l, "swap-units", func() (map[string]Unit, error) {
		m, err := l.manager(ctx)
		if err != nil {
			return nil, err
		}
		list, err := m.ListUnitsByPatternsContext(ctx, nil, []string{"*.swap"})
		if err != nil {
			return nil, fmt.Errorf("asking systemd for swap units: %w", err)
		}
		files, err := m.ListUnitFilesByPatternsContext(ctx, nil, []string{"*.swap"})
		if err != nil {
			return nil, fmt.Errorf("asking systemd for swap unit files: %w", err)
		}
		names := map[string]bool{}
		for _, s := range list {
			names[s.Name] = true
		}
		for _, f := range files {
			names[path.Base(f.Path)] = true
		}
		out := map[string]Unit{}
		for n := range names {
			if out[n], err = l.unit(ctx, n); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// applySetUnit reloads, enables, starts, restarts, disables, in that order,
// and waits for each job's result.
func (l *Linux) applySetUnit(ctx context.Context, c change.SetUnit, progress func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	if c.Reload {
		if err := m.ReloadContext(ctx); err != nil {
			return fmt.Errorf("systemd daemon-reload: %w", err)
		}
	}
	if c.Disable {
		if err := l.job(ctx, m.StopUnitContext, c.Unit, "stop"); err != nil {
			return err
		}
		if _, err := m.DisableUnitFilesContext(ctx, []string{c.Unit}, false); err != nil {
			return fmt.Errorf("disabling %s: %w", c.Unit, err)
		}
		return m.ReloadContext(ctx)
	}
	if c.Enable {
		if _, _, err := m.EnableUnitFilesContext(ctx, []string{c.Unit}, false, true); err != nil {
			return fmt.Errorf("enabling %s: %w", c.Unit, err)
		}
		if err := m.ReloadContext(ctx); err != nil {
			return fmt.Errorf("systemd daemon-reload: %w", err)
		}
	}
	switch {
	case c.Restart:
		err = l.job(ctx, m.RestartUnitContext, c.Unit, "restart")
	case c.Start:
		err = l.job(ctx, m.StartUnitContext, c.Unit, "start")
	}
	if err != nil {
		return l.withJournal(ctx, c.Unit, err)
	}
	if c.Socket != "" {
		return l.awaitCRI(ctx, c.Unit, c.Socket, progress)
	}
	return nil
}

// job queues a job and waits for its result.
func (l *Linux) job(ctx context.Context, queue func(context.Context, string, string, chan<- string) (int, error), unit, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	result := make(chan string, 1)
	start := time.Now()
	defer func() {
		l.mu.Lock()
		l.stats.External += time.Since(start)
		l.mu.Unlock()
	}()
	if _, err := queue(ctx, unit, "replace", result); err != nil {
		return fmt.Errorf("%s of %s: %w", verb, unit, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return fmt.Errorf("%s of %s ended with %q", verb, unit, r)
		}
		return nil
	case <-ctx.Done():
		return fail.New(fail.Timeout, "see: systemctl list-jobs", "%s of %s did not end within 3m", verb, unit)
	}
}

// withJournal adds the unit's own last words to an error.
func (l *Linux) withJournal(ctx context.Context, unit string, err error) error {
	last := l.lastJournal(ctx, unit)
	if last == "" {
		return fail.Wrap(fail.Step, err, "see: systemctl status "+unit, "%s doesn't run", unit)
	}
	return fail.Wrap(fail.Step, err, "see: journalctl -u "+unit+" -n 50", "%s doesn't run; its last line: %s", unit, last)
}

// lastJournal is the last line that a unit logged, or "".
func (l *Linux) lastJournal(ctx context.Context, unit string) string {
	r, err := l.exec(ctx, program{name: "journalctl", args: []string{"-u", unit, "-n", "1", "-o", "cat", "--no-pager", "-q"}})
	if err != nil || r.exit != 0 {
		return ""
	}
	return strings.TrimSpace(string(r.stdout))
}

// applyMaskUnit stops a unit and masks it, whatever brought it there.
func (l *Linux) applyMaskUnit(ctx context.Context, c change.MaskUnit, _ func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	stopErr := l.job(ctx, m.StopUnitContext, c.Unit, "stop")
	link := path.Join("/etc/systemd/system", c.Unit)
	if info, err := os.Lstat(link); err == nil && info.Mode().IsRegular() {
		return fail.New(fail.Step, "systemctl disable --now "+c.Unit, "%s can't be masked: %s is a file of the administrator's", c.Unit, link)
	}
	if _, err := m.MaskUnitFilesContext(ctx, []string{c.Unit}, false, true); err != nil {
		return fmt.Errorf("masking %s: %w", c.Unit, err)
	}
	if err := m.ReloadContext(ctx); err != nil {
		return fmt.Errorf("systemd daemon-reload: %w", err)
	}
	if u, err := l.unit(ctx, c.Unit); err == nil && u.ActiveState == "active" {
		return errors.Join(fmt.Errorf("%s is masked but still active", c.Unit), stopErr)
	}
	return nil
}

// applySwapOff stops using one area.
func (l *Linux) applySwapOff(ctx context.Context, c change.SwapOff, _ func(string)) error {
	// Stopping its unit may have turned it off already.
	if b, err := l.ReadFile("/proc/swaps"); err == nil && !strings.Contains(string(b), strings.ReplaceAll(c.Area, " ", `\040`)+" ") && !strings.Contains(string(b), c.Area+"\t") {
		return nil
	}
	r, err := l.exec(ctx, program{name: "swapoff", args: []string{"--", c.Area}, timeout: 10 * time.Minute})
	if err == nil && r.exit != 0 {
		return fail.New(fail.Step, "free memory so that the swapped pages fit, then run again", "swap on %s can't be turned off: %s", c.Area, r.last())
	}
	return err
}

// awaitCRI waits until the runtime answers. No event tells when containerd has
// loaded its CRI plugin, so it is asked, first often and then less so.
func (l *Linux) awaitCRI(ctx context.Context, unit, socket string, progress func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pause := 50 * time.Millisecond
	for {
		l.forget()
		v, err := l.CRI(ctx, socket)
		if err == nil {
			progress(fmt.Sprintf("%s %s answers on %s", v.Name, v.Version, socket))
			return nil
		}
		select {
		case <-ctx.Done():
			return l.withJournal(context.WithoutCancel(ctx), unit, err)
		case <-time.After(pause):
		}
		pause = min(pause*2, 2*time.Second)
	}
}

// reloadUnit makes a running unit read its files again; one that doesn't run
// will read them when it starts.
func (l *Linux) reloadUnit(ctx context.Context, name string) error {
	u, err := l.unit(ctx, name)
	if err != nil || u.ActiveState != "active" {
		return err
	}
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	return l.job(ctx, m.ReloadUnitContext, name, "reload")
}
