package lab

import (
	"context"
	"fmt"
	"strings"
)

// Snapshot is everything in a guest that a run without effects must leave alone.
type Snapshot struct {
	Files  map[string]string // path: type, mode, owner, size, times, link target
	Mounts string
	Swaps  string
	Rules  string // nftables, and both kinds of iptables
	Units  string // enabled state of every unit file
}

// volatile are paths that change by themselves while a host does nothing but
// answer ssh.
var volatile = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/mnt", "/var/log", "/var/lib/systemd", "/var/lib/NetworkManager",
	"/var/tmp", "/var/lib/private"}

// Snapshot takes one. A file's change time tells of every write, of content as
// well as of attributes, and can't be set back.
func (g *Guest) Snapshot(ctx context.Context) (Snapshot, error) { return snapshot(ctx, g.Run) }

// Snapshot takes one of a container.
func (c *Container) Snapshot(ctx context.Context) (Snapshot, error) { return snapshot(ctx, c.Run) }

func snapshot(ctx context.Context, run func(context.Context, string) (string, error)) (Snapshot, error) {
	s := Snapshot{Files: map[string]string{}}
	var prune []string
	for _, p := range volatile {
		prune = append(prune, "-path "+p)
	}
	out, err := run(ctx, `find / \( `+strings.Join(prune, " -o ")+` \) -prune -o -printf '%p\t%y %m %U:%G %s %T@ %C@ %l\n'`)
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(out) {
		path, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !readersIndex(path, rest) {
			s.Files[path] = rest
		}
	}
	for _, part := range []struct {
		into   *string
		script string
	}{
		{&s.Mounts, "findmnt --raw --noheadings --output TARGET,SOURCE,FSTYPE,OPTIONS | grep -v -e /run/user"},
		{&s.Swaps, "sort /proc/swaps | cut -f1-3"},
		{&s.Rules, rulesScript},
		{&s.Units, "systemctl list-unit-files --no-legend --no-pager | grep -v transient"},
	} {
		if *part.into, err = run(ctx, part.script); err != nil {
			return s, err
		}
	}
	return s, nil
}

// WithoutTimes is the snapshot without the times of files and the sizes of
// directories, for hosts on which things were changed and changed back.
func (s Snapshot) WithoutTimes() Snapshot {
	files := map[string]string{}
	for path, is := range s.Files {
		f := strings.SplitN(is, " ", 7) // type, mode, owner, size, times, link target
		if f[0] == "d" {
			f[3] = ""
		}
		files[path] = strings.Join([]string{f[0], f[1], f[2], f[3], f[6]}, " ")
	}
	s.Files = files
	return s
}

// readersIndex tells whether a path is SQLite's shared index of the RPM
// database's readers, or its write-ahead log while that is empty: whoever asks
// rpm anything touches them, and they hold nothing of the database.
func readersIndex(path, rest string) bool {
	return strings.HasSuffix(path, "/rpmdb.sqlite-shm") || strings.HasSuffix(path, "/rpmdb.sqlite-wal") && strings.HasPrefix(rest, "f 644 0:0 0 ")
}

// rulesScript prints all rules without their counters.
const rulesScript = `nft --stateless list ruleset
for save in iptables-nft-save ip6tables-nft-save; do $save 2>/dev/null | grep -v '^#' | sed 's/\[[0-9:]*\]//'; done; true`

// Changes lists what differs between two snapshots.
func (s Snapshot) Changes(after Snapshot) []string {
	var out []string
	for path, was := range s.Files {
		if is, ok := after.Files[path]; !ok {
			out = append(out, "removed "+path)
		} else if is != was {
			out = append(out, fmt.Sprintf("changed %s: %s, was %s", path, is, was))
		}
	}
	for path := range after.Files {
		if _, ok := s.Files[path]; !ok {
			out = append(out, "new "+path)
		}
	}
	for _, p := range []struct{ what, before, after string }{
		{"mounts", s.Mounts, after.Mounts}, {"swap", s.Swaps, after.Swaps}, {"rules", s.Rules, after.Rules}, {"units", s.Units, after.Units},
	} {
		if gone, come := onlyIn(p.before, p.after), onlyIn(p.after, p.before); gone+come != "" {
			out = append(out, fmt.Sprintf("%s differ: now %q, before %q", p.what, come, gone))
		} else if p.before != p.after {
			out = append(out, p.what+" are in another order")
		}
	}
	return out
}

// onlyIn returns the lines of a that b lacks.
func onlyIn(a, b string) string {
	other := map[string]bool{}
	for line := range strings.Lines(b) {
		other[line] = true
	}
	var out strings.Builder
	for line := range strings.Lines(a) {
		if !other[line] {
			out.WriteString(line)
		}
	}
	return out.String()
}
