// Package netfile reads what systemd-networkd says of a link and the files it
// configures it by, and knows where nodeagent's own files lie. Text in, values
// out.
package netfile

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
)

// The managers that nodeagent configures interfaces through.
const (
	NetworkManager = "NetworkManager"
	Networkd       = "systemd-networkd"
)

// Head begins every file of nodeagent's here; one without it is somebody
// else's.
const Head = "# Written by nodeagent: "

// Path is where nodeagent's configuration of an interface lies, and its mode:
// NetworkManager takes no keyfile that others than root can read
// (nm-settings-keyfile(5)).
func Path(manager, name string) (path, mode string) {
	if manager == NetworkManager {
		return "/etc/NetworkManager/system-connections/nodeagent-" + name + ".nmconnection", "0600"
	}
	return "/etc/systemd/network/10-nodeagent-" + name + ".network", "0644"
}

// UUID is that of NetworkManager's connection of an interface: always the same
// for a name, so that a second run writes the same file (RFC 4122, version 5).
func UUID(name string) string {
	s := sha1.Sum([]byte("nodeagent/interface/" + name))
	s[6], s[8] = s[6]&0x0f|0x50, s[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", s[0:4], s[4:6], s[6:8], s[8:10], s[10:16])
}

// Assignments reads lines of KEY=VALUE, as in /run/systemd/netif/links/INDEX.
// What isn't one is left out.
func Assignments(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && key != "" && key[0] != '#' {
			out[key] = value
		}
	}
	return out
}

// ours are the keys of systemd.network(5), by section, whose meaning is in
// nodeagent's own file, too, or that only tell how DHCP and router
// advertisements are used. A nil list is every key of the section.
var ours = map[string][]string{
	"Match":        nil,
	"Network":      {"Description", "DHCP", "Address", "Gateway", "DNS", "Domains", "LinkLocalAddressing", "IPv6AcceptRA", "LLDP", "EmitLLDP"},
	"Address":      {"Address"},
	"Link":         {"RequiredForOnline", "RequiredFamilyForOnline"},
	"DHCP":         nil,
	"DHCPv4":       nil,
	"DHCPv6":       nil,
	"IPv6AcceptRA": nil,
}

// Losses lists what a file of systemd.network(5) says that would be gone with
// nodeagent's file in its place: static routes, MTU, VLANs and whatever else
// nodeagent doesn't write. Each entry is as it stands there, sorted, once.
func Losses(text string) []string {
	var out []string
	section, route := "", map[string]string(nil)
	flush := func() {
		if route != nil && !defaultRoute(route) {
			out = append(out, "[Route] Destination="+route["Destination"])
		}
		route = nil
	}
	for _, line := range logical(text) {
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			flush()
			if section = line[1 : len(line)-1]; section == "Route" {
				route = map[string]string{}
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		keys, known := ours[section]
		switch {
		case !ok || value == "": // nothing, or the list begins anew
		case route != nil:
			route[key] = value
		case !known || keys != nil && !slices.Contains(keys, key):
			out = append(out, fmt.Sprintf("[%s] %s=%s", section, key, value))
		}
	}
	flush()
	slices.Sort(out)
	return slices.Compact(out)
}

// logical are the lines without comments and empty ones, and with those put
// together that end in a backslash (systemd.syntax(7)).
func logical(text string) []string {
	var out []string
	begun := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if part, more := strings.CutSuffix(line, `\`); more {
			begun += part + " "
			continue
		}
		out, begun = append(out, begun+line), ""
	}
	if begun != "" {
		out = append(out, strings.TrimSpace(begun))
	}
	return out
}

// defaultRoute tells whether a section [Route] is a default route and nothing
// else: the gateway has a place of its own in nodeagent's configuration.
func defaultRoute(route map[string]string) bool {
	to := route["Destination"]
	if to != "" && to != "0.0.0.0/0" && to != "::/0" {
		return false
	}
	for key := range route {
		if !slices.Contains([]string{"Gateway", "Destination", "Metric"}, key) {
			return false
		}
	}
	return true
}
