// Package iptables reads the text that iptables-save(8) writes and
// iptables-restore(8) reads, tells which rules are missing in it, and where they
// must stand to have an effect. It is pure.
package iptables

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Table is one filter table.
type Table struct {
	// Policy of the built-in chains: ACCEPT or DROP. A chain without one
	// accepts.
	Policy map[string]string
	Chains map[string][]Rule
	// End is the zero-based line of its COMMIT.
	End int
	// Malformed are lines that are bent but that iptables-restore takes, each as a sentence.
	Malformed []string
	// Found is false when the text has no filter table.
	Found bool
}

// chainLine is ":INPUT DROP [0:0]"; the counters may be left out.
var chainLine = regexp.MustCompile(`^:(\S+)\s+(\S+)\s*(\S*)\s*$`)

// counters are "[packets:bytes]".
var counters = regexp.MustCompile(`^\[\d+:\d+\]$`)

// Filter reads the filter table. Of several the last counts, as it does for
// iptables-restore, which replaces the table with each. Other tables are
// skipped. An error names the line.
func Filter(text string) (Table, error) {
	var t Table
	table, start := "", 0
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		at := func(format string, a ...any) error {
			return fmt.Errorf("line %d: "+format, append([]any{n + 1}, a...)...)
		}
		if strings.Contains(line, "incompatible") && strings.Contains(line, "use 'nft' tool") {
			return t, at("the filter table has chains that only nft can show: %s", line)
		}
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '*':
			if table != "" {
				return t, at("table %s, begun in line %d, has no COMMIT", table, start)
			}
			table, start = line[1:], n+1
			if table == "filter" {
				t = Table{Policy: map[string]string{}, Chains: map[string][]Rule{}, Found: true}
			}
			continue
		case table == "":
			return t, at("%q is outside of a table", line)
		case line == "COMMIT":
			if table == "filter" {
				t.End = n
			}
			table = ""
			continue
		case table != "filter":
			continue
		case line[0] == ':':
			m := chainLine.FindStringSubmatch(line)
			if m == nil {
				return t, at("%q isn't a chain such as \":INPUT DROP [0:0]\"", line)
			}
			if m[3] != "" && !counters.MatchString(m[3]) {
				t.Malformed = append(t.Malformed, fmt.Sprintf("line %d: %q has counters that aren't [packets:bytes]", n+1, line))
			}
			if m[2] != "-" {
				t.Policy[m[1]] = m[2]
			}
			if _, there := t.Chains[m[1]]; !there {
				t.Chains[m[1]] = nil
			}
			continue
		}
		r, op, err := parseRule(line)
		if err != nil {
			return t, at("%w", err)
		}
		r.Line = n
		switch op {
		case 'A':
			t.Chains[r.Chain] = append(t.Chains[r.Chain], r)
		case 'I': // by hand in a file; without a number it is the first
			t.Chains[r.Chain] = slices.Insert(t.Chains[r.Chain], 0, r)
		}
	}
	if table != "" {
		return t, fmt.Errorf("table %s, begun in line %d, has no COMMIT", table, start)
	}
	return t, nil
}

// Rules counts the rules of all chains.
func (t Table) Rules() int {
	n := 0
	for _, c := range t.Chains {
		n += len(c)
	}
	return n
}

// words splits a line as iptables-restore does: at blanks, with double quotes
// and backslashes inside them. (Single quotes mean nothing to it before 1.8.8.)
func words(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	quote, inWord := rune(0), false
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case quote != 0 && c == '\\':
			escaped = true
		case c == quote && quote != 0:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\r':
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q has a quote without its end", line)
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}
