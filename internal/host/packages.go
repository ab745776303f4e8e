package host

import (
	"context"
	"maps"
	"regexp"
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
	out := ""
	ask := func(args ...string) error {
		r, err := l.exec(ctx, program{name: "rpm", args: append([]string{"-q", "--qf", installedFormat}, args...)})
		out += string(r.stdout)
		return err
	}
	provided := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == pubkeys })
	if len(provided) < len(names) {
		if err := ask(pubkeys); err != nil {
			return nil, err
		}
	}
	if len(provided) > 0 {
		if err := ask(append([]string{"--whatprovides"}, provided...)...); err != nil {
			return nil, err
		}
	}
	return parseInstalled(out, names), nil
}

// pubkeys is the name of the packages that stand for signing keys. They provide
// what their keys are, but not their own name.
const pubkeys = "gpg-pubkey"

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

// Needed asks rpm what would miss each package; nothing is removed (rpm(8),
// --test).
func (l *Linux) Needed(ctx context.Context, names []string) (map[string]string, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	by := map[string][]string{}
	for _, n := range names {
		r, err := l.exec(ctx, program{name: "rpm", args: []string{"-e", "--test", n}})
		if err != nil {
			return nil, err
		}
		by[n] = parseNeeded(r.text())
	}
	return staying(by), nil
}

// neededBy is a line below "Failed dependencies:", with a package's
// name-version-release.arch at its end.
var neededBy = regexp.MustCompile(`(?m) is needed by \(installed\) (\S+)-[^-\s]+-[^-\s]+$`)

// parseNeeded returns the names of packages that rpm says would miss one.
func parseNeeded(out string) []string {
	var names []string
	for _, m := range neededBy.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return sortedUnique(names)
}

// staying finds out of who needs whom what can't go: what something that stays
// needs, and what that needs in turn.
func staying(by map[string][]string) map[string]string {
	stays := map[string]string{}
	for again := true; again; {
		again = false
		for _, n := range slices.Sorted(maps.Keys(by)) {
			if stays[n] != "" {
				continue
			}
			for _, who := range by[n] {
				if _, goes := by[who]; !goes || stays[who] != "" {
					stays[n], again = who, true
					break
				}
			}
		}
	}
	return stays
}
