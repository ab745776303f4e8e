package identity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

func plan(t *testing.T, w *hosttest.World, name string) change.Plan {
	s := config.Default().Spec
	s.Hostname = name
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return Plan(s, f)
}

func TestAnAbsentNameKeepsTheHosts(t *testing.T) {
	require.Empty(t, plan(t, hosttest.Rocky9(), "").Changes)
}

func TestANameIsSetOnce(t *testing.T) {
	w := hosttest.Rocky9()
	require.Empty(t, plan(t, w, "prdk8snod001").Changes, "it has that one")
	p := plan(t, w, "node7")
	require.Equal(t, []change.Change{change.SetHostname{Name: "node7", Before: "prdk8snod001"}}, p.Changes)
	require.NoError(t, w.Apply(context.Background(), p.Changes[0], nil))
	require.Empty(t, plan(t, w, "node7").Changes)
}

func TestANameThatIsOnlyOnDiskOrOnlyInTheKernelIsSet(t *testing.T) {
	w := hosttest.Rocky9()
	w.Sysctls["kernel.hostname"] = "localhost"
	require.Equal(t, []change.Change{change.SetHostname{Name: "prdk8snod001", Before: "localhost"}}, plan(t, w, "prdk8snod001").Changes)
	w.Sysctls["kernel.hostname"] = "prdk8snod001"
	require.Empty(t, plan(t, w, "prdk8snod001").Changes)
	delete(w.Files, "/etc/hostname")
	require.Len(t, plan(t, w, "prdk8snod001").Changes, 1, "a name that only DHCP gave")
}

func TestCloudInitThatNamesTheHostIsTold(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/cloud/cloud.cfg"] = hosttest.File{Content: "users:\n- default\npreserve_hostname: false\n"}
	require.Len(t, plan(t, w, "prdk8snod001").Warnings, 1)
	require.Empty(t, plan(t, w, "").Warnings)
	w.Files["/etc/cloud/cloud.cfg.d/99-hostname.cfg"] = hosttest.File{Content: "preserve_hostname: true\n"}
	require.Empty(t, plan(t, w, "prdk8snod001").Warnings)
	delete(w.Files, "/etc/cloud/cloud.cfg.d/99-hostname.cfg")
	w.Files["/etc/cloud/cloud-init.disabled"] = hosttest.File{}
	require.Empty(t, plan(t, w, "prdk8snod001").Warnings)
}
