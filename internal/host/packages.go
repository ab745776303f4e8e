package host

import (
	"context"
	"slices"
	"strings"
)

// Installed asks the RPM database for names; a name that another package
// provides counts (iptables is provided by iptables-nft). One rpm is started
// for all of them.
func (l *Linux) Installed(ctx context.Context, names []string) (map[string]string, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	if len(names) == 0 {
		return map[string]string{}, nil
	}
	sorted := slices.Sorted(slices.Values(names))
	return once(l, "rpm "+strings.Join(sorted, " "), func() (map[string]string, error) {
		return l.rpmQuery(ctx, sorted)
	})
}

// installedFormat is one line per package: its name, version-release, and all
// names it provides (rpm(8), QUERY OPTIONS).
const installedFormat = `%{NAME}\t%{VERSION}-%{RELEASE}\t[%{PROVIDENAME} ]\n`

// rpmQuery is Installed without memory. rpm's exit status is the number of
// names that nothing provides, which is no error.
func (l *Linux) rpmQuery(ctx context.Context, names []string) (map[string]string, error) {
	args := append([]string{"-q", "--qf", installedFormat, "--whatprovides"}, names...)
	r, err := l.exec(ctx, program{name: "rpm", args: args})
	if err != nil {
		return nil, err
	}
	return parseInstalled(string(r.stdout), names), nil
}

// parseInstalled reads installedFormat. A package of that very name wins over
// one that only provides it. Several versions at once (kernel packages) are
// separated by blanks.
func parseInstalled(out string, names []string) map[string]string {
	own, provided := map[string]string{}, map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 {
			continue // "no package provides X"
		}
		addVersion(own, f[0], f[1])
		for _, p := range sortedUnique(strings.Fields(f[2])) {
			addVersion(provided, p, f[1])
		}
	}
	found := map[string]string{}
	for _, n := range names {
		if v, ok := own[n]; ok {
			found[n] = v
		} else if v, ok := provided[n]; ok {
			found[n] = v
		}
	}
	return found
}

// addVersion notes a version once: rpm prints a package for each name asked
// for that it provides.
func addVersion(to map[string]string, name, version string) {
	have := strings.Fields(to[name])
	if !slices.Contains(have, version) {
		to[name] = strings.Join(append(have, version), " ")
	}
}

func sortedUnique(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
