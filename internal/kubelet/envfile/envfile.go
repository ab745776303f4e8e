// Package envfile edits the flags in kubelet's environment files,
// /var/lib/kubelet/kubeadm-flags.env and /etc/sysconfig/kubelet, and leaves
// every other byte as it is.
//
// systemd reads them (systemd.exec(5), EnvironmentFile=): NAME=value or
// NAME="value", a backslash at the end of a line goes on, the last of several
// assignments counts. It splits the value at blanks for the command line.
package envfile

import "strings"

// Flag is one flag as written.
type Flag struct {
	Name, Value string
	HasValue    bool
}

// flag with its place in the file.
type flag struct {
	Flag
	start, end int
}

// value is the place of one assignment's text, without its quotes.
type value struct{ start, end int }

// values finds every assignment of a variable.
func values(content, variable string) []value {
	var out []value
	for at := 0; at < len(content); {
		end := lineEnd(content, at)
		line := content[at:end]
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if rest, ok := strings.CutPrefix(line[indent:], variable+"="); ok {
			v := value{end - len(rest), end}
			for v.end > v.start && strings.IndexByte(" \t\r", content[v.end-1]) >= 0 {
				v.end--
			}
			if q := v.start; v.end-q >= 2 && (content[q] == '"' || content[q] == '\'') && content[v.end-1] == content[q] {
				v.start, v.end = v.start+1, v.end-1
			}
			out = append(out, v)
		}
		at = end + 1
	}
	return out
}

// lineEnd is the end of the logical line that begins at at: a newline after a
// backslash doesn't end it, except in comments.
func lineEnd(s string, at int) int {
	comment := strings.HasPrefix(strings.TrimLeft(s[at:], " \t"), "#") || strings.HasPrefix(strings.TrimLeft(s[at:], " \t"), ";")
	for i := at; i < len(s); i++ {
		if s[i] == '\n' && (comment || i == at || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}

// blank tells what separates flags.
func blank(s string, i int) bool {
	switch s[i] {
	case ' ', '\t', '\n', '\r':
		return true
	case '\\':
		return i+1 < len(s) && s[i+1] == '\n'
	}
	return false
}

// flags reads a value. "--name value" is one flag when takesValue says so.
func flags(content string, v value, takesValue func(string) bool) []flag {
	var words [][2]int
	for i := v.start; i < v.end; {
		if blank(content, i) {
			i++
			continue
		}
		start := i
		for i < v.end && !blank(content, i) {
			i++
		}
		words = append(words, [2]int{start, i})
	}
	var out []flag
	for i := 0; i < len(words); i++ {
		w := content[words[i][0]:words[i][1]]
		if !strings.HasPrefix(w, "-") {
			continue
		}
		f := flag{start: words[i][0], end: words[i][1]}
		f.Name, f.Value, f.HasValue = strings.Cut(strings.TrimLeft(w, "-"), "=")
		if !f.HasValue && takesValue(f.Name) && i+1 < len(words) {
			if next := content[words[i+1][0]:words[i+1][1]]; !strings.HasPrefix(next, "-") {
				f.Value, f.HasValue, f.end = next, true, words[i+1][1]
				i++
			}
		}
		out = append(out, f)
	}
	return out
}

// anyValue takes the next word for a value unless it is a flag.
func anyValue(string) bool { return true }

// Flags returns the flags of the variable's last assignment, which is the one
// that counts.
func Flags(content, variable string) []Flag {
	all := values(content, variable)
	if len(all) == 0 {
		return nil
	}
	var out []Flag
	for _, f := range flags(content, all[len(all)-1], anyValue) {
		out = append(out, f.Flag)
	}
	return out
}

// Drop removes the flags for which drop is true from every assignment, with
// one of the blanks around each. switches are flags without a value: a word
// after one of them isn't its own.
func Drop(content, variable string, drop func(name string) bool, switches map[string]bool) (out string, dropped []Flag) {
	out = content
	all := values(content, variable)
	for i := len(all) - 1; i >= 0; i-- { // from the end, so that places stay right
		v := all[i]
		found := flags(content, v, func(name string) bool { return !switches[name] })
		for j := len(found) - 1; j >= 0; j-- {
			f := found[j]
			if !drop(f.Name) {
				continue
			}
			dropped = append([]Flag{f.Flag}, dropped...)
			start, end := f.start, f.end
			for start > v.start && (out[start-1] == ' ' || out[start-1] == '\t') {
				start--
			}
			if start == v.start { // the first one: take the blanks behind it
				for end < len(content) && end < v.end && (out[end] == ' ' || out[end] == '\t') {
					end++
				}
			}
			out = out[:start] + out[end:]
		}
	}
	return out, dropped
}

// Set gives a flag a value in the variable's last assignment, or adds it at
// the end. A variable that isn't assigned gets a line of its own.
func Set(content, variable, name, val string) string {
	word := "--" + name + "=" + val
	all := values(content, variable)
	if len(all) == 0 {
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		if strings.HasSuffix(content, "\\\n") { // a line that would go on
			content += "\n"
		}
		return content + variable + "=\"" + word + "\"\n"
	}
	v := all[len(all)-1]
	found := flags(content, v, anyValue)
	for i := len(found) - 1; i >= 0; i-- {
		if f := found[i]; f.Name == name {
			return content[:f.start] + word + content[f.end:]
		}
	}
	if v.end > v.start {
		word = " " + word
	}
	// An unquoted value may hold blanks: systemd takes the line whole.
	return content[:v.end] + word + content[v.end:]
}
