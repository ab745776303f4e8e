package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/iptables"
)

// close takes back in a zone of a running firewalld, by the methods that mirror
// those of allowRuntime and allowPermanent.
func (f *firewalld) close(ctx context.Context, c change.ClosePorts) error {
	object, prefix, zone := dbus.ObjectPath(firewalldPath), firewalldZone+".", []any{c.Zone}
	if c.Permanent {
		if err := f.call(ctx, firewalldConfPath, firewalldConfig+".getZoneByName", &object, c.Zone); err != nil {
			return removed(err, "the zone", c)
		}
		prefix, zone = firewalldConfig+".zone.", nil
	}
	var errs []error
	remove := func(what, method string, args ...any) {
		errs = append(errs, removed(f.call(ctx, object, prefix+method, nil, append(append([]any{}, zone...), args...)...), what, c))
	}
	for _, p := range c.Ports {
		port, protocol, _ := strings.Cut(p, "/")
		remove(p, "removePort", port, protocol)
	}
	for _, p := range c.Protocols {
		remove("protocol "+p, "removeProtocol", p)
	}
	for _, s := range c.Sources {
		remove("source "+s, "removeSource", s)
	}
	for _, i := range c.Interfaces {
		remove("interface "+i, "removeInterface", i)
	}
	if c.Forward {
		method := "setZoneSettings2"
		if c.Permanent {
			method = "update2"
		}
		remove("forwarding", method, map[string]dbus.Variant{"forward": dbus.MakeVariant(false)})
	}
	return errors.Join(errs...)
}

// removed says what went wrong; what isn't there is success.
func removed(err error, what string, c change.ClosePorts) error {
	if err == nil || strings.Contains(err.Error(), "NOT_ENABLED") || strings.Contains(err.Error(), "UNKNOWN_INTERFACE") || strings.Contains(err.Error(), "UNKNOWN_SOURCE") {
		return nil
	}
	return fail.Wrap(fail.Step, err, "see: journalctl -u firewalld", "firewalld doesn't take %s back in zone %s", what, c.Zone)
}

// closeOffline changes the permanent configuration of a firewalld that doesn't
// run.
func (l *Linux) closeOffline(ctx context.Context, c change.ClosePorts) error {
	sorts := [][]string{
		options("--remove-port=", c.Ports), options("--remove-protocol=", c.Protocols),
		options("--remove-source=", c.Sources), options("--remove-interface=", c.Interfaces), nil,
	}
	if c.Forward {
		sorts[4] = []string{"--remove-forward"}
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
		const notEnabled = 12 // NOT_ENABLED of firewall-cmd(1), EXIT CODES
		if r.exit != 0 && r.exit != notEnabled {
			return fail.New(fail.Step, "run it by hand to see more", "%s %s exited with %d: %s", p.name, strings.Join(p.args, " "), r.exit, r.last())
		}
	}
	return nil
}

// deleteRules deletes those of the rules that the live filter table still has,
// all in one step.
func (l *Linux) deleteRules(ctx context.Context, c change.ClosePorts) error {
	variant := strings.TrimPrefix(c.Backend, "iptables-")
	usual, err := l.usualVariant(ctx)
	if err != nil {
		return err
	}
	live, err := l.saved(ctx, variant, usual)
	if err != nil {
		return err
	}
	t, err := iptables.Filter(live[c.Family])
	if err != nil {
		return fmt.Errorf("the live filter table for %s: %w", c.Family, err)
	}
	rules := iptables.Present(t, c.Rules)
	if len(rules) == 0 {
		return nil
	}
	return l.restore(ctx, c.Family, variant, usual, iptables.Delete(rules))
}

// restore hands text to iptables-restore without flushing anything. The lock is
// shared with kube-proxy, which holds it for seconds at times.
func (l *Linux) restore(ctx context.Context, family, variant, usual, input string) error {
	for _, f := range families {
		if f.name != family {
			continue
		}
		name, err := l.variantProgram(f.program, variant, usual, "-restore")
		if err != nil {
			return err
		}
		_, err = l.must(ctx, program{name: name, args: []string{"--noflush", "--wait=30"}, stdin: []byte(input)})
		return err
	}
	return fmt.Errorf("there is no family %q", family)
}
