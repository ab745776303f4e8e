package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var run = []Event{
	{Kind: RunStart, Text: "id"},
	{Kind: Warning, Step: "firewall", Text: "zone differs"},
	{Kind: StepStart, Step: "packages"},
	{Kind: ChangeStart, Step: "packages", Text: "install 2 package(s)"},
	{Kind: Progress, Step: "packages", Text: "fetched a\x1b[31m"},
	{Kind: Progress, Step: "packages", Text: "fetched a\x1b[31m"},
	{Kind: ChangeDone, Step: "packages"},
	{Kind: StepDone, Step: "packages", Changes: 1, Duration: 1234 * time.Millisecond},
	{Kind: StepDone, Step: "swap"},
}

func TestPlainLinesHaveNoControlCharactersAndNoColour(t *testing.T) {
	var b bytes.Buffer
	s := Text(&b, false)
	for _, e := range run {
		s(e)
	}
	require.Equal(t, "warning: firewall: zone differs\npackages   install 2 package(s)\n             fetched a[31m\npackages   done: 1 change(s), 1.2s\n", b.String())
}

func TestColourIsForTerminalsOnly(t *testing.T) {
	var b bytes.Buffer
	Text(&b, true)(run[1])
	require.Contains(t, b.String(), "\x1b[33mwarning:\x1b[0m")
}

func TestEachEventIsALineOfJSONForEverySink(t *testing.T) {
	var a, b bytes.Buffer
	s := Tee(JSONLines(&a), JSONLines(&b))
	for _, e := range run {
		s(e)
	}
	require.Equal(t, a.String(), b.String())
	lines := bytes.Split(bytes.TrimSpace(a.Bytes()), []byte("\n"))
	require.Len(t, lines, len(run))
	var e map[string]any
	require.NoError(t, json.Unmarshal(lines[7], &e))
	require.Equal(t, map[string]any{"time": "0001-01-01T00:00:00Z", "event": "step-done", "step": "packages", "duration": 1.234e9, "changes": 1.0}, e)
}

func TestDurationsAreRoundedForPeople(t *testing.T) {
	require.Equal(t, "48ms", Took(48123*time.Microsecond))
	require.Equal(t, "1.2s", Took(1234*time.Millisecond))
	require.Equal(t, "2m20s", Took(140300*time.Millisecond))
}
