package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path,omitempty"` // spec.disks[0].select
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

func (p Problem) String() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, s)
	}
	if p.File != "" {
		return p.File + ": " + s
	}
	return s
}

// Problems is everything that is wrong, in document order.
type Problems []Problem

// Error lists every problem, one a line.
func (p Problems) Error() string {
	s := make([]string, len(p))
	for i := range p {
		s[i] = p[i].String()
	}
	return strings.Join(s, "\n")
}

// nearest returns the candidate within two edits of s, or "".
func nearest(s string, candidates []string) string {
	best, dist := "", 3
	for _, c := range candidates {
		if d := distance(strings.ToLower(s), strings.ToLower(c)); d < dist && d < max(len(c), 2) {
			best, dist = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := last
			if a[i-1] != b[j-1] {
				cost++
			}
			last = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
