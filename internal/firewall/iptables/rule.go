package iptables

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/firewall/port"
)

// Rule is one rule of the filter table, as far as it matters here.
type Rule struct {
	Chain  string
	Text   string // "-A INPUT -p tcp …", as written
	Line   int    // zero-based, in the text it was read from
	Target string // ACCEPT, DROP, REJECT, a chain; empty when it only counts
	// What a packet must be to match; empty matches all.
	Protocol     string // by number where the name is known: "6"
	In, Out      string // interface patterns: "eth0", "lxc+"
	Source, Dest string
	Ports        []port.Range
	States       []string
	ICMPType     string
	Comment      string
	Other        bool // it has a condition that isn't understood here
	Goto         bool
}

// protocolNumbers has the names that iptables prints for protocols; which one
// depends on /etc/protocols.
var protocolNumbers = map[string]string{
	"all": "", "0": "", "tcp": "6", "udp": "17", "sctp": "132", "icmp": "1", "ipv6-icmp": "58", "icmpv6": "58", "icmp6": "58", "ipencap": "4", "ipv4": "4", "ipip": "4",
}

// portProtocol names a protocol number that has ports, as package port does.
var portProtocol = map[string]string{"6": "tcp", "17": "udp", "132": "sctp"}

// understood are match modules whose options are all read below, or say
// nothing by themselves (iptables-extensions(8)).
var understood = []string{"tcp", "udp", "sctp", "icmp", "icmp6", "icmpv6", "ipv6-icmp", "multiport", "conntrack", "state", "comment"}

// parseRule reads one rule line; op is A or I, 0 for anything else, which a
// save doesn't have.
func parseRule(line string) (Rule, byte, error) {
	r := Rule{Text: line}
	w, err := words(line)
	if err != nil {
		return r, 0, err
	}
	if len(w) > 0 && counters.MatchString(w[0]) { // iptables-save -c
		w = w[1:]
	}
	var op byte
	var ports []string
	negated := false
	for i := 0; i < len(w); i++ {
		name, value := w[i], ""
		if strings.HasPrefix(name, "--") {
			if n, v, ok := strings.Cut(name, "="); ok {
				name, value = n, v
				w[i] = v
				i--
			}
		}
		next := func() string {
			i++
			if i >= len(w) {
				return ""
			}
			value = w[i]
			if value == "!" { // the old place of the negation
				negated = true
				i++
				if i < len(w) {
					value = w[i]
				}
			}
			return value
		}
		if name == "!" {
			negated = true
			continue
		}
		condition := true
		switch name {
		case "-A", "--append":
			op, r.Chain, condition = 'A', next(), false
		case "-I", "--insert":
			op, r.Chain, condition = 'I', next(), false
			if i+1 < len(w) && strings.Trim(w[i+1], "0123456789") == "" {
				i++
			}
		case "-p", "--protocol", "--proto":
			v := strings.ToLower(next())
			if n, known := protocolNumbers[v]; known {
				v = n
			}
			r.Protocol = v
		case "-s", "--source", "--src":
			r.Source = next()
		case "-d", "--destination", "--dst":
			r.Dest = next()
		case "-i", "--in-interface":
			r.In = next()
		case "-o", "--out-interface":
			r.Out = next()
		case "-m", "--match":
			if !slices.Contains(understood, next()) {
				r.Other = true
			}
			condition = false
		case "--dport", "--destination-port", "--dports", "--destination-ports":
			ports = append(ports, strings.Split(next(), ",")...)
		case "--ctstate", "--state":
			r.States = strings.Split(next(), ",")
		case "--icmp-type", "--icmpv6-type":
			r.ICMPType = icmpType(next())
		case "--syn": // what begins a connection, which is all that counts here
		case "--tcp-flags":
			if mask := next(); mask != "FIN,SYN,RST,ACK" || next() != "SYN" {
				r.Other = true
			}
		case "--comment":
			r.Comment, condition = next(), false
		case "-j", "--jump":
			r.Target, condition = next(), false
		case "-g", "--goto":
			r.Target, r.Goto, condition = next(), true, false
		case "--reject-with", "--log-prefix", "--log-level":
			next()
			condition = false
		default:
			// Options of targets come after the target and are no conditions.
			if r.Target == "" {
				r.Other = true
			}
			condition = false
		}
		if condition && negated {
			r.Other = true
		}
		negated = false
	}
	if op == 0 {
		return r, 0, nil
	}
	if r.Chain == "" {
		return r, 0, fmt.Errorf("%q names no chain", line)
	}
	r.addPorts(ports)
	return r, op, nil
}

// addPorts reads the ports of a rule; service names aren't resolved.
func (r *Rule) addPorts(list []string) {
	protocol := portProtocol[r.Protocol]
	for _, s := range list {
		low, high, isRange := strings.Cut(s, ":")
		if isRange {
			s = cmp.Or(low, "1") + "-" + cmp.Or(high, "65535")
		}
		p, err := port.Parse(s + "/" + protocol)
		if err != nil {
			r.Other = true
			continue
		}
		r.Ports = append(r.Ports, p)
	}
}

// icmpType gives the numbers of the types that matter here.
func icmpType(s string) string {
	switch s {
	case "echo-request", "ping":
		return "echo-request"
	case "8", "8/0", "128", "128/0": // of IPv4 and of IPv6; a rule is of one family
		return "echo-request"
	case "any", "255":
		return ""
	}
	return s
}

// interfaces tells whether pattern a matches every interface that b matches;
// both may end in "+".
func interfaces(a, b string) bool {
	prefix, wild := strings.CutSuffix(a, "+")
	if !wild {
		return a == b
	}
	return strings.HasPrefix(strings.TrimSuffix(b, "+"), prefix)
}

// within tells whether the addresses of a hold those of b; empty is all.
func within(a, b string) bool {
	if a == "" || a == b {
		return true
	}
	x, okX := prefix(a)
	y, okY := prefix(b)
	if okX && x.Bits() == 0 {
		return true
	}
	return okX && okY && x.Bits() <= y.Bits() && x.Contains(y.Addr())
}

func prefix(s string) (netip.Prefix, bool) {
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		return netip.PrefixFrom(ip, ip.BitLen()), err == nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil
}
