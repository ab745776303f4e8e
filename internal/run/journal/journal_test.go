package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const text = `{"event":"intent","id":"mkfs:a","change":{"kind":"MakeFilesystem"}}
{"event":"done","id":"mkfs:a"}
{"event":"intent","id":"mkfs:b","change":{"serial":"S"}}
{"event":"failed","id":"mkfs:b","error":"killed"}
{"event":"intent","id":"mkfs:c","cha`

func TestATornLastLineIsSkipped(t *testing.T) {
	require.Len(t, Parse([]byte(text)), 4)
}

func TestOnlyWhatIsNotDoneIsUnfinished(t *testing.T) {
	entries := Parse([]byte(text))
	_, ok := Unfinished(entries, "mkfs:a")
	require.False(t, ok)
	e, ok := Unfinished(entries, "mkfs:b")
	require.True(t, ok)
	require.JSONEq(t, `{"serial":"S"}`, string(e.Change))
	_, ok = Unfinished(entries, "mkfs:c")
	require.False(t, ok)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range Parse(b) {
			if _, err := e.Line(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
