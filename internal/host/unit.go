package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

const (
	jobTime    = 3 * time.Minute        // more than systemd's own limit of 90 s for a start
	criAppears = time.Minute            // from the start of a runtime to its first answer
	settleTime = 300 * time.Millisecond // in which a daemon that can't run is dead
)

// applySetUnit reloads, disables or stops, enables, starts or restarts, in this order,
// and returns when the unit is really there.
func (l *Linux) applySetUnit(ctx context.Context, c change.SetUnit, progress func(string)) error {
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	if c.Reload {
		if err := l.reload(ctx, m); err != nil {
			return err
		}
	}
	if c.Disable {
		return l.disable(ctx, m, c.Unit, progress)
	}
	if c.OffBoot {
		return l.offBoot(ctx, m, c.Unit)
	}
	if c.Stop {
		return l.stop(ctx, m, c.Unit, "", progress)
	}
	if c.Enable {
		if _, _, err := m.EnableUnitFilesContext(ctx, []string{c.Unit}, false, false); err != nil {
			return unitFileFailure("enabled", c.Unit, err)
		}
		// systemctl does it too: the manager has to see the new links.
		if err := l.reload(ctx, m); err != nil {
			return err
		}
	}
	if c.Start || c.Restart {
		if err := l.bringUp(ctx, m, c); err != nil {
			return err
		}
	}
	if c.Socket != "" {
		return l.awaitCRI(ctx, c.Unit, c.Socket, progress)
	}
	return nil
}

// reload is systemctl daemon-reload.
func (l *Linux) reload(ctx context.Context, m *systemd.Conn) error {
	defer l.external(time.Now())
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	if err := m.ReloadContext(ctx); err != nil {
		return fail.Wrap(fail.Step, err, "try: systemctl daemon-reload", "systemd can't read its units again")
	}
	return nil
}

// disable keeps a unit from starting by itself and stops it, in this order:
// what is disabled stays off after a reboot even if it can't be stopped now.
// One that doesn't exist is disabled.
func (l *Linux) disable(ctx context.Context, m *systemd.Conn, unit string, progress func(string)) error {
	before, err := l.unit(ctx, unit)
	if err != nil {
		return err
	}
	if err := l.offBoot(ctx, m, unit); err != nil {
		return err
	}
	return l.stop(ctx, m, unit, before.What, progress)
}

// offBoot keeps a unit from starting by itself and lets it run.
func (l *Linux) offBoot(ctx context.Context, m *systemd.Conn, unit string) error {
	if _, err := m.DisableUnitFilesContext(ctx, []string{unit}, false); err != nil && !noSuchUnit(err) {
		return unitFileFailure("disabled", unit, err)
	}
	return l.reload(ctx, m)
}

// stop waits until a unit is stopped; one that doesn't exist is. Swap is turned
// off without systemd, which would kill swapoff after 90 s; what names the area.
func (l *Linux) stop(ctx context.Context, m *systemd.Conn, unit, what string, progress func(string)) error {
	if strings.HasSuffix(unit, ".swap") {
		for _, a := range l.areasOf(unit, what) {
			if err := l.swapOff(ctx, a, progress); err != nil {
				return err
			}
		}
		return nil
	}
	started := time.Now()
	err := l.job(ctx, m.StopUnitContext, unit, "stop")
	if err == nil || noSuchUnit(err) {
		return nil
	}
	return l.unitFailure(ctx, unit, "can't be stopped", err, started)
}

func (l *Linux) bringUp(ctx context.Context, m *systemd.Conn, c change.SetUnit) error {
	started := time.Now()
	queue, verb := m.StartUnitContext, "does not start"
	if c.Restart {
		queue, verb = m.RestartUnitContext, "does not start again"
	}
	err := l.job(ctx, queue, c.Unit, "start")
	if err == nil {
		err = l.stands(ctx, m, c.Unit)
	}
	if err == nil {
		return nil
	}
	return l.unitFailure(ctx, c.Unit, verb, err, started)
}

// stands tells whether a unit that was started is still there. systemd calls a
// daemon of type simple started as soon as it is forked.
func (l *Linux) stands(ctx context.Context, m *systemd.Conn, unit string) error {
	kind := ""
	if strings.HasSuffix(unit, ".service") {
		p, err := m.GetUnitTypePropertyContext(ctx, unit, "Service", "Type")
		if err != nil {
			return fmt.Errorf("asking systemd about %s: %w", unit, err)
		}
		kind, _ = p.Value.Value().(string)
	}
	if slices.Contains([]string{"simple", "exec", "idle"}, kind) {
		defer l.external(time.Now())
		select {
		case <-time.After(settleTime):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	u, err := l.unit(ctx, unit)
	if err != nil {
		return err
	}
	switch {
	case u.ActiveState == "failed", u.SubState == "auto-restart":
		return fmt.Errorf("it died (%s)", u.SubState)
	case u.ActiveState == "inactive" && kind != "oneshot":
		return errors.New("it ended at once")
	}
	return nil
}

// reloadUnit makes a running unit read its files again (systemctl reload); one
// that doesn't run will read them when it starts.
func (l *Linux) reloadUnit(ctx context.Context, name string) error {
	u, err := l.unit(ctx, name)
	if err != nil || u.ActiveState != "active" {
		return err
	}
	m, err := l.manager(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := l.job(ctx, m.ReloadUnitContext, name, "reload"); err != nil {
		return l.unitFailure(ctx, name, "can't read its configuration again", err, started)
	}
	return nil
}

// job queues a job and waits for its result. verb is for people.
func (l *Linux) job(ctx context.Context, queue func(context.Context, string, string, chan<- string) (int, error), unit, verb string) error {
	defer l.external(time.Now())
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	result := make(chan string, 1)
	if _, err := queue(ctx, unit, "replace", result); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return fmt.Errorf("%s ended with %q", verb, r)
		}
		return nil
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded {
			return fail.New(fail.Timeout, "see: systemctl list-jobs", "%s did not end within %s", verb, jobTime)
		}
		return ctx.Err()
	}
}

// awaitCRI waits until a runtime answers, or its unit has given up.
func (l *Linux) awaitCRI(ctx context.Context, unit, socket string, progress func(string)) error {
	defer l.external(time.Now())
	started := time.Now()
	pause := 50 * time.Millisecond
	for told := false; ; {
		_, err := l.CRI(ctx, socket)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		u, unitErr := l.unit(ctx, unit)
		if unitErr == nil && (u.ActiveState == "failed" || u.SubState == "auto-restart") {
			return l.unitFailure(ctx, unit, "does not stay up", fmt.Errorf("it died (%s)", u.SubState), started)
		}
		if time.Since(started) > criAppears {
			said := ""
			if last := l.lastWords(ctx, unit, started); last != "" {
				said = "; the last line of " + unit + ": " + last
			}
			return fail.Wrap(fail.Timeout, err, fail.HintOf(err), "the runtime does not answer within %s%s", criAppears, said)
		}
		if !told && time.Since(started) > 2*time.Second {
			progress("waiting for " + unit + " to answer on " + socket)
			told = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, time.Second)
	}
}

// unitFailure is an error with the unit's own last words.
func (l *Linux) unitFailure(ctx context.Context, unit, verb string, err error, since time.Time) error {
	if noSuchUnit(err) {
		return fail.New(fail.Step, "install the package that brings it", "%s %s: systemd knows no such unit", unit, verb)
	}
	kind := fail.KindOf(err)
	if last := l.lastWords(ctx, unit, since); last != "" {
		return fail.New(kind, "see: journalctl -u "+unit+" -n 50", "%s %s (%s); its last line: %s", unit, verb, err, last)
	}
	return fail.New(kind, "see: systemctl status "+unit, "%s %s: %s", unit, verb, err)
}

func unitFileFailure(what, unit string, err error) error {
	if noSuchUnit(err) {
		return fail.New(fail.Step, "install the package that brings it", "%s can't be %s: there is no such unit file", unit, what)
	}
	return fail.Wrap(fail.Step, err, "see: systemctl status "+unit, "%s can't be %s", unit, what)
}

// noSuchUnit tells whether systemd has never heard of a unit.
func noSuchUnit(err error) bool {
	var e dbus.Error
	return errors.As(err, &e) && slices.Contains([]string{"org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.DBus.Error.FileNotFound", "System.Error.ENOENT"}, e.Name)
}

// lastJournal is the last line that a unit itself logged; empty when there is
// none.
func (l *Linux) lastJournal(ctx context.Context, unit string) string {
	return l.lastWords(ctx, unit, time.Time{})
}

// lastWords is lastJournal since a moment.
func (l *Linux) lastWords(ctx context.Context, unit string, since time.Time) string {
	if unit == "kubelet.service" {
		text, _ := l.kubeletError(ctx, since)
		return text
	}
	args := []string{"--no-pager", "--quiet", "--output=cat", "--unit=" + unit, "--lines=30"}
	if !since.IsZero() {
		args = append(args, fmt.Sprintf("--since=@%d", since.Unix()))
	}
	r, err := l.exec(ctx, program{name: "journalctl", timeout: 20 * time.Second, args: args})
	if err != nil || r.exit != 0 {
		return ""
	}
	return lastOwnLine(unit, string(r.stdout))
}

// systemdsLines are how systemd's reports about a unit begin, besides those
// that begin with the unit's name.
var systemdsLines = []string{"Starting ", "Started ", "Stopping ", "Stopped ", "Failed to start ", "Dependency failed for ", "Reloading ", "Reloaded ", "Finished "}

// lastOwnLine picks the last line that isn't systemd's report about the unit.
// When there is none, systemd could not even start the program: its last line
// that tells why is taken.
func lastOwnLine(unit, journal string) string {
	why, last := "", ""
	lines := strings.Split(strings.TrimSpace(journal), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if last == "" {
			last = line
		}
		report, about := strings.CutPrefix(line, unit+": ")
		if about && why == "" && strings.HasPrefix(report, "Failed ") && !strings.HasPrefix(report, "Failed with result") {
			why = report
		}
		for _, begin := range systemdsLines {
			about = about || strings.HasPrefix(line, begin) && strings.HasSuffix(line, ".")
		}
		if !about {
			return line
		}
	}
	if why != "" {
		return why
	}
	return last
}
