package hosttest

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/network/netfile"
)

const resolvConf = "/etc/resolv.conf"

// netState is what a manager remembers of an interface.
type netState struct {
	owner     host.NetworkOwner
	addresses []host.Address
	defaults  []host.Route
	late      *host.Route
	resolv    File
	file      *File // nodeagent's own
}

// NetworkOwner is the owner of an interface that the world has been given.
func (w *World) NetworkOwner(_ context.Context, name string) (host.NetworkOwner, error) {
	o, ok := w.Owners[name]
	if !ok {
		o.Said = "NetworkManager doesn't run; systemd-networkd doesn't run"
	}
	return o, nil
}

// Leased gives a host one card that manager has and that DHCP gave an address.
func (w *World) Leased(manager, mac, address string) *World {
	p := netip.MustParsePrefix(address)
	w.Net.Links = []host.Link{{Name: "eth0", State: "up", Card: true, MAC: mac, Kind: "device"}}
	w.Net.Addresses = []host.Address{{Interface: "eth0", IP: p.Addr().String(), Prefix: p.Bits(), Dynamic: true}}
	o := host.NetworkOwner{Manager: manager, Profile: "99-dhcp-en.network", File: "/etc/systemd/network/99-dhcp-en.network"}
	if manager == netfile.NetworkManager {
		o = host.NetworkOwner{Manager: manager, Profile: "eth0", UUID: "11111111-2222-3333-4444-555555555555", File: "/etc/NetworkManager/system-connections/eth0.nmconnection", Zone: "public"}
	}
	w.Owners = map[string]host.NetworkOwner{"eth0": o}
	w.put(o.File, "# theirs\n")
	return w
}

func (w *World) netState(c change.SetInterface) netState {
	s := netState{owner: w.Owners[c.Interface], addresses: w.Net.Addresses, defaults: w.Net.Defaults, late: w.LateRoute, resolv: w.Files[resolvConf]}
	if f, ok := w.Files[c.Path]; ok {
		s.file = &f
	}
	return s
}

func (w *World) setNetState(link, path string, s netState) {
	w.Owners = maps.Clone(w.Owners)
	w.Owners[link] = s.owner
	w.Net.Addresses, w.Net.Defaults, w.LateRoute = s.addresses, s.defaults, s.late
	w.Files[resolvConf] = s.resolv
	if delete(w.Files, path); s.file != nil {
		w.Files[path] = *s.file
	}
}

// setInterface activates a configuration that is taken back unless it is
// confirmed, which is an effect of its own.
func (w *World) setInterface(c change.SetInterface) error {
	if err := w.writable(c.Path); err != nil {
		return err
	}
	if s, ok := w.unconfirmed[c.Interface]; ok && w.Owners[c.Interface].Pending {
		w.setNetState(c.Interface, c.Path, s)
	}
	s := w.netState(c)
	w.unconfirmed = with(w.unconfirmed, c.Interface, s)
	if s.file == nil {
		w.original = with(w.original, c.Interface, s)
	}
	w.Files[c.Path] = File{Content: c.Content, Mode: c.Mode, Modified: w.now()}
	o := host.NetworkOwner{Manager: c.Manager, Pending: true, File: c.Path}
	servers, search := []string{}, []string{}
	for line := range strings.Lines(c.Content) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields := strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == ' ' })
		switch key {
		case "dns", "DNS":
			servers = append(servers, fields...)
		case "dns-search", "Domains":
			search = append(search, fields...)
		case "zone":
			o.Zone = value
		case "id":
			o.Profile = value
		case "uuid":
			o.UUID = value
		}
	}
	if c.Manager == netfile.Networkd {
		o.Profile = c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	}
	w.Owners = with(w.Owners, c.Interface, o)
	w.Net.Addresses = slices.DeleteFunc(slices.Clone(w.Net.Addresses), func(a host.Address) bool { return a.Interface == c.Interface })
	for _, a := range c.Addresses {
		ip, bits, _ := strings.Cut(a, "/")
		n, err := strconv.Atoi(bits)
		if err != nil {
			return err
		}
		w.Net.Addresses = append(w.Net.Addresses, host.Address{Interface: c.Interface, IP: ip, Prefix: n})
	}
	if c.Gateway != "" {
		w.LateRoute = nil
		w.Net.Defaults = []host.Route{{Family: host.Address{IP: c.Gateway}.Family(), Interface: c.Interface, Gateway: c.Gateway, Metric: 100}}
	}
	text := "search " + strings.Join(search, " ") + "\n"
	for _, s := range servers {
		text += "nameserver " + s + "\n"
	}
	w.Files[resolvConf] = File{Content: text}
	return nil
}

func (w *World) confirmInterface(c change.SetInterface) error {
	o := w.Owners[c.Interface]
	o.Pending = false
	w.Owners = with(w.Owners, c.Interface, o)
	return nil
}

func (w *World) resetInterface(c change.ResetInterface) {
	w.setNetState(c.Interface, c.Path, w.original[c.Interface])
}

// with is a copy of a map with one more entry, since clones share maps.
func with[V any](m map[string]V, key string, v V) map[string]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]V{}
	}
	out[key] = v
	return out
}
