package internal_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/messages.md anew")

// message is one sentence that the program can end with.
type message struct{ subject, exit, text, hint string }

// exits are the exit codes of package fail's kinds.
var exits = map[string]string{"Step": "1", "Usage": "2", "Safety": "4", "Timeout": "5", "Locked": "6", "Interrupted": "130"}

// TestEveryMessageHasItsEntry compares docs/messages.md with the sentences in the
// source; -update writes it.
func TestEveryMessageHasItsEntry(t *testing.T) {
	const page = "../docs/messages.md"
	want := messagesPage(messagesOf(t))
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	have, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run: go test ./internal -run TestEveryMessageHasItsEntry -update")
}

func messagesOf(t *testing.T) []message {
	t.Helper()
	var out []message
	files := token.NewFileSet()
	for _, root := range []string{"../cmd/nodeagent", "."} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "hosttest") {
				return err
			}
			f, err := parser.ParseFile(files, path, nil, 0)
			require.NoError(t, err)
			constants := map[string]string{}
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for i, name := range v.Names {
						if i < len(v.Values) {
							constants[name.Name] = plainText(v.Values[i], nil)
						}
					}
				}
				return true
			})
			ast.Inspect(f, func(n ast.Node) bool {
				if m, ok := messageOf(n, constants); ok {
					m.subject = filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../cmd/"))
					out = append(out, m)
				}
				return true
			})
			return nil
		}))
	}
	slices.SortFunc(out, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.subject, b.subject), cmp.Compare(a.text, b.text), cmp.Compare(a.hint, b.hint), cmp.Compare(a.exit, b.exit))
	})
	return slices.Compact(out)
}

// messageOf reads fail.New(kind, hint, format, …), fail.Wrap(kind, err, hint,
// format, …) and the configuration's bad(path, hint, format, …).
func messageOf(n ast.Node, constants map[string]string) (message, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return message{}, false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return message{}, false
	}
	of, _ := s.X.(*ast.Ident)
	args := call.Args
	m := message{exit: "…"}
	switch {
	case of != nil && of.Name == "fail" && s.Sel.Name == "New" && len(args) > 2:
	case of != nil && of.Name == "fail" && s.Sel.Name == "Wrap" && len(args) > 3:
		args = slices.Delete(slices.Clone(args), 1, 2)
	case s.Sel.Name == "bad" && len(args) > 2:
		m.exit = "2"
	default:
		return message{}, false
	}
	if k, ok := args[0].(*ast.SelectorExpr); ok && m.exit == "…" {
		m.exit = cmp.Or(exits[k.Sel.Name], "…")
	}
	m.hint, m.text = plainText(args[1], constants), plainText(args[2], constants)
	return m, strings.Trim(m.text, "… ") != ""
}

var verb = regexp.MustCompile(`%[-+#0-9.*\[\]]*[a-zA-Z]`)

// plainText is a string with … for what only a run knows.
func plainText(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if e.Kind != token.STRING || err != nil {
			return "…"
		}
		return strings.ReplaceAll(verb.ReplaceAllString(s, "…"), "%%", "%")
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return plainText(e.X, constants) + plainText(e.Y, constants)
		}
	case *ast.ParenExpr:
		return plainText(e.X, constants)
	case *ast.Ident:
		if s, ok := constants[e.Name]; ok {
			return s
		}
	case *ast.CallExpr: // fmt.Sprintf and the like
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return plainText(e.Args[0], constants)
		}
	}
	return "…"
}

func messagesPage(all []message) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Messages

Every sentence that nodeagent can end with, and what to do. Search this page for words of yours; … stands for what only a run knows. The exit code
is the column in the middle, … where it is that of the cause. How to read a failed run: [troubleshooting.md](troubleshooting.md).

This page is made from the source, and a test compares (internal `+"`TestEveryMessageHasItsEntry`"+`).
`)
	subject := ""
	cell := func(s string) string {
		s = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`).Replace(strings.TrimSpace(s))
		return strings.ReplaceAll(s, "……", "…")
	}
	for _, m := range all {
		if m.subject != subject {
			subject = m.subject
			fmt.Fprintf(&b, "\n## %s\n\n| message | exit | what to do |\n|---|---|---|\n", subject)
		}
		hint := cell(m.hint)
		if hint == "…" || hint == "" {
			hint = "as the message says"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(m.text), m.exit, hint)
	}
	return b.String()
}
