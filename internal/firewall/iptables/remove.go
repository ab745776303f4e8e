package iptables

import (
	"slices"
	"strings"
)

// Present are those of the rules, written as iptables-save prints them, that
// the table has.
func Present(t Table, rules []string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool {
		for _, chain := range t.Chains {
			if slices.ContainsFunc(chain, func(r Rule) bool { return sameRule(r.Text, rule) }) {
				return false
			}
		}
		return true
	})
}

// sameRule compares rules but for the counters and quotes that iptables-save adds.
func sameRule(a, b string) bool {
	wa, errA := words(a)
	wb, errB := words(b)
	if len(wa) > 0 && counters.MatchString(wa[0]) {
		wa = wa[1:]
	}
	return errA == nil && errB == nil && slices.Equal(wa, wb)
}

// Delete is the input for iptables-restore --noflush that deletes rules from
// the filter table in one step.
func Delete(rules []string) string {
	var b strings.Builder
	b.WriteString("*filter\n")
	for _, r := range rules {
		b.WriteString("-D " + strings.TrimPrefix(r, "-A ") + "\n")
	}
	b.WriteString("COMMIT\n")
	return b.String()
}
