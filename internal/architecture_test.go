package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only one package has effects, and only one knows about the command line.
var only = map[string]string{
	"os/exec":                               "internal/host",
	"github.com/godbus/dbus/v5":             "internal/host",
	"github.com/coreos/go-systemd/v22/dbus": "internal/host",
	"github.com/vishvananda/netlink":        "internal/host",
	"golang.org/x/sys/unix":                 "internal/host",
	"github.com/spf13/cobra":                "cmd/nodeagent",
}

func TestOnlyTheHostPackageHasEffects(t *testing.T) {
	files := 0
	for _, root := range []string{"../cmd", "../internal"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			require.NoError(t, err)
			dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			for _, imp := range f.Imports {
				name, err := strconv.Unquote(imp.Path.Value)
				require.NoError(t, err)
				if home, guarded := only[name]; guarded && dir != home {
					t.Errorf("%s imports %s; only %s may", path, name, home)
				}
			}
			return nil
		}))
	}
	require.Greater(t, files, 20, "the walk found the sources")
}
