package hosttest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rulesIn is a filter table as iptables keeps it: chains in their order, and
// the rules of each.
type rulesIn struct {
	chains []string
	policy map[string]string
	rules  map[string][]string // without "-A CHAIN "
}

// run carries out the commands of a text for iptables-restore(8) that knows the
// filter table only. With flush the table is emptied first.
func (t *rulesIn) run(text string, flush bool) error {
	if flush || t.policy == nil {
		*t = rulesIn{policy: map[string]string{}, rules: map[string][]string{}}
	}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			table = line[1:]
		case line == "COMMIT":
			table = ""
		case table != "filter":
			return fmt.Errorf("iptables-restore: %q is outside of the filter table", line)
		case line[0] == ':':
			t.chains, t.policy[f[0][1:]] = append(t.chains, f[0][1:]), f[1]
		case f[0] == "-A" || f[0] == "-I":
			if err := t.insert(f[0], f[1], line); err != nil {
				return err
			}
		default:
			return fmt.Errorf("iptables-restore: line %q failed", line)
		}
	}
	if table != "" {
		return fmt.Errorf("iptables-restore: COMMIT expected")
	}
	return nil
}

func (t *rulesIn) insert(command, chain, line string) error {
	if !slices.Contains(t.chains, chain) {
		return fmt.Errorf("iptables-restore: no chain by the name %s", chain)
	}
	rule := strings.TrimSpace(strings.TrimPrefix(line, command+" "+chain))
	at := len(t.rules[chain])
	if command == "-I" {
		at = 0
		if number, rest, ok := strings.Cut(rule, " "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				at, rule = n-1, rest
			}
		}
	}
	if at < 0 || at > len(t.rules[chain]) {
		return fmt.Errorf("iptables-restore: index of insertion too big in %q", line)
	}
	t.rules[chain] = slices.Insert(t.rules[chain], at, rule)
	return nil
}

// save prints the table as iptables-save(8) does, chain by chain.
func (t *rulesIn) save() string {
	var b strings.Builder
	b.WriteString("*filter\n")
	for _, c := range t.chains {
		fmt.Fprintf(&b, ":%s %s [0:0]\n", c, t.policy[c])
	}
	for _, c := range t.chains {
		for _, r := range t.rules[c] {
			fmt.Fprintf(&b, "-A %s %s\n", c, r)
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// loaded is what iptables-save prints after a file of rules was loaded.
func loaded(file string) string {
	var t rulesIn
	if err := t.run(file, true); err != nil {
		panic(err) // the files are written in this package
	}
	return t.save()
}

// restore is a live table after iptables-restore --noflush.
func restore(live, input string) (string, error) {
	var t rulesIn
	if err := t.run(live, true); err != nil {
		return live, err
	}
	if err := t.run(input, false); err != nil {
		return live, err
	}
	return t.save(), nil
}
