// Package port is ranges of ports: how they are written, merged and covered.
// It is pure and imports nothing of this module.
package port

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is the ports Low to High, both included, of one protocol.
type Range struct {
	Low, High uint16
	Protocol  string // tcp, udp, sctp
}

// protocols are those with ports that a Kubernetes Service may have.
var protocols = []string{"tcp", "udp", "sctp"}

// Parse reads "10250/tcp" or "30000-32767/udp". Port 0 is no port, and a range
// runs upwards.
func Parse(s string) (Range, error) {
	ports, protocol, ok := strings.Cut(s, "/")
	if !ok {
		return Range{}, fmt.Errorf("%q has no protocol, as 10250/tcp has", s)
	}
	if !slices.Contains(protocols, protocol) {
		return Range{}, fmt.Errorf("%q: protocol %q isn't one of %s", s, protocol, strings.Join(protocols, ", "))
	}
	low, high, isRange := strings.Cut(ports, "-")
	r := Range{Protocol: protocol}
	var err error
	if r.Low, err = number(low); err != nil {
		return Range{}, fmt.Errorf("%q: %w", s, err)
	}
	r.High = r.Low
	if isRange {
		if r.High, err = number(high); err != nil {
			return Range{}, fmt.Errorf("%q: %w", s, err)
		}
	}
	if r.High < r.Low {
		return Range{}, fmt.Errorf("%q runs backwards", s)
	}
	return r, nil
}

func number(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '+' {
		return 0, fmt.Errorf("%q isn't a port from 1 to 65535", s)
	}
	return uint16(n), nil
}

// String is firewalld's notation: "30000-32767/tcp".
func (r Range) String() string { return r.Ports("-") + "/" + r.Protocol }

// Ports is the range without its protocol; between stands between the two
// ends: "-" for firewalld, ":" for iptables.
func (r Range) Ports(between string) string {
	if r.Low == r.High {
		return strconv.Itoa(int(r.Low))
	}
	return fmt.Sprintf("%d%s%d", r.Low, between, r.High)
}

// Merge sorts ranges by protocol and port and joins those that overlap.
// Neighbours stay apart, as their writer had them.
func Merge(ranges []Range) []Range { return join(ranges, 0) }

// Missing returns those of want, merged, that open doesn't cover. Several open
// ranges may cover one wanted range together. A range that is partly open is
// returned whole, since opening it again does no harm.
func Missing(want, open []Range) []Range {
	whole := join(open, 1)
	var out []Range
	for _, w := range Merge(want) {
		if !slices.ContainsFunc(whole, func(o Range) bool { return o.covers(w) }) {
			out = append(out, w)
		}
	}
	return out
}

func (r Range) covers(o Range) bool {
	return r.Protocol == o.Protocol && r.Low <= o.Low && o.High <= r.High
}

// join merges ranges with less than gap+1 ports from one end to the next start.
func join(ranges []Range, gap int) []Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High))
	})
	var out []Range
	for _, r := range sorted {
		if n := len(out) - 1; n >= 0 && out[n].Protocol == r.Protocol && int(r.Low) <= int(out[n].High)+gap {
			out[n].High = max(out[n].High, r.High)
			continue
		}
		out = append(out, r)
	}
	return out
}

// ParseAll reads a list and leaves out what isn't a range of ports; other is
// what was left out.
func ParseAll(list []string) (ranges []Range, other []string) {
	for _, s := range list {
		if r, err := Parse(s); err == nil {
			ranges = append(ranges, r)
		} else {
			other = append(other, s)
		}
	}
	return ranges, other
}

// Strings writes ranges in firewalld's notation.
func Strings(ranges []Range) []string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return out
}
