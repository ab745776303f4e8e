package config

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"nodeagent/internal/fail"
)

// Values that the YAML library would take gigabytes for are refused before it
// sees them.
func TestADocumentOfTooManyValuesIsRefusedBeforeItIsParsed(t *testing.T) {
	head := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  hostname: "
	for name, body := range map[string]string{
		"a long list":  "[" + strings.Repeat("a,", 3_000_000) + "a]\n",
		"many lines":   "\n" + strings.Repeat("  - a\n", 3_000_000),
		"too large":    strings.Repeat("a", MaxSize),
		"deep lists":   strings.Repeat("[", 20_000),
		"deep objects": strings.Repeat("{a: ", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			doc := []byte(head + body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Load([]Source{{"f", doc}}, Identity{})
			runtime.ReadMemStats(&after)
			require.Equal(t, fail.Usage, fail.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"90GiB", "100 GB", "1.5TiB", "512", "1e99TiB", "NaN", "0x1p9", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSize(s); err == nil && n < 0 {
			t.Fatalf("%q is %d bytes", s, n)
		}
	})
}

// What counts values must never count fewer than there are.
func FuzzValuesAreCountedFromAbove(f *testing.F) {
	f.Add([]byte("a: [b, {c: d}]\n- e\n"))
	f.Add([]byte("{a: b}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := nodesOf(b); n > 2*values(b)+8 {
			t.Fatalf("%d values, counted %d", n, values(b))
		}
	})
}

func nodesOf(b []byte) (n int) {
	var count func(*yaml.Node)
	count = func(k *yaml.Node) {
		n++
		for _, c := range k.Content {
			count(c)
		}
	}
	for dec := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var k yaml.Node
		if dec.Decode(&k) != nil {
			return n
		}
		count(&k)
	}
}
