// Package sockets reads the kernel's tables of TCP sockets.
package sockets

import (
	"strconv"
	"strings"
)

// listening is TCP_LISTEN in include/net/tcp_states.h.
const listening = "0A"

// Listener returns the inode of a socket that listens on a port, from the text
// of /proc/net/tcp or tcp6 (proc(5)); ok is false when none does.
func Listener(table string, port uint16) (inode uint64, ok bool) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listening {
			continue
		}
		_, hex, found := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(hex, 16, 16)
		if !found || err != nil || uint16(n) != port {
			continue
		}
		inode, _ = strconv.ParseUint(f[9], 10, 64) // unreadable: the owner isn't known
		return inode, true
	}
	return 0, false
}
