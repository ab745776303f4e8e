package change

import (
	"fmt"
	"strings"
)

// unified returns a unified diff of a whole file with three lines of context.
func unified(path, before, after string, existed bool) string {
	if before == after {
		return ""
	}
	a, b := lines(before), lines(after)
	ops := edits(a, b)
	var out strings.Builder
	from := path
	if !existed {
		from = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, path)
	const context = 3
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			i++
			continue
		}
		start := max(0, i-context)
		end, quiet := i, 0
		for end < len(ops) && quiet <= 2*context {
			if ops[end].kind == ' ' {
				quiet++
			} else {
				quiet = 0
			}
			end++
		}
		end -= max(0, quiet-context)
		nA, nB := 0, 0
		for _, o := range ops[start:end] {
			if o.kind != '+' {
				nA++
			}
			if o.kind != '-' {
				nB++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(ops[start].a, nA), span(ops[start].b, nB))
		for _, o := range ops[start:end] {
			fmt.Fprintf(&out, "%c%s\n", o.kind, strings.TrimSuffix(o.text, "\n"))
			if !strings.HasSuffix(o.text, "\n") {
				out.WriteString("\\ No newline at end of file\n")
			}
		}
		i = end
	}
	return out.String()
}

func span(start, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", start)
	}
	if n == 1 {
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}

func lines(s string) []string {
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

type edit struct {
	kind byte // ' ', '-', '+'
	text string
	a, b int // zero-based line before this edit in each file
}

// edits is the longest-common-subsequence edit script. Managed files are
// small; the common head and tail are cut first so that the table stays so.
func edits(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	ma, mb := a[head:len(a)-tail], b[head:len(b)-tail]
	var out []edit
	for i := range head {
		out = append(out, edit{' ', a[i], i, i})
	}
	out = append(out, middle(ma, mb, head)...)
	for i := range tail {
		out = append(out, edit{' ', a[len(a)-tail+i], len(a) - tail + i, len(b) - tail + i})
	}
	return out
}

func middle(a, b []string, off int) []edit {
	if len(a)*len(b) > 4_000_000 {
		var out []edit
		for i, s := range a {
			out = append(out, edit{'-', s, off + i, off})
		}
		for j, s := range b {
			out = append(out, edit{'+', s, off + len(a), off + j})
		}
		return out
	}
	t := make([][]int, len(a)+1)
	for i := range t {
		t[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				t[i][j] = t[i+1][j+1] + 1
			} else {
				t[i][j] = max(t[i+1][j], t[i][j+1])
			}
		}
	}
	var out []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i], off + i, off + j})
			i++
			j++
		case j == len(b) || i < len(a) && t[i+1][j] >= t[i][j+1]:
			out = append(out, edit{'-', a[i], off + i, off + j})
			i++
		default:
			out = append(out, edit{'+', b[j], off + i, off + j})
			j++
		}
	}
	return out
}

// Size writes bytes as people read them: "100.0 GiB".
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
