package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"nodeagent/internal/fail"
)

// Names of firewalld.dbus(5).
const (
	firewalldName     = "org.fedoraproject.FirewallD1"
	firewalldPath     = "/org/fedoraproject/FirewallD1"
	firewalldZone     = firewalldName + ".zone"
	firewalldConfig   = firewalldName + ".config"
	firewalldConfPath = "/org/fedoraproject/FirewallD1/config"
	firewalldUnit     = "firewalld.service"
	systemBus         = "/run/dbus/system_bus_socket"
)

// firewalldStart is how long a firewalld that is starting is waited for: at a
// first boot nodeagent may well be faster. It is on the bus before its start is
// over, and answers only then.
const firewalldStart = time.Minute

// TrustedZone is the zone of firewalld that accepts everything.
const TrustedZone = "trusted"

// Firewalld describes firewalld. A running one is asked over D-Bus, which
// knows the zone that NetworkManager gave an interface; otherwise its files
// are read. No call ever starts it.
func (l *Linux) Firewalld(ctx context.Context) (Firewalld, error) {
	return once(l, "firewalld", func() (Firewalld, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*firewalldStart)
		defer cancel()
		if l.Live() {
			bus, err := l.firewalldBus(ctx)
			if err != nil {
				return Firewalld{}, err
			}
			if bus != nil {
				defer bus.Close()
				return bus.describe(ctx, l)
			}
		}
		return l.firewalldFiles()
	})
}

// firewalld is a connection to a running firewalld.
type firewalld struct{ *dbus.Conn }

// firewalldBus connects to firewalld; nil when it isn't running. One that is
// just being started is waited for.
func (l *Linux) firewalldBus(ctx context.Context) (*firewalld, error) {
	if _, err := os.Stat(systemBus); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // firewalld needs the system bus
	}
	conn, err := dbus.Connect("unix:path="+systemBus, dbus.WithContext(ctx))
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "see: systemctl status dbus.service", "the system bus does not answer, so firewalld can't be asked")
	}
	f := &firewalld{conn}
	up, err := f.running(ctx, l)
	if err != nil || !up {
		conn.Close()
		return nil, err
	}
	return f, nil
}

// running tells whether firewalld owns its name on the bus.
func (f *firewalld) running(ctx context.Context, l *Linux) (bool, error) {
	// First the subscription, then the look, so that no start falls in between.
	owners := make(chan *dbus.Signal, 16)
	f.Signal(owners)
	defer f.RemoveSignal(owners)
	if err := f.AddMatchSignalContext(ctx, dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, firewalldName)); err != nil {
		return false, fmt.Errorf("watching the system bus: %w", err)
	}
	var owned bool
	if err := f.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, firewalldName).Store(&owned); err != nil {
		return false, fmt.Errorf("asking the system bus for firewalld: %w", err)
	}
	if owned || !f.starting(ctx) {
		return owned, nil
	}
	defer l.external(time.Now())
	limit := time.NewTimer(firewalldStart)
	defer limit.Stop()
	for {
		select {
		case s := <-owners:
			if len(s.Body) == 3 && s.Body[0] == firewalldName && s.Body[2] != "" {
				return true, nil
			}
		case <-limit.C:
			return false, fail.New(fail.Timeout, "see: systemctl status firewalld", "firewalld is being started but isn't on the system bus after %s", firewalldStart)
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// starting tells whether systemd is about to start firewalld. A host whose
// systemd can't be asked starts nothing.
func (f *firewalld) starting(ctx context.Context) bool {
	manager := f.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	var path dbus.ObjectPath
	if manager.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.LoadUnit", dbus.FlagNoAutoStart, firewalldUnit).Store(&path) != nil {
		return false
	}
	var all map[string]dbus.Variant
	unit := f.Object("org.freedesktop.systemd1", path)
	if unit.CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, "org.freedesktop.systemd1.Unit").Store(&all) != nil {
		return false
	}
	state, _ := all["ActiveState"].Value().(string)
	job := struct {
		ID   uint32
		Path dbus.ObjectPath
	}{}
	if dbus.Store([]any{all["Job"].Value()}, &job) != nil {
		return false
	}
	return state == "activating" || state == "inactive" && job.ID != 0
}

// call asks firewalld and never lets the bus start it.
func (f *firewalld) call(ctx context.Context, path dbus.ObjectPath, method string, out any, args ...any) error {
	c := f.Object(firewalldName, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if out == nil {
		return c.Err
	}
	return c.Store(out)
}

// describe reads the runtime and the permanent settings of the zones in use.
func (f *firewalld) describe(ctx context.Context, l *Linux) (Firewalld, error) {
	d := Firewalld{Installed: true, Running: true, Enabled: l.firewalldEnabled(), Interfaces: map[string]string{}, Permanent: map[string]string{}, Zones: map[string]Zone{}}
	asking := func(what string, err error) error {
		if errors.Is(err, context.DeadlineExceeded) {
			return fail.New(fail.Timeout, "see: systemctl status firewalld; journalctl -u firewalld", "firewalld is on the system bus but doesn't answer (asked for %s)", what)
		}
		return fmt.Errorf("asking firewalld for %s: %w", what, err)
	}
	var state dbus.Variant
	if err := f.call(ctx, firewalldPath, "org.freedesktop.DBus.Properties.Get", &state, firewalldName, "state"); err != nil {
		return d, asking("its state", err)
	}
	d.State, _ = state.Value().(string)
	if err := f.call(ctx, firewalldPath, firewalldName+".getDefaultZone", &d.DefaultZone); err != nil {
		return d, asking("its default zone", err)
	}
	var active map[string]map[string][]string
	if err := f.call(ctx, firewalldPath, firewalldZone+".getActiveZones", &active); err != nil {
		return d, asking("the active zones", err)
	}
	names := []string{d.DefaultZone, TrustedZone}
	for zone, by := range active {
		names = append(names, zone)
		for _, i := range by["interfaces"] {
			d.Interfaces[i] = zone
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		var z Zone
		var err error
		if z.Runtime, err = f.settings(ctx, firewalldPath, firewalldZone+".getZoneSettings2", name); err != nil {
			return d, asking("zone "+name, err)
		}
		var path dbus.ObjectPath
		if err = f.call(ctx, firewalldConfPath, firewalldConfig+".getZoneByName", &path, name); err != nil {
			return d, asking("the permanent zone "+name, err)
		}
		if z.Permanent, err = f.settings(ctx, path, firewalldConfig+".zone.getSettings2"); err != nil {
			return d, asking("the permanent zone "+name, err)
		}
		d.Zones[name] = z
		for _, i := range z.Permanent.Interfaces {
			d.Permanent[i] = name
		}
	}
	return d, nil
}

// settings decodes one zone; firewalld leaves out keys of empty lists.
func (f *firewalld) settings(ctx context.Context, path dbus.ObjectPath, method string, args ...any) (ZoneSettings, error) {
	var all map[string]dbus.Variant
	if err := f.call(ctx, path, method, &all, args...); err != nil {
		var e dbus.Error
		if errors.As(err, &e) && e.Name == "org.freedesktop.DBus.Error.UnknownMethod" {
			err = fail.Wrap(fail.Step, err, "update firewalld, or set firewall.manager to none and open the ports yourself", "firewalld is older than 0.9")
		}
		return ZoneSettings{}, err
	}
	var s ZoneSettings
	var ports []struct{ Port, Protocol string }
	for key, into := range map[string]any{"ports": &ports, "protocols": &s.Protocols, "sources": &s.Sources, "interfaces": &s.Interfaces,
		"forward": &s.Forward, "icmp_blocks": &s.ICMPBlocks, "icmp_block_inversion": &s.ICMPBlockInversion, "target": &s.Target} {
		if v, ok := all[key]; ok {
			if err := dbus.Store([]any{v.Value()}, into); err != nil {
				return s, fmt.Errorf("its %s: %w", key, err)
			}
		}
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, p.Port+"/"+p.Protocol)
	}
	s.sort()
	return s, nil
}

// sort makes settings comparable: firewalld keeps the order of addition.
func (s *ZoneSettings) sort() {
	for _, list := range [][]string{s.Ports, s.Protocols, s.Sources, s.Interfaces, s.ICMPBlocks} {
		slices.Sort(list)
	}
}

// ZoneOf returns the zone that judges an interface's traffic, and whether the
// interface is bound to it rather than left to the default zone. "lxc+" binds
// every interface whose name begins with lxc.
func (f Firewalld) ZoneOf(name string) (zone string, bound bool) {
	if z, ok := f.Interfaces[name]; ok {
		return z, true
	}
	for pattern, z := range f.Interfaces {
		if prefix, ok := strings.CutSuffix(pattern, "+"); ok && strings.HasPrefix(name, prefix) {
			return z, true
		}
	}
	return f.DefaultZone, false
}

// external counts time spent waiting for others.
func (l *Linux) external(since time.Time) {
	l.mu.Lock()
	l.stats.External += time.Since(since)
	l.mu.Unlock()
}
