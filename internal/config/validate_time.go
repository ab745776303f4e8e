package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// serverName is a host name (RFC 1123). It becomes a word of chrony's and
// systemd's configuration, so nothing else may stand in it.
var serverName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// time checks where the host gets its time.
func (k *checker) time(s *Spec) {
	for i, server := range s.Time.Servers {
		at := fmt.Sprintf("spec.time.servers[%d]", i)
		ip, err := netip.ParseAddr(server)
		switch {
		case err == nil && ip.Zone() != "":
			k.bad(at, "give an address that is the same on every link", "%s is an address of one link only", server)
		case err != nil && (!serverName.MatchString(server) || len(server) > 253):
			k.bad(at, "a host name or an IP address, without port and options", "%q can't name an NTP server", server)
		case slices.Contains(s.Time.Servers[:i], server):
			k.bad(at, "", "the server %s is given twice", server)
		}
	}
	if s.Time.SyncTimeout.Duration < 0 {
		k.bad("spec.time.syncTimeout", "0 doesn't wait", "%s is less than nothing", s.Time.SyncTimeout.Duration)
	}
}
