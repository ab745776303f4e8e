package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyAllowPorts adds to a zone one thing at a time and takes nothing away.
// The running rules and the permanent configuration are changed apart: a
// reload would flush the rules of kube-proxy and of the network plugin
// (firewalld.conf(5), FlushAllOnReload).
func (l *Linux) applyAllowPorts(ctx context.Context, c change.AllowPorts, progress func(string)) error {
	switch c.Backend {
	case "firewalld":
	case "firewalld-offline":
		return l.allowOffline(ctx, c)
	case "iptables-nft", "iptables-legacy":
		return l.insertRules(ctx, c)
	default:
		return fmt.Errorf("%s: there is no firewall %q", c.ID(), c.Backend)
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
	if c.Permanent {
		return f.allowPermanent(ctx, c)
	}
	return f.allowRuntime(ctx, c)
}

func (f *firewalld) allowRuntime(ctx context.Context, c change.AllowPorts) error {
	const forever = int32(0) // the timeout of a runtime setting, in seconds
	var errs []error
	add := func(what, method string, args ...any) {
		err := f.call(ctx, firewalldPath, firewalldZone+"."+method, nil, append([]any{c.Zone}, args...)...)
		errs = append(errs, added(err, what, c))
	}
	for _, p := range c.Ports {
		port, protocol, _ := strings.Cut(p, "/")
		add(p, "addPort", port, protocol, forever)
	}
	for _, p := range c.Protocols {
		add("protocol "+p, "addProtocol", p, forever)
	}
	for _, s := range c.Sources {
		add("source "+s, "addSource", s)
	}
	for _, i := range c.Interfaces {
		add("interface "+i, "addInterface", i)
	}
	if c.Forward {
		add("forwarding", "setZoneSettings2", map[string]dbus.Variant{"forward": dbus.MakeVariant(true)}) // keys that aren't given stay
	}
	return errors.Join(errs...)
}

func (f *firewalld) allowPermanent(ctx context.Context, c change.AllowPorts) error {
	var zone dbus.ObjectPath
	if err := f.call(ctx, firewalldConfPath, firewalldConfig+".getZoneByName", &zone, c.Zone); err != nil {
		return added(err, "the zone", c)
	}
	var errs []error
	add := func(what, method string, args ...any) {
		errs = append(errs, added(f.call(ctx, zone, firewalldConfig+".zone."+method, nil, args...), what, c))
	}
	for _, p := range c.Ports {
		port, protocol, _ := strings.Cut(p, "/")
		add(p, "addPort", port, protocol)
	}
	for _, p := range c.Protocols {
		add("protocol "+p, "addProtocol", p)
	}
	for _, s := range c.Sources {
		add("source "+s, "addSource", s)
	}
	for _, i := range c.Interfaces {
		add("interface "+i, "addInterface", i)
	}
	if c.Forward {
		add("forwarding", "update2", map[string]dbus.Variant{"forward": dbus.MakeVariant(true)}) // keys that aren't given stay
	}
	return errors.Join(errs...)
}

// added says what went wrong with one addition; what is there already is
// success.
func added(err error, what string, c change.AllowPorts) error {
	if err == nil || strings.Contains(err.Error(), "ALREADY_ENABLED") || strings.Contains(err.Error(), "ZONE_ALREADY_SET") {
		return nil
	}
	hint := "see: journalctl -u firewalld"
	switch {
	case strings.Contains(err.Error(), "ZONE_CONFLICT"):
		hint = "it belongs to another zone: firewall-cmd --list-all-zones"
	case strings.Contains(err.Error(), "ACCESS_DENIED"):
		hint = "firewalld is locked down: see firewall-cmd --query-lockdown"
	case strings.Contains(err.Error(), "PANIC_MODE"):
		hint = "firewalld drops everything: firewall-cmd --panic-off"
	}
	return fail.Wrap(fail.Step, err, hint, "firewalld refuses %s in zone %s", what, c.Zone)
}

// allowOffline changes the permanent configuration of a firewalld that doesn't
// run with firewall-offline-cmd(1), which takes options of one sort at a time.
func (l *Linux) allowOffline(ctx context.Context, c change.AllowPorts) error {
	sorts := [][]string{
		options("--add-port=", c.Ports), options("--add-protocol=", c.Protocols),
		options("--add-source=", c.Sources), options("--add-interface=", c.Interfaces), nil,
	}
	if c.Forward {
		sorts[4] = []string{"--add-forward"}
	}
	for _, args := range sorts {
		if len(args) == 0 {
			continue
		}
		p := program{name: "firewall-offline-cmd", args: append([]string{"--zone=" + c.Zone}, args...)}
		r, err := l.exec(ctx, p)
		if err != nil {
			return err
		}
		const alreadyEnabled = 11 // ALREADY_ENABLED of firewall-cmd(1), EXIT CODES
		if r.exit != 0 && r.exit != alreadyEnabled {
			return fail.New(fail.Step, "run it by hand to see more", "%s %s exited with %d: %s", p.name, strings.Join(p.args, " "), r.exit, r.last())
		}
	}
	return nil
}

func options(name string, values []string) []string {
	var out []string
	for _, v := range values {
		out = append(out, name+v)
	}
	return out
}
