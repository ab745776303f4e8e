package manifest

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
)

// Whatever comes in, what comes out is a NodeConfig that the strict decoder
// takes, and nothing that is said holds a token.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		require.NoError(f, err)
		var all [][]byte
		for _, x := range a.Files {
			if x.Name != "want" && x.Name != "options" && !strings.HasPrefix(x.Name, "join") {
				all = append(all, x.Data)
			} else if strings.HasPrefix(x.Name, "join") {
				f.Add(x.Data, true)
			}
		}
		f.Add(bytes.Join(all, []byte("\n---\n")), false)
	}
	f.Add([]byte("a: &a [*a]\n"), false)
	f.Add([]byte("apiVersion: bootstrap.cluster.x-k8s.io/v1beta1\nkind: KubeadmConfig\nspec: {files: [{path: /x, content: \" a\\n\\tb \\n\\u2028\"}], preKubeadmCommands: [\"modprobe -r x\", \"echo 'a\\nb' > /x #\"]}\n"), true)
	f.Fuzz(func(t *testing.T, b []byte, secrets bool) {
		o := Options{Version: "v1.34.5", WithSecrets: secrets, SCSIOrder: true}
		r := Convert([]Input{{Name: "f", Data: b}}, o)
		accepted(t, r)
		for _, p := range r.Problems {
			if p.Text == "" || p.File == "" {
				t.Fatalf("a problem without text or place: %#v", p)
			}
		}
		if again := said(Convert([]Input{{Name: "f", Data: b}}, o)); again != said(r) {
			t.Fatalf("not twice the same:\n%s\n%s", said(r), again)
		}
		Check([]Input{{Name: "f", Data: b}})
	})
}

// The content of a file comes out as it went in, whatever YAML thinks of it.
func FuzzAContentStaysAsItIs(f *testing.F) {
	for _, s := range []string{"", "a\n", " a\nb", "\n\n a\n\n", "a\t\n\tb ", "a\r\nb", "\u2028\u0085\ufeffx\n", "%a\n---\n...\n", "a: b # c\n", "0644", "null", "\x00\x01\n", "- |\n  x\n   \n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<10 {
			return
		}
		r := Convert([]Input{spec("files:\n- {path: /etc/x, encoding: base64, content: '" + base64.StdEncoding.EncodeToString([]byte(s)) + "'}\n- {path: /etc/y, content: !!binary '" + base64.StdEncoding.EncodeToString([]byte(s)) + "'}\n")}, Options{Version: "v1.34.5", WithSecrets: true})
		require.Empty(t, r.Problems)
		l, err := config.Load([]config.Source{{Data: r.Machines[0].YAML}}, config.Identity{})
		require.NoError(t, err)
		require.Equal(t, s, l.Spec.Files[0].Content)
		require.Equal(t, s, l.Spec.Files[1].Content)
		if !utf8.ValidString(s) {
			return // a text can't say it
		}
		r = Convert([]Input{spec("files:\n- {path: /etc/x, content: " + strconv.QuoteToASCII(s) + "}\n")}, Options{Version: "v1.34.5", WithSecrets: true})
		if len(r.Problems) > 0 { // a template
			return
		}
		l, err = config.Load([]config.Source{{Data: r.Machines[0].YAML}}, config.Identity{})
		require.NoError(t, err, "%s", r.Machines[0].YAML)
		require.Equal(t, s, l.Spec.Files[0].Content, "%s", r.Machines[0].YAML)
	})
}
