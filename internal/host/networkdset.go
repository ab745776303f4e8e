package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/vishvananda/netlink"

	"nodeagent/internal/fail"
)

const (
	networkdUnit    = "systemd-networkd.service"
	networkdName    = "org.freedesktop.network1"
	networkdManager = networkdName + ".Manager"
	// networkCopies holds what a rollback puts back. It need not outlive a
	// reboot, as the timer doesn't.
	networkCopies = "/run/nodeagent/network"
)

// rollbackUnit names the transient units that take a change of an interface
// back unless they are stopped.
func rollbackUnit(link, kind string) string { return "nodeagent-network-rollback-" + link + kind }

// networkdSwitch changes an interface of systemd-networkd, which knows no
// checkpoints: a transient timer of systemd takes the change back.
type networkdSwitch struct {
	l            *Linux
	link, path   string
	limit        time.Duration // rollbackAfter
	change, undo func(context.Context) error
}

// takeBack are the commands of the timer's service: the file as it is now, and
// the interface by what is then there.
func (s *networkdSwitch) takeBack() ([]execution, error) {
	commands := [][]string{{"rm", "-f", s.path}}
	now, err := os.ReadFile(s.path)
	switch {
	case err == nil:
		kept := filepath.Join(networkCopies, filepath.Base(s.path))
		if err := s.l.writeAtomic(context.Background(), kept, now, 0o644, 0, 0); err != nil {
			return nil, err
		}
		commands = [][]string{{"cp", kept, s.path}}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	commands = append(commands, []string{"networkctl", "reload"}, []string{"networkctl", "reconfigure", s.link})
	var out []execution
	for _, c := range commands {
		program, err := s.l.LookPath(c[0])
		if err != nil {
			return nil, fail.Wrap(fail.Step, err, "install it", "the way back needs %s, so %s is left alone", c[0], s.link)
		}
		out = append(out, execution{program, append([]string{program}, c[1:]...), false})
	}
	return out, nil
}

// execution is one entry of ExecStart on the bus (org.freedesktop.systemd1(5)).
type execution struct {
	Path    string
	Args    []string
	Unclean bool
}

// monotonic is one entry of TimersMonotonic.
type monotonic struct {
	Base string
	USec uint64
}

func (s *networkdSwitch) begin(ctx context.Context) error {
	m, err := s.l.manager(ctx)
	if err != nil {
		return err
	}
	timer, service := rollbackUnit(s.link, ".timer"), rollbackUnit(s.link, ".service")
	u, err := s.l.unit(ctx, timer)
	if err != nil {
		return err
	}
	if u.ActiveState == "active" { // of a run that was killed
		if err := s.rolledBack(ctx, m); err != nil {
			return err
		}
	}
	_ = m.ResetFailedUnitContext(ctx, service) // a unit that failed keeps its name; most often there is none
	commands, err := s.takeBack()
	if err != nil {
		return err
	}
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	of := []systemd.Property{property("Description", "Take back nodeagent's unconfirmed configuration of "+s.link), property("Type", "oneshot"), property("ExecStart", commands)}
	when := []systemd.Property{property("TimersMonotonic", []monotonic{{"OnActiveSec", uint64(s.limit.Microseconds())}}), property("RemainAfterElapse", false), property("AccuracyUSec", uint64(time.Second.Microseconds()))}
	queue := func(ctx context.Context, name, mode string, result chan<- string) (int, error) {
		return m.StartTransientUnitAux(ctx, name, mode, when, []systemd.PropertyCollection{{Name: service, Properties: of}}, result)
	}
	if err := s.l.job(ctx, queue, timer, "start"); err != nil {
		return fail.Wrap(fail.Step, err, "see: systemctl status "+timer, "systemd can't hold the way back ready, so %s is left alone", s.link)
	}
	return nil
}

func (s *networkdSwitch) activate(ctx context.Context) error {
	if err := s.change(ctx); err != nil {
		return err
	}
	return s.reconfigure(ctx)
}

// reconfigure is networkctl reload and networkctl reconfigure of the link.
func (s *networkdSwitch) reconfigure(ctx context.Context) error {
	link, err := netlink.LinkByName(s.link)
	if err != nil {
		return fmt.Errorf("there is no link %s: %w", s.link, err)
	}
	ctx, cancel := context.WithTimeout(ctx, systemdAnswer)
	defer cancel()
	conn, err := dbus.Connect("unix:path="+systemBus, dbus.WithContext(ctx))
	if err != nil {
		return fail.Wrap(fail.Step, err, "see: systemctl status dbus.service", "the system bus does not answer, so systemd-networkd can't be told")
	}
	defer conn.Close()
	networkd := conn.Object(networkdName, "/org/freedesktop/network1")
	if err := networkd.CallWithContext(ctx, networkdManager+".Reload", dbus.FlagNoAutoStart).Err; err != nil {
		return fail.Wrap(fail.Step, err, "systemd 244 and later can do it; see: journalctl -u systemd-networkd", "systemd-networkd does not read its files again")
	}
	if err := networkd.CallWithContext(ctx, networkdManager+".ReconfigureLink", dbus.FlagNoAutoStart, int32(link.Attrs().Index)).Err; err != nil {
		return fail.Wrap(fail.Step, err, "see: journalctl -u systemd-networkd", "systemd-networkd does not configure %s anew", s.link)
	}
	return nil
}

func (s *networkdSwitch) confirm(ctx context.Context) error {
	m, err := s.l.manager(ctx)
	if err != nil {
		return err
	}
	return s.disarm(ctx, m)
}

func (s *networkdSwitch) rollback(ctx context.Context) error {
	err := s.undo(ctx)
	if err == nil {
		err = s.reconfigure(ctx)
	}
	if err != nil {
		return err // the timer does it
	}
	return s.confirm(ctx)
}

// rolledBack does at once what the timer of a killed run would do.
func (s *networkdSwitch) rolledBack(ctx context.Context, m *systemd.Conn) error {
	if err := s.l.job(ctx, m.StartUnitContext, rollbackUnit(s.link, ".service"), "start"); err != nil {
		return fail.Wrap(fail.Step, err, "see: systemctl status "+rollbackUnit(s.link, ".service"), "what a killed run left of %s can't be taken back", s.link)
	}
	return s.disarm(ctx, m)
}

// disarm stops the timer.
func (s *networkdSwitch) disarm(ctx context.Context, m *systemd.Conn) error {
	timer := rollbackUnit(s.link, ".timer")
	if err := s.l.job(ctx, m.StopUnitContext, timer, "stop"); err != nil && !noSuchUnit(err) {
		return fmt.Errorf("%s: %w", timer, err)
	}
	return nil
}
