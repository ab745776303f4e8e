package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/vishvananda/netlink"

	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/network/netfile"
)

// Names of NetworkManager's D-Bus API.
const (
	nmName       = "org.freedesktop.NetworkManager"
	nmPath       = "/org/freedesktop/NetworkManager"
	nmDevice     = nmName + ".Device"
	nmActive     = nmName + ".Connection.Active"
	nmSettings   = nmName + ".Settings"
	nmConnection = nmSettings + ".Connection"
	nmCheckpoint = nmName + ".Checkpoint"
	nmSettingsAt = nmPath + "/Settings"
)

// nmExternal marks what NetworkManager found configured by others
// (NM_ACTIVATION_STATE_FLAG_EXTERNAL).
const nmExternal = 0x80

// nmAnswer bounds all questions to NetworkManager about one interface.
const nmAnswer = 25 * time.Second

// NetworkOwner asks NetworkManager over D-Bus and reads what systemd-networkd
// says of the link in /run. Neither is ever started by that.
func (l *Linux) NetworkOwner(ctx context.Context, name string) (NetworkOwner, error) {
	if !l.Live() {
		return NetworkOwner{}, ErrUnobservable
	}
	return once(l, "owner of "+name, func() (NetworkOwner, error) {
		ctx, cancel := context.WithTimeout(ctx, nmAnswer)
		defer cancel()
		nm, err := nmBus(ctx)
		if err != nil {
			return NetworkOwner{}, err
		}
		said := "NetworkManager doesn't run"
		if nm != nil {
			defer nm.Close()
			o, err := nm.owner(ctx, name)
			if err != nil || o.Manager != "" {
				return o, err
			}
			said = o.Said
		}
		o, err := l.networkdOwner(ctx, name)
		if o.Manager == "" {
			o.Said = said + "; " + o.Said
		}
		return o, err
	})
}

// networkManager is a connection to a running NetworkManager.
type networkManager struct{ *dbus.Conn }

// nmBus connects to NetworkManager; nil when it isn't running.
func nmBus(ctx context.Context) (*networkManager, error) {
	if _, err := os.Stat(systemBus); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	conn, err := dbus.Connect("unix:path="+systemBus, dbus.WithContext(ctx))
	if err != nil {
		return nil, fail.Wrap(fail.Step, err, "see: systemctl status dbus.service", "the system bus does not answer, so NetworkManager can't be asked")
	}
	var owned bool
	err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, nmName).Store(&owned)
	if err == nil && owned {
		return &networkManager{conn}, nil
	}
	conn.Close()
	if err != nil {
		err = fmt.Errorf("asking the system bus for NetworkManager: %w", err)
	}
	return nil, err
}

func (n *networkManager) call(ctx context.Context, path dbus.ObjectPath, method string, out []any, args ...any) error {
	c := n.Object(nmName, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if c.Err == nil && out != nil {
		return c.Store(out...)
	}
	return c.Err
}

// get reads properties into what values point at; one that this version
// doesn't have leaves its value as it is.
func (n *networkManager) get(ctx context.Context, path dbus.ObjectPath, of string, values map[string]any) error {
	var all map[string]dbus.Variant
	if err := n.call(ctx, path, "org.freedesktop.DBus.Properties.GetAll", []any{&all}, of); err != nil {
		return fmt.Errorf("asking NetworkManager for %s: %w", path, err)
	}
	for name, into := range values {
		if v, ok := all[name]; ok {
			if err := dbus.Store([]any{v.Value()}, into); err != nil {
				return fmt.Errorf("NetworkManager's %s of %s: %w", name, path, err)
			}
		}
	}
	return nil
}

// device is the path of an interface's device; empty when NetworkManager has
// none.
func (n *networkManager) device(ctx context.Context, name string) (dbus.ObjectPath, error) {
	var device dbus.ObjectPath
	err := n.call(ctx, nmPath, nmName+".GetDeviceByIpIface", []any{&device}, name)
	var e dbus.Error
	if errors.As(err, &e) && e.Name == nmName+".UnknownDevice" {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking NetworkManager for %s: %w", name, err)
	}
	return device, nil
}

func (n *networkManager) owner(ctx context.Context, name string) (NetworkOwner, error) {
	device, err := n.device(ctx, name)
	if err != nil || device == "" {
		return NetworkOwner{Said: "NetworkManager has no device " + name}, err
	}
	var managed bool
	var active dbus.ObjectPath
	if err := n.get(ctx, device, nmDevice, map[string]any{"Managed": &managed, "ActiveConnection": &active}); err != nil {
		return NetworkOwner{}, err
	}
	if !managed {
		return NetworkOwner{Said: "for NetworkManager it is unmanaged"}, nil
	}
	o := NetworkOwner{Manager: netfile.NetworkManager}
	if active == "" || active == "/" {
		return o, nil
	}
	var connection dbus.ObjectPath
	var flags uint32
	if err := n.get(ctx, active, nmActive, map[string]any{"Id": &o.Profile, "Uuid": &o.UUID, "Connection": &connection, "StateFlags": &flags}); err != nil {
		return o, err
	}
	if flags&nmExternal != 0 {
		return NetworkOwner{Said: "NetworkManager only watches it: something else has configured it"}, nil
	}
	if err := n.get(ctx, connection, nmConnection, map[string]any{"Filename": &o.File}); err != nil {
		return o, err
	}
	var settings map[string]map[string]dbus.Variant
	if err := n.call(ctx, connection, nmConnection+".GetSettings", []any{&settings}); err != nil {
		return o, fmt.Errorf("asking NetworkManager for the connection %s: %w", o.Profile, err)
	}
	plain := map[string]map[string]any{}
	for section, values := range settings {
		plain[section] = map[string]any{}
		for key, v := range values {
			plain[section][key] = v.Value()
		}
	}
	o.Zone, _ = plain["connection"]["zone"].(string)
	o.Losses = connectionLosses(plain)
	if o.UUID == netfile.UUID(name) { // others make checkpoints, too
		pending, err := n.checkpoints(ctx, device)
		if err != nil {
			return o, err
		}
		o.Pending = len(pending) > 0
	}
	return o, nil
}

// checkpoints are those that would take changes of a device back.
func (n *networkManager) checkpoints(ctx context.Context, device dbus.ObjectPath) ([]dbus.ObjectPath, error) {
	var all, out []dbus.ObjectPath
	if err := n.get(ctx, nmPath, nmName, map[string]any{"Checkpoints": &all}); err != nil {
		return nil, err
	}
	for _, c := range all {
		var devices []dbus.ObjectPath
		if n.get(ctx, c, nmCheckpoint, map[string]any{"Devices": &devices}) != nil {
			continue // it has just ended
		}
		if slices.Contains(devices, device) {
			out = append(out, c)
		}
	}
	return out, nil
}

// connectionLosses lists what a connection (nm-settings-dbus(5)) has that
// nodeagent's would not have.
func connectionLosses(settings map[string]map[string]any) []string {
	var out []string
	text := func(section, key string) string { s, _ := settings[section][key].(string); return s }
	if kind := text("connection", "type"); kind != "" && kind != "802-3-ethernet" {
		out = append(out, "connection.type "+kind)
	}
	for _, key := range []string{"master", "controller"} {
		if master := text("connection", key); master != "" {
			out = append(out, "connection."+key+" "+master)
		}
	}
	for _, key := range []string{"mtu", "speed"} {
		if n, _ := settings["802-3-ethernet"][key].(uint32); n != 0 {
			out = append(out, fmt.Sprintf("802-3-ethernet.%s %d", key, n))
		}
	}
	if mac := text("802-3-ethernet", "assigned-mac-address"); mac != "" {
		out = append(out, "802-3-ethernet.cloned-mac-address "+mac)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		for key, what := range map[string]string{"route-data": "static route(s)", "routing-rules": "routing rule(s)"} {
			if list, _ := settings[family][key].([]map[string]dbus.Variant); len(list) > 0 {
				out = append(out, fmt.Sprintf("%d %s in %s", len(list), what, family))
			}
		}
	}
	for section := range settings {
		if !slices.Contains([]string{"connection", "802-3-ethernet", "ipv4", "ipv6", "proxy", "user", "match"}, section) {
			out = append(out, "the section "+section)
		}
	}
	slices.Sort(out)
	return out
}

// networkdOwner reads what systemd-networkd wrote about the link, which
// sd-network reads, too.
func (l *Linux) networkdOwner(ctx context.Context, name string) (NetworkOwner, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return NetworkOwner{}, fmt.Errorf("there is no link %s: %w", name, err)
	}
	units, err := l.Units(ctx, []string{networkdUnit, rollbackUnit(name, ".timer")})
	if err != nil {
		return NetworkOwner{}, err
	}
	if units[networkdUnit].ActiveState != "active" {
		return NetworkOwner{Said: "systemd-networkd doesn't run"}, nil
	}
	state := netfile.Assignments(l.text(fmt.Sprintf("/run/systemd/netif/links/%d", link.Attrs().Index)))
	file := state["NETWORK_FILE"]
	if file == "" {
		return NetworkOwner{Said: "for systemd-networkd it is " + orElse(state["ADMIN_STATE"], "unknown")}, nil
	}
	o := NetworkOwner{Manager: netfile.Networkd, Profile: path.Base(file), File: file, Pending: units[rollbackUnit(name, ".timer")].ActiveState == "active"}
	for _, f := range append([]string{file}, strings.Split(state["NETWORK_FILE_DROPINS"], ":")...) {
		if f = strings.Trim(f, `"`); f != "" {
			o.Losses = append(o.Losses, netfile.Losses(l.text(f))...)
		}
	}
	return o, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
