package field

import (
	"reflect"
	"strings"
	"time"
)

// Differs lists the fields in which a configuration doesn't hold what a patch
// asks for. kubeadm writes time spans its own way ("5m" as "5m0s") and leaves
// out zero values where absent means zero: neither is a difference.
func Differs(patch, config map[string]any) []string {
	var out []string
	differs(patch, config, "", &out)
	return out
}

func differs(patch, config map[string]any, prefix string, out *[]string) {
	for _, key := range sorted(patch) {
		path := prefix + key
		if prefix == "" && (key == "apiVersion" || key == "kind") {
			continue
		}
		want := patch[key]
		got, there := config[key]
		f := table[path]
		sub, nested := want.(map[string]any)
		switch {
		case nested && len(sub) > 0:
			have, _ := got.(map[string]any)
			differs(sub, have, path+".", out)
		case want == nil: // deletes
			if there && !zero(got) {
				*out = append(*out, path)
			}
		case !there || got == nil:
			if f.pointer || !zero(want) {
				*out = append(*out, path)
			}
		case !same(want, got, f.kind):
			*out = append(*out, path)
		}
	}
}

func same(a, b any, kind string) bool {
	if kind == "duration" {
		x, xok := span(a)
		y, yok := span(b)
		return xok && yok && x == y
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i], "") {
				return false
			}
		}
		return true
	}
	if x, ok := a.(map[string]any); ok {
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if v, there := y[k]; !there || !same(x[k], v, "") {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func span(v any) (time.Duration, bool) {
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(strings.TrimSpace(s))
	return d, err == nil
}

// zero tells whether Go's JSON leaves a value out with omitempty, or a time
// span is none.
func zero(v any) bool {
	if n, ok := number(v); ok {
		return n == 0
	}
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case string:
		d, ok := span(x)
		return x == "" || ok && d == 0
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// Merge lays a patch over a configuration, as kubeadm's strategic patch does
// for this type: mappings merge, null deletes, anything else replaces. Neither
// argument is changed.
func Merge(config, patch map[string]any) map[string]any {
	out := make(map[string]any, len(config)+len(patch))
	for k, v := range config {
		out[k] = v
	}
	for k, v := range patch {
		sub, nested := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case nested:
			have, _ := out[k].(map[string]any)
			out[k] = Merge(have, sub)
		default:
			out[k] = v
		}
	}
	return out
}
