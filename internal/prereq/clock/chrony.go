package clock

import (
	"path"
	"slices"
	"strings"
)

// chronyConf is chronyd's main configuration: the path is that of the EL, SUSE
// and Photon packages.
const chronyConf = "/etc/chrony.conf"

// The block of our lines, where they can't have a file of their own, and what
// makes a comment of others' (the swap step marks its lines alike).
const (
	blockBegin = "# begin of nodeagent's spec.time"
	blockEnd   = "# end of nodeagent's spec.time"
	disabled   = "# disabled by nodeagent: "
)

// directives are what one file of chronyd's says, as far as it matters here.
type directives struct {
	Dirs    []string // below /etc, whose *.conf are read as well
	Sources []string // the lines that name NTP servers
	Step    bool     // makestep is given
}

// parse reads a file of chrony.conf(5). Names of directives have no case; a
// line that begins with one of !;#% is a comment.
func parse(text string) directives {
	var d directives
	for line := range strings.Lines(text) {
		f := words(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "server", "pool", "peer":
			d.Sources = append(d.Sources, strings.TrimSpace(line))
		case "makestep":
			d.Step = true
		case "confdir": // chrony 4.0
			for _, dir := range f[1:] {
				d.add(dir)
			}
		case "include":
			if len(f) == 2 && path.Base(f[1]) == "*.conf" {
				d.add(path.Dir(f[1]))
			}
		}
	}
	return d
}

// add takes a directory that lasts: what DHCP writes below /run doesn't.
func (d *directives) add(dir string) {
	dir = path.Clean(dir)
	if strings.HasPrefix(dir, "/etc/") && !strings.ContainsAny(dir, "*?[") && !slices.Contains(d.Dirs, dir) {
		d.Dirs = append(d.Dirs, dir)
	}
}

// words are those of a line, the directive in lower case; none of a comment.
func words(line string) []string {
	f := strings.Fields(line)
	if len(f) == 0 || strings.ContainsAny(f[0][:1], "!;#%") {
		return nil
	}
	f[0] = strings.ToLower(f[0])
	return f
}

// lines are ours. iburst asks four times at once; makestep sets a clock that is
// years off at once in the first three updates, where it would be slewed for
// ages.
func lines(servers []string, step bool) string {
	s := ""
	for _, server := range servers {
		s += "server " + server + " iburst\n"
	}
	if step {
		s += "makestep 1.0 3\n"
	}
	return s
}

// strip takes our block out of a main file. at is the line where it was, -1
// when there was none. A mark whose other one somebody has taken away is only
// a line, and goes alone.
func strip(text string) (rest []string, at int) {
	at = -1
	all := slices.Collect(strings.Lines(text))
	for i := 0; i < len(all); i++ {
		switch strings.TrimSpace(all[i]) {
		case blockBegin:
			if at < 0 {
				at = len(rest)
			}
			if n := slices.IndexFunc(all[i:], func(s string) bool { return strings.TrimSpace(s) == blockEnd }); n > 0 {
				i += n
			}
		case blockEnd:
		default:
			rest = append(rest, all[i])
		}
	}
	return rest, at
}

// rewrite makes comments of the lines that name servers and puts ours where
// they were last time, or where the first of those lines is; none when ours is
// empty. All else stays byte by byte, and what is rewritten is left as it is by
// the next rewrite.
func rewrite(text, ours string) string {
	rest, at := strip(text)
	if at < 0 {
		at = slices.IndexFunc(rest, isSource)
	}
	if at < 0 {
		at = len(rest)
	}
	var out strings.Builder
	for i := 0; i <= len(rest); i++ {
		if i == at && ours != "" {
			if i > 0 && !strings.HasSuffix(rest[i-1], "\n") {
				out.WriteString("\n")
			}
			out.WriteString(blockBegin + "\n" + ours + blockEnd + "\n")
		}
		if i == len(rest) {
			break
		}
		if isSource(rest[i]) {
			out.WriteString(disabled)
		}
		out.WriteString(rest[i])
	}
	return out.String()
}

func isSource(line string) bool {
	f := words(line)
	return len(f) > 0 && slices.Contains([]string{"server", "pool", "peer"}, f[0])
}
