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
	c := of[change.InstallPackages](t, p)
	require.Len(t, p.Changes, 1)
	require.Empty(t, c.Packages)
	require.EqualValues(t, began, c.CutOff)
	// A damaged kubelet is fetched again from a repository that hides it, and
	// whose key may have to be fetched anew.
	require.Equal(t, []string{"kubernetes"}, c.Unlock)
	require.NotEmpty(t, c.Keys)
	require.Equal(t, "clean up after a package transaction that was cut off", c.Summary())

	w.Files[journal.Path] = hosttest.File{Content: begun + `{"event":"done","step":"packages","id":"packages","run":"1"}` + "\n"}
	require.True(t, Plan(spec, observe(t, w, spec)).Empty())

	w.Files[journal.Path] = hosttest.File{Content: begun}
	// Some came in, and the kubelet may be one of the damaged.
	delete(w.Packages, "iptables-nft")
	c = of[change.InstallPackages](t, Plan(spec, observe(t, w, spec)))
	require.Contains(t, c.Packages, "iptables")
	require.Equal(t, []string{"kubernetes"}, c.Unlock)
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
