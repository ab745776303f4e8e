// Package field knows the fields of KubeletConfiguration in each Kubernetes
// release: a misspelled one would be dropped without a word, or keep kubelet
// from starting after the join.
package field

import (
	_ "embed"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

//go:embed fields.txt
var text string

type info struct {
	kind         string // without the star
	pointer      bool
	since, until int // minor releases; 0: no bound known
}

// Newest is the last minor release the table was made from.
const Newest = 37

var table = read()

func read() map[string]info {
	out := map[string]info{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] == "#" {
			continue
		}
		kind, pointer := strings.CutPrefix(f[1], "*")
		since, _ := strconv.Atoi(f[2])
		until, _ := strconv.Atoi(f[3])
		out[f[0]] = info{kind, pointer, since, until}
	}
	// The field came earlier, but before 1.35 kubelet refuses it while its gate,
	// KubeletEnsureSecretPulledImages, is off.
	f := out["imagePullCredentialsVerificationPolicy"]
	f.since = 35
	out["imagePullCredentialsVerificationPolicy"] = f
	return out
}

// Problem is a field that kubelet wouldn't take, or would ignore.
type Problem struct {
	Path    string // below the configuration: authentication.x509.clientCAFile
	Text    string
	Hint    string
	Warning bool // it may be right, but this program can't tell
}

// Check looks at every field of a fragment for kubelet 1.minor. null is
// allowed everywhere: it deletes the cluster's value.
func Check(config map[string]any, minor int) []Problem {
	var out []Problem
	check(config, "", minor, &out)
	return out
}

func check(m map[string]any, prefix string, minor int, out *[]Problem) {
	for _, key := range sorted(m) {
		v, path := m[key], prefix+key
		if prefix == "" && (key == "apiVersion" || key == "kind") {
			continue
		}
		f, known := table[path]
		switch {
		case !known:
			*out = append(*out, unknown(path, minor))
			continue
		case f.since > minor:
			*out = append(*out, Problem{Path: path, Text: fmt.Sprintf("kubelet has it only from 1.%d on, and this is 1.%d", f.since, minor), Hint: "take it out, or raise spec.kubernetes.version"})
			continue
		case f.until != 0 && minor > f.until:
			*out = append(*out, Problem{Path: path, Text: fmt.Sprintf("kubelet had it up to 1.%d, and this is 1.%d", f.until, minor), Hint: "take it out"})
			continue
		}
		if v == nil {
			continue
		}
		if text := f.mismatch(v); text != "" {
			*out = append(*out, Problem{Path: path, Text: text})
			continue
		}
		if sub, ok := v.(map[string]any); ok && f.kind == "object" {
			check(sub, path+".", minor, out)
		}
	}
}

func unknown(path string, minor int) Problem {
	p := Problem{Path: path, Text: "KubeletConfiguration has no such field"}
	if path == "clientCAFile" {
		p.Hint = "it belongs below authentication.x509: authentication: {x509: {clientCAFile: …}}"
		return p
	}
	if near := nearest(path, minor); near != "" {
		p.Hint = "did you mean " + near + "?"
	}
	if minor > Newest {
		p.Warning = true
		p.Text = fmt.Sprintf("nodeagent doesn't know this field; it knows those up to 1.%d", Newest)
	}
	return p
}

func (f info) mismatch(v any) string {
	want := ""
	switch f.kind {
	case "string":
		if _, ok := v.(string); !ok {
			want = "text"
		}
	case "bool":
		if _, ok := v.(bool); !ok {
			want = "true or false"
		}
	case "int":
		if n, ok := number(v); !ok || n != math.Trunc(n) {
			want = "a whole number"
		}
	case "float":
		if _, ok := number(v); !ok {
			want = "a number"
		}
	case "duration":
		s, ok := v.(string)
		if _, err := time.ParseDuration(s); !ok || err != nil {
			want = "a time span such as 5m"
		}
	case "list":
		if _, ok := v.([]any); !ok {
			want = "a list"
		}
	case "map", "object", "opaque":
		if _, ok := v.(map[string]any); !ok {
			want = "a mapping"
		}
	}
	if want == "" {
		return ""
	}
	return fmt.Sprintf("wants %s, has %v", want, show(v))
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	s := fmt.Sprint(v)
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return s
}

// number reads what the YAML and JSON decoders make of numbers.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// nearest finds the field of that release that a person most likely meant.
func nearest(path string, minor int) string {
	best, at := "", 1+len(path)/4
	for _, p := range sorted(table) {
		f := table[p]
		if f.since > minor {
			continue
		}
		if strings.EqualFold(last(p), last(path)) && last(p) != "enabled" {
			return p // right name, wrong place or case
		}
		if d := distance(strings.ToLower(p), strings.ToLower(path)); d <= at {
			best, at = p, d-1
		}
	}
	return best
}

func last(p string) string { return p[strings.LastIndexByte(p, '.')+1:] }

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
