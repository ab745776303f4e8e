package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// update writes what plan says now into the archives; read the difference line
// by line before it is committed.
var update = flag.Bool("update", false, "rewrite the plans in testdata/roots")

// The plan of each tree in testdata/roots is the one beside it. An archive
// holds the tree below root/ (a name that ends with a slash is an empty
// directory, "a -> b" a symbolic link; what lies in a bin directory can be
// executed, and what lies in etc/nodeagent is root's alone), the configuration, and two goldens: what plan prints, and what its
// JSON says without contents.
func TestPlansOfRoots(t *testing.T) {
	archives, err := filepath.Glob("testdata/roots/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			file, err := filepath.Abs(file)
			require.NoError(t, err)
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			t.Chdir(t.TempDir())
			golden := unpackRoot(t, archive)
			before := listing(t, "root")
			got := []txtar.File{{Name: "plan.txt", Data: planOf(t)}, {Name: "plan.json", Data: outline(t)}}
			require.Equal(t, before, listing(t, "root"), "the tree is as it was")
			if *update {
				archive.Files = append(archive.Files, got...)
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			for _, g := range got {
				require.Equal(t, golden[g.Name], string(g.Data), "%s; when it is meant: go test ./cmd/nodeagent -run TestPlansOfRoots -update", g.Name)
			}
		})
	}
}

// unpackRoot writes tree and configuration into the current directory, and
// takes the goldens out of the archive.
func unpackRoot(t *testing.T, archive *txtar.Archive) (golden map[string]string) {
	golden = map[string]string{}
	var kept []txtar.File
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "plan.") {
			golden[f.Name] = string(f.Data)
			continue
		}
		kept = append(kept, f)
		name, target, link := strings.Cut(f.Name, " -> ")
		require.True(t, filepath.IsLocal(name), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		mode := os.FileMode(0o644)
		switch filepath.Base(filepath.Dir(name)) {
		case "bin", "sbin":
			mode = 0o755
		case "nodeagent":
			mode = 0o600
		}
		switch {
		case link:
			require.NoError(t, os.Symlink(target, name))
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(name, 0o755))
		default:
			require.NoError(t, os.WriteFile(name, f.Data, mode))
		}
	}
	archive.Files = kept
	return golden
}

// listing is every path of a tree with its kind, mode, and content or target.
func listing(t *testing.T, root string) string {
	var b strings.Builder
	require.NoError(t, filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		content := []byte{}
		if info.Mode().IsRegular() {
			content, err = os.ReadFile(path)
		}
		target, _ := os.Readlink(path)
		fmt.Fprintf(&b, "%s %s %s %q\n", path, info.Mode(), target, content)
		return err
	}))
	return b.String()
}

// plan runs plan on the tree.
func plan(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = Main(context.Background(), append([]string{"plan", "--root", "root", "--config", "config.yaml"}, args...), nil, &o, &e)
	return o.String(), e.String(), code
}

func planOf(t *testing.T) []byte {
	out, errs, code := plan()
	return fmt.Appendf(nil, "%s%sexit code %d\n", out, errs, code)
}

// outline is the plan in JSON without what differs between machines and what
// the text shows.
func outline(t *testing.T) []byte {
	out, _, _ := plan("-o", "json")
	var p struct {
		Steps []struct {
			Name     string           `json:"name"`
			Changes  []map[string]any `json:"changes"`
			Warnings []string         `json:"warnings,omitempty"`
		} `json:"steps"`
		Blocked []map[string]string `json:"blocked,omitempty"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	var b strings.Builder
	for _, s := range p.Steps {
		for _, c := range s.Changes {
			if c["before"] != nil {
				delete(c, "owner") // it is kept: whoever unpacked the tree
			}
			for _, key := range []string{"content", "before", "diff", "summary", "class"} {
				delete(c, key)
			}
			line, err := json.Marshal(c)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s: %s\n", s.Name, line)
		}
	}
	for _, x := range p.Blocked {
		fmt.Fprintf(&b, "blocked: %s\n", x["step"])
	}
	return []byte(b.String())
}
