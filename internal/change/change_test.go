package change

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWholeNewFileIsADiffFromNothing(t *testing.T) {
	c := WriteFile{Path: "/etc/a", Mode: "0644", Owner: "root:root", Content: "one\ntwo\n"}
	require.Equal(t, "--- /dev/null\n+++ /etc/a\n@@ -0,0 +1,2 @@\n+one\n+two\n", c.Diff())
	require.Equal(t, Additive, c.Class())
}

func TestADiffShowsThreeLinesOfContext(t *testing.T) {
	before := "1\n2\n3\n4\n5\n6\n7\n8\n9"
	after := "1\n2\n3\n4\nfive\n6\n7\n8\n9"
	c := WriteFile{Path: "/f", Mode: "0644", Owner: "root:root", Content: after, Before: &Saved{"0644", "root:root", before}}
	require.Equal(t, "--- /f\n+++ /f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n", c.Diff())
	require.Equal(t, Reversible, c.Class())
}

func TestAMissingFinalNewlineIsToldAsDiffDoes(t *testing.T) {
	c := WriteFile{Path: "/f", Mode: "0644", Owner: "root:root", Content: "a\n", Before: &Saved{"0644", "root:root", "a"}}
	require.Equal(t, "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", c.Diff())
}

func TestSecretContentIsInNoDiffAndNoJSON(t *testing.T) {
	c := WriteFile{Path: "/f", Mode: "0600", Owner: "root:root", Content: "hunter2", Secret: true, Before: &Saved{"0600", "root:root", "hunter1"}}
	b, err := Encode(c)
	require.NoError(t, err)
	require.NotContains(t, string(b)+c.Diff()+c.Summary(), "hunter")
}

func TestEncodeHasTheHeadAndTheKindsOwnFields(t *testing.T) {
	b, err := Encode(MakeFilesystem{Disk: "kubelet", Device: "/dev/disk/by-path/x", Size: 100 << 30, Type: "xfs", Label: "kubelet", UUID: "u"})
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	require.Equal(t, "MakeFilesystem", m["kind"])
	require.Equal(t, "destructive", m["class"])
	require.Equal(t, "mkfs:/dev/disk/by-path/x", m["id"])
	require.Equal(t, "FORMAT /dev/disk/by-path/x (100.0 GiB, kubelet) as xfs labelled kubelet", m["summary"])
	require.Equal(t, "kubelet", m["disk"])
}

func FuzzDiffNeverPanicsAndIsEmptyOnlyForEqualFiles(f *testing.F) {
	f.Add("a\nb\n", "a\nc")
	f.Fuzz(func(t *testing.T, a, b string) {
		if d := unified("/f", a, b, true); (d == "") != (a == b) {
			t.Fatalf("%q %q: %q", a, b, d)
		}
	})
}

func TestEveryKindIsReadBackFromAJournal(t *testing.T) {
	source, err := os.ReadFile("kinds.go")
	require.NoError(t, err)
	sealed := regexp.MustCompile(`(?m)^func \((\w+)\) +sealed`).FindAllSubmatch(source, -1)
	require.Len(t, kinds, len(sealed))
	for _, m := range sealed {
		name := string(m[1])
		c, err := Decode(json.RawMessage(`{"kind":"` + name + `"}`))
		require.NoError(t, err, name)
		require.Equal(t, name, Kind(c))
	}
	_, err = Decode(json.RawMessage(`{"kind":"Unheard"}`))
	require.ErrorContains(t, err, "Unheard")
	was := WriteFile{Path: "/f", Mode: "0644", Owner: "root:root", Content: "a\n", Before: &Saved{"0600", "root:root", "b\n"}}
	raw, err := Encode(was)
	require.NoError(t, err)
	is, err := Decode(raw)
	require.NoError(t, err)
	require.Equal(t, was, is)
}
