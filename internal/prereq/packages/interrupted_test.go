package packages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/run/journal"
)

func TestATransactionThatWasCutOffIsCleanedUpAfter(t *testing.T) {
	spec := load(t, repos)
	w := hosttest.Rocky9()
	begun := `{"time":"2026-03-01T12:00:00Z","event":"intent","step":"packages","id":"packages","run":"1"}` + "\n"
	w.Files[journal.Path] = hosttest.File{Content: begun}
	const began = 1772366400
	require.EqualValues(t, began, of[change.InstallPackages](t, Plan(spec, observe(t, w, spec))).CutOff)

	// All packages came in before the run was killed: only the cleaning is left.
	delete(w.Files, journal.Path)
	converge(t, w, spec)
	w.Files[journal.Path] = hosttest.File{Content: begun}
	p := Plan(spec, observe(t, w, spec))
	require.Equal(t, []change.Change{change.InstallPackages{Manager: "dnf", CutOff: began}}, p.Changes)
	require.Equal(t, "clean up after a package transaction that was cut off", p.Changes[0].Summary())

	w.Files[journal.Path] = hosttest.File{Content: begun + `{"event":"done","step":"packages","id":"packages","run":"1"}` + "\n"}
	require.True(t, Plan(spec, observe(t, w, spec)).Empty())
}

func TestAnUpgradeThatWasCutOffIsToldWithBothVersions(t *testing.T) {
	spec := load(t, repos)
	w := hosttest.Rocky9()
	f := observe(t, w, spec)
	f.Installed["kubelet"] = "1.34.4-150500.1.1 1.35.4-150500.1.1"
	p := Plan(spec, f)
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "2 times (1.34.4-150500.1.1, 1.35.4-150500.1.1)")
}
