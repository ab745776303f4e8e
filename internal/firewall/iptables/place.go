package iptables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nodeagent/internal/firewall/port"
)

// Insert is a rule that is missing and its place.
type Insert struct {
	Rule Rule
	// Before is the one-based number in its chain of the rule that it must
	// stand before, 0 for the end.
	Before int
	// Line is the zero-based line of that rule, or of COMMIT.
	Line int
}

// Missing returns those rules of want (lines such as "-A INPUT -p tcp -m tcp
// --dport 10250 -j ACCEPT") without which the table would not accept what they
// accept. A rule that stands behind one that rejects everything accepts nothing,
// so each gets a place before it. A chain that rejects nothing needs no rule.
// node is the interface by which the node is reached: a rule for another one
// alone rejects nothing that matters; empty when it isn't known.
func (t Table) Missing(want []string, node string) ([]Insert, error) {
	var out []Insert
	for _, line := range want {
		w, op, err := parseRule(line)
		if err != nil || op != 'A' {
			return nil, fmt.Errorf("%q is no rule to add: %w", line, err)
		}
		place := Insert{Rule: w, Line: t.End}
		at, fate := (walker{t, node, map[string]fate{}}).walk(w.Chain, w, nil)
		switch fate {
		case accepted:
			continue
		case passed:
			if t.Policy[w.Chain] != "DROP" {
				continue
			}
		case rejected:
			place.Before, place.Line = at+1, t.Chains[w.Chain][at].Line
		}
		out = append(out, place)
	}
	return out, nil
}

// Denied tells of rules that reject a part of what want accepts on purpose,
// before anything accepts it: they stay, and what they reject stays closed.
func (t Table) Denied(want []string) []string {
	var out []string
	for _, line := range want {
		w, op, err := parseRule(line)
		if err != nil || op != 'A' {
			continue
		}
		for _, r := range t.Chains[w.Chain] {
			if r.Target != "DROP" && r.Target != "REJECT" || r.Other || len(r.Ports) == 0 || r.Protocol != w.Protocol || len(w.Ports) == 0 {
				continue
			}
			if r.Source == "" && r.Dest == "" && r.In != "lo" && overlap(r.Ports, w.Ports) && !slices.Contains(out, r.Text) {
				out = append(out, r.Text)
			}
		}
	}
	return out
}

func overlap(a, b []port.Range) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Protocol == y.Protocol && x.Low <= y.High && y.Low <= x.High {
				return true
			}
		}
	}
	return false
}

// fate is what becomes of the packets that a wanted rule is for.
type fate int

const (
	passed   fate = iota // no rule decides
	accepted             // all are accepted
	rejected             // some may be rejected
)

// walker follows packets.
type walker struct {
	Table
	node string
	// been has the chains walked so far, so that each is walked once, however
	// often it is jumped to, and a loop ends.
	been map[string]fate
}

// walk follows the packets of w through a chain, and the chains it jumps to.
// at is the zero-based rule that rejects. open collects ports accepted on the
// way, since several rules may accept a range together.
func (t walker) walk(chain string, w Rule, open []port.Range) (at int, f fate) {
	t.been[chain] = passed
	defer func() { t.been[chain] = f }()
	for i, r := range t.Chains[chain] {
		switch r.Target {
		case "ACCEPT":
			if !r.accepts(w) {
				continue
			}
			open = append(open, r.Ports...)
			if len(r.Ports) == 0 || len(w.Ports) > 0 && len(port.Missing(w.Ports, open)) == 0 {
				return i, accepted
			}
		case "DROP", "REJECT":
			if r.concerns(w, t.node) {
				return i, rejected
			}
		case "RETURN":
			if r.accepts(w) && len(r.Ports) == 0 {
				return i, passed
			}
		default:
			if ofTheCluster(r.Target) || !r.concerns(w, t.node) {
				continue
			}
			sub, known := t.been[r.Target]
			if !known {
				_, sub = t.walk(r.Target, w, open)
			}
			if sub == rejected || sub == accepted && r.accepts(w) {
				return i, sub
			} else if r.Goto && r.accepts(w) {
				return i, passed
			}
		}
	}
	return 0, passed
}

// accepts tells whether the rule's conditions hold for every packet of w, its
// ports aside.
func (r Rule) accepts(w Rule) bool {
	return !r.Other && (r.Protocol == "" || r.Protocol == w.Protocol) &&
		(r.In == "" || w.In != "" && interfaces(r.In, w.In)) && (r.Out == "" || w.Out != "" && interfaces(r.Out, w.Out)) &&
		within(r.Source, w.Source) && within(r.Dest, w.Dest) && r.begins() && (r.ICMPType == "" || r.ICMPType == w.ICMPType)
}

// concerns tells whether the rule is meant for packets in general and some of
// w's are among them. Rules for certain addresses or ports are somebody's
// intention and not meant.
func (r Rule) concerns(w Rule, node string) bool {
	return !r.Other && (r.Protocol == "" || w.Protocol == "" || r.Protocol == w.Protocol) && r.In != "lo" &&
		meet(r.In, cmp.Or(w.In, node)) && meet(r.Out, cmp.Or(w.Out, node)) && everywhere(r.Source) && everywhere(r.Dest) &&
		len(r.Ports) == 0 && r.ICMPType == "" && r.begins()
}

// ofTheCluster tells whether a chain belongs to kube-proxy, kubelet, a network
// plugin or Docker. What they reject is their business, and they put their jumps
// first again whenever they are not.
func ofTheCluster(chain string) bool {
	return ofACluster(chain) || strings.HasPrefix(chain, "DOCKER")
}

// Rejects tells whether the table keeps anything out or from being forwarded
// that isn't the cluster's own doing.
func (t Table) Rejects() bool {
	for _, chain := range []string{"INPUT", "FORWARD"} {
		if t.Policy[chain] == "DROP" {
			return true
		}
		for _, r := range t.Chains[chain] {
			if r.Target != "ACCEPT" && r.Target != "" && !ofTheCluster(r.Target) && r.Target != "LOG" {
				return true
			}
		}
	}
	return false
}

// begins tells whether the rule is for packets that begin a connection.
func (r Rule) begins() bool { return len(r.States) == 0 || slices.Contains(r.States, "NEW") }

func everywhere(address string) bool { return within(address, "0.0.0.0/0") || within(address, "::/0") }

// meet tells whether two interface patterns can match the same interface.
func meet(a, b string) bool {
	return a == "" || b == "" || interfaces(a, b) || interfaces(b, a)
}

// Edit adds the missing rules to the text of a file, each before the rule it
// must stand before, or before the filter table's COMMIT. Every other byte
// stays.
func Edit(text string, want []string, node string) (string, error) {
	t, err := Filter(text)
	if err != nil {
		return text, err
	}
	if !t.Found {
		return text, nil // without a filter table everything is accepted
	}
	inserts, err := t.Missing(want, node)
	if err != nil {
		return text, err
	}
	lines := strings.SplitAfter(text, "\n")
	slices.SortStableFunc(inserts, func(a, b Insert) int { return a.Line - b.Line })
	var b strings.Builder
	for n, line := range lines {
		for len(inserts) > 0 && inserts[0].Line == n {
			b.WriteString(inserts[0].Rule.Text + "\n")
			inserts = inserts[1:]
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// Restore is the input for iptables-restore --noflush that inserts the missing
// rules in one step, or empty when none is missing.
func Restore(live string, want []string, node string) (string, error) {
	t, err := Filter(live)
	if err != nil {
		return "", err
	}
	inserts, err := t.Missing(want, node)
	if err != nil || len(inserts) == 0 {
		return "", err
	}
	var b strings.Builder
	b.WriteString("*filter\n")
	shift := map[string]int{} // rules inserted in this chain so far
	slices.SortStableFunc(inserts, func(x, y Insert) int {
		if x.Before == 0 || y.Before == 0 {
			return y.Before - x.Before // those for the end last
		}
		return x.Before - y.Before
	})
	for _, in := range inserts {
		rest := strings.TrimPrefix(in.Rule.Text, "-A "+in.Rule.Chain)
		if in.Before == 0 {
			fmt.Fprintf(&b, "-A %s%s\n", in.Rule.Chain, rest)
			continue
		}
		fmt.Fprintf(&b, "-I %s %d%s\n", in.Rule.Chain, in.Before+shift[in.Rule.Chain], rest)
		shift[in.Rule.Chain]++
	}
	b.WriteString("COMMIT\n")
	return b.String(), nil
}
