package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// options reads the flags of a golden file as the command line has them.
func options(t *testing.T, text string) (o Options) {
	t.Helper()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "--with-secrets":
			o.WithSecrets = true
		case "--scsi-order":
			o.SCSIOrder = true
		case "--kubernetes-version":
			o.Version = value
		case "--interface":
			o.Interfaces = append(o.Interfaces, value)
		default:
			t.Fatalf("option %q", name)
		}
	}
	return o
}

// Every golden file holds inputs, what they become, and what is said of them.
// UPDATE_GOLDEN=1 writes the latter two anew.
func TestWhatManifestsBecome(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			require.NoError(t, err)
			var inputs []Input
			var o Options
			kept := a.Files[:0:0]
			want := ""
			for _, f := range a.Files {
				switch f.Name {
				case "options":
					o = options(t, string(f.Data))
				case "want":
					want = string(f.Data)
					continue
				default:
					inputs = append(inputs, Input{Name: f.Name, Data: f.Data})
				}
				kept = append(kept, f)
			}
			r := Convert(inputs, o)
			got := said(r)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				a.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
				require.NoError(t, os.WriteFile(name, txtar.Format(a), 0o644))
				return
			}
			require.Equal(t, want, got)
			require.Equal(t, got, said(Convert(inputs, o)), "twice the same")
			accepted(t, r)
			if !o.WithSecrets {
				require.NotContains(t, string(Join(r.Machines)), "0123456789abcdef")
			}
			require.NotContains(t, strings.Join(r.Notes, "")+r.Problems.Error(), "0123456789abcdef", "not even with secrets")
		})
	}
}

// said is everything that a conversion returns.
func said(r Result) string {
	var b strings.Builder
	b.Write(Join(r.Machines))
	for _, p := range r.Problems {
		b.WriteString("error: " + p.String() + "\n")
		if p.Hint != "" {
			b.WriteString("hint:  " + p.Hint + "\n")
		}
	}
	for _, n := range r.Notes {
		b.WriteString("note: " + n + "\n")
	}
	return b.String()
}

// accepted wants every document to be one that the strict decoder takes.
func accepted(t *testing.T, r Result) {
	t.Helper()
	for _, m := range r.Machines {
		for _, p := range check(m.YAML) {
			require.Fail(t, p.Text, "%s\n%s", p, m.YAML)
		}
	}
}
