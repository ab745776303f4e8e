package host

import (
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

func TestWhatAConnectionHasThatOursWouldNot(t *testing.T) {
	type values = map[string]any
	plain := func() map[string]values {
		return map[string]values{
			"connection":     {"id": "eth0", "type": "802-3-ethernet", "zone": "public", "autoconnect": true},
			"802-3-ethernet": {"mac-address": []byte{1, 2, 3, 4, 5, 6}, "mtu": uint32(0), "s390-options": map[string]string{}},
			"ipv4":           {"method": "auto", "route-data": []map[string]dbus.Variant{}, "dns": []uint32{}},
			"ipv6":           {"method": "auto"},
			"proxy":          {},
		}
	}
	require.Empty(t, connectionLosses(plain()))
	routes := []map[string]dbus.Variant{{"dest": dbus.MakeVariant("198.51.100.0")}}
	for what, set := range map[string]func(map[string]values){
		"connection.type bond":        func(s map[string]values) { s["connection"]["type"] = "bond" },
		"connection.master bond0":     func(s map[string]values) { s["connection"]["master"] = "bond0" },
		"connection.controller bond0": func(s map[string]values) { s["connection"]["controller"] = "bond0" },
		"802-3-ethernet.mtu 9000":     func(s map[string]values) { s["802-3-ethernet"]["mtu"] = uint32(9000) },
		"802-3-ethernet.cloned-mac-address random": func(s map[string]values) {
			s["802-3-ethernet"]["assigned-mac-address"] = "random"
		},
		"1 static route(s) in ipv4": func(s map[string]values) { s["ipv4"]["route-data"] = routes },
		"1 routing rule(s) in ipv6": func(s map[string]values) { s["ipv6"]["routing-rules"] = routes },
		"the section 802-1x":        func(s map[string]values) { s["802-1x"] = values{} },
	} {
		s := plain()
		set(s)
		require.Equal(t, []string{what}, connectionLosses(s))
	}
}
