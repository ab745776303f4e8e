package iptables

import (
	"slices"
	"strings"
)

// clusterChains are how the chains of kube-proxy, kubelet and network plugins
// begin.
var clusterChains = []string{"KUBE-", "cali-", "CILIUM_", "OLD_CILIUM_", "FLANNEL-", "CNI-", "OVN-", "WEAVE"}

// ofACluster tells whether a chain has the name of one of those.
func ofACluster(chain string) bool {
	return slices.ContainsFunc(clusterChains, func(prefix string) bool { return strings.HasPrefix(chain, prefix) })
}

// ClusterChains lists the chains of a cluster in what iptables-save prints of all
// tables: "nat KUBE-SERVICES".
func ClusterChains(text string) []string {
	var out []string
	eachLine(text, func(table, line string) {
		if m := chainLine.FindStringSubmatch(line); m != nil && ofACluster(m[1]) {
			out = append(out, table+" "+m[1])
		}
	})
	return out
}

// DropChains is the input for iptables-restore --noflush that removes chains,
// named as ClusterChains does, and the rules elsewhere that jump to them: each
// by its name or its own text, all of a table in one step. Every other rule
// stays. It is empty when none of the chains is there.
func DropChains(text string, chains []string) string {
	var order []string
	jumps, drops := map[string][]string{}, map[string][]string{}
	there := func(table, chain string) bool { return slices.Contains(chains, table+" "+chain) }
	eachLine(text, func(table, line string) {
		if m := chainLine.FindStringSubmatch(line); m != nil {
			if there(table, m[1]) {
				if len(drops[table]) == 0 {
					order = append(order, table)
				}
				drops[table] = append(drops[table], m[1])
			}
			return
		}
		r, op, err := parseRule(line)
		if err != nil || op != 'A' || there(table, r.Chain) || !there(table, r.Target) {
			return
		}
		if i := strings.Index(line, "-A "); i >= 0 { // counters may stand before it
			jumps[table] = append(jumps[table], "-D "+line[i+len("-A "):])
		}
	})
	var b strings.Builder
	for _, table := range order {
		b.WriteString("*" + table + "\n")
		for _, j := range jumps[table] {
			b.WriteString(j + "\n")
		}
		for _, do := range []string{"-F ", "-X "} {
			for _, c := range drops[table] {
				b.WriteString(do + c + "\n")
			}
		}
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

// eachLine calls back with each chain and rule of a save.
func eachLine(text string, each func(table, line string)) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			table = line[1:]
		case line == "COMMIT":
			table = ""
		case table != "":
			each(table, line)
		}
	}
}
