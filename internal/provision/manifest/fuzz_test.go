package manifest

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
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
