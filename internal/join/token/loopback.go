package token

import (
	"net"
	"strings"
)

// Loopback tells whether a host name of a URL is this very host, so that what
// is sent there passes no network.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
