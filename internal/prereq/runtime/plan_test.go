package runtime

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func load(t *testing.T, spec string) config.Spec {
	t.Helper()
	text := "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n" + spec
	c, err := config.Load([]config.Source{{Name: "test", Data: []byte(text)}}, config.Identity{})
	require.NoError(t, err)
	return c.Spec
}

func plan(t *testing.T, w *hosttest.World, spec config.Spec) change.Plan {
	t.Helper()
	f, err := Observe(context.Background(), w, spec)
	require.NoError(t, err)
	return Plan(spec, f)
}

func ids(p change.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return out
}

func converge(t *testing.T, w *hosttest.World, spec config.Spec) change.Plan {
	t.Helper()
	p := plan(t, w, spec)
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil), c.ID())
	}
	left := plan(t, w, spec)
	require.True(t, left.Empty(), "%v %v", ids(left), left.Blocked)
	return p
}

// packaged is a host where the packages step has installed containerd.io.
func packaged() *hosttest.World {
	w := hosttest.Rocky9()
	err := w.Apply(context.Background(), change.InstallPackages{Manager: "dnf", Packages: []string{"containerd.io"}}, nil)
	if err != nil {
		panic(err)
	}
	return w
}

const archives = `  runtime:
    archives:
    - {url: "https://dl.example/containerd-2.2.9-linux-amd64.tar.gz", sha256: "` + sum + `", into: /usr/local}
    - {url: "https://dl.example/runc.amd64", sha256: "` + sum + `", into: /usr/local/sbin/runc}
`

const sum = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestThePackagedContainerdIsConfiguredEnabledAndStarted(t *testing.T) {
	w := packaged()
	p := converge(t, w, load(t, "  runtime: {source: package, sandboxImage: \"registry.example/pause:3.10.1\", mirrors: [{registry: docker.io, endpoints: [\"https://m.example\"]}]}\n"))
	require.Equal(t, []string{"file:/etc/containerd/config.toml", "file:/etc/containerd/certs.d/docker.io/hosts.toml", "unit:containerd.service"}, ids(p))
	require.Equal(t, change.SetUnit{Unit: "containerd.service", Enable: true, Start: true, Socket: "unix:///run/containerd/containerd.sock"}, p.Changes[2])
	require.Contains(t, w.Files[configPath].Content, "version = 3")
	require.NotContains(t, w.Files[configPath].Content, "'cri'")
}

func TestOnAHostWithNothingThePlanIsThatOfAPackage(t *testing.T) {
	p := plan(t, hosttest.Rocky9(), load(t, ""))
	require.Empty(t, p.Blocked, "the packages step brings it")
	require.Equal(t, []string{"file:/etc/containerd/config.toml", "unit:containerd.service"}, ids(p))
	require.Contains(t, p.Changes[0].(change.WriteFile).Content, "version = 2", "every containerd reads schema 2")
}

func TestARunCutOffBeforeTheRestartIsFinishedByTheNext(t *testing.T) {
	w := packaged()
	converge(t, w, load(t, ""))
	spec := load(t, "  runtime: {sandboxImage: \"registry.example/pause:1\"}\n")
	p := plan(t, w, spec)
	require.Equal(t, []string{"file:/etc/containerd/config.toml", "unit:containerd.service"}, ids(p))
	require.NoError(t, w.Apply(context.Background(), p.Changes[0], nil))
	again := plan(t, w, spec)
	require.Equal(t, []string{"unit:containerd.service"}, ids(again))
	require.True(t, again.Changes[0].(change.SetUnit).Restart)
	converge(t, w, spec)
}

func TestAConfigurationFromTheFutureDoesntRestartForEver(t *testing.T) {
	w := packaged()
	converge(t, w, load(t, ""))
	f := w.Files[configPath]
	f.Modified = w.Sys.Now.UnixMicro() + 1e12
	w.Files[configPath] = f
	require.True(t, plan(t, w, load(t, "")).Empty())
}

func TestArchivesBringContainerdAndAUnit(t *testing.T) {
	w := hosttest.Rocky9()
	w.Repo["containerd-2.2.9"] = hosttest.Package{Version: "2.2.9-1", Files: map[string]hosttest.File{"/usr/local/bin/containerd": {Mode: "0755"}}}
	w.Repo["runc.amd64"] = hosttest.Package{Version: "1-1", Files: map[string]hosttest.File{"/usr/local/sbin/runc": {Mode: "0755"}}}
	p := converge(t, w, load(t, archives))
	require.Equal(t, []string{"route", "archive:https://dl.example/containerd-2.2.9-linux-amd64.tar.gz", "archive:https://dl.example/runc.amd64",
		"file:/etc/systemd/system/containerd.service", "file:/etc/containerd/config.toml", "unit:containerd.service"}, ids(p))
	require.Contains(t, w.Files[unitPath].Content, "ExecStart=/usr/local/bin/containerd\n")
	require.Contains(t, w.Files[configPath].Content, "version = 3")
	require.True(t, p.Changes[5].(change.SetUnit).Reload)
	require.Empty(t, p.Warnings)
}

func TestWithSELinuxWhatArchivesBringIsRelabelled(t *testing.T) {
	w := hosttest.Rocky9()
	w.Sys.SELinux = "enforcing"
	require.Subset(t, ids(plan(t, w, load(t, archives))), []string{"relabel:/usr/local", "relabel:/usr/local/sbin/runc"})
}

func TestAnArchiveWithoutRuncIsWarnedAbout(t *testing.T) {
	spec := load(t, archives)
	spec.Runtime.Archives = spec.Runtime.Archives[:1]
	require.Len(t, plan(t, hosttest.Rocky9(), spec).Warnings, 1)
}

func TestAUnitOfOthersForTheSameProgramStays(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files[unitPath] = hosttest.File{Content: "[Service]\nExecStart=/usr/local/bin/containerd --log-level debug\n"}
	require.NotContains(t, ids(plan(t, w, load(t, archives))), "file:"+unitPath)
	w.Files[unitPath] = hosttest.File{Content: "[Service]\nExecStart=/usr/bin/containerd\n"}
	require.Contains(t, ids(plan(t, w, load(t, archives))), "file:"+unitPath)
}

func TestPreinstalledIsTakenAsItIsWhenItIsThere(t *testing.T) {
	require.Len(t, plan(t, hosttest.Rocky9(), load(t, "  runtime: {source: preinstalled}\n")).Blocked, 1)
	w := packaged()
	converge(t, w, load(t, "  runtime: {source: preinstalled}\n"))
	require.True(t, plan(t, w, load(t, "")).Empty(), "auto finds it installed")

	delete(w.Files, "/usr/bin/runc")
	p := plan(t, w, load(t, ""))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "runc isn't")
	require.Empty(t, plan(t, w, load(t, "  packages: {install: [runc]}\n")).Blocked)
	w.Files[configPath] = hosttest.File{Content: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name = \"kata\"\n"}
	require.Empty(t, plan(t, w, load(t, "")).Blocked)
}

func TestAMaskedRuntimeIsNotUnmasked(t *testing.T) {
	w := packaged()
	w.UnitStates["containerd.service"] = host.Unit{LoadState: "masked", ActiveState: "inactive", UnitFileState: "masked"}
	require.Len(t, plan(t, w, load(t, "")).Blocked, 1)
}

func TestABrokenConfigurationBlocksWithItsReason(t *testing.T) {
	w := packaged()
	w.Files[configPath] = hosttest.File{Content: "version = \n"}
	p := plan(t, w, load(t, ""))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "/etc/containerd/config.toml can't be edited: it is not TOML")
}

func TestTheModeOfAConfigurationOfOthersStays(t *testing.T) {
	w := packaged()
	w.Files[configPath] = hosttest.File{Content: "version = 2\n", Mode: "0600"}
	converge(t, w, load(t, ""))
	require.Equal(t, "0600", w.Files[configPath].Mode)
}

func TestCRIOKeepsItsOwnConfiguration(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/usr/bin/crio"] = hosttest.File{Mode: "0755"}
	spec := load(t, "  runtime: {source: preinstalled, socket: \"unix:///var/run/crio/crio.sock\"}\n")
	p := plan(t, w, spec)
	require.Equal(t, []string{"unit:crio.service"}, ids(p))
	spec.Runtime.SandboxImage = "x"
	require.Len(t, plan(t, w, spec).Blocked, 1)
}

func TestARuntimeThatIsActiveButSilentIsRestarted(t *testing.T) {
	f := Facts{Present: Present{Binary: "/usr/bin/containerd"}, Silent: "the runtime runs, but its CRI service is off",
		Unit: host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", StartedAt: 5}}
	set, _ := planService(load(t, "").Runtime, f, false, false)
	require.True(t, set.Restart)
	require.Contains(t, set.Why, "CRI service is off")
}

func TestFactsOfATreeStillGiveAPlan(t *testing.T) {
	require.Equal(t, []string{"file:/etc/containerd/config.toml", "unit:containerd.service"}, ids(Plan(load(t, ""), Facts{})))
}

func TestVersionsAreReadFromArchiveNames(t *testing.T) {
	for name, want := range map[string]string{"containerd-2.2.9-linux-amd64.tar.gz": "2.2.9", "containerd-static-1.7.22-linux-arm64.tar.gz": "1.7.22", "cri-containerd-cni-1.7.0-linux-amd64.tar.gz": "", "x.tar.gz": ""} {
		require.Equal(t, want, versionOf([]config.Archive{{URL: "https://x/" + name}}), name)
	}
	require.Equal(t, "/opt/c/bin/containerd", programPath([]config.Archive{{URL: "https://x/runc", Into: "/usr/bin/runc"}, {URL: "https://x/containerd-2.tgz", Into: "/opt/c"}}, nil))
	require.True(t, strings.HasPrefix(programPath([]config.Archive{{URL: "https://x/cri-containerd-1.tgz", Into: "/"}}, nil), "/usr/local/bin/"))
}

func TestCredentialsInTheConfigurationLeaveNoTrace(t *testing.T) {
	w := packaged()
	w.Files[configPath] = hosttest.File{Content: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r.example\".auth]\n  username = \"u\"\n  password = \"hunter2\"\n  auth = 'aHVudGVy'\n"}
	f, err := Observe(context.Background(), w, load(t, ""))
	require.NoError(t, err)
	b, err := json.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(b), "hunter2")
	require.NotContains(t, string(b), "aHVudGVy")
	p := Plan(load(t, ""), f)
	require.True(t, p.Changes[0].(change.WriteFile).Secret)
	converge(t, w, load(t, ""))
	require.Contains(t, w.Files[configPath].Content, "hunter2")
}

func TestAnArchiveForAReadOnlyDirectoryIsToldBeforehand(t *testing.T) {
	p := plan(t, hosttest.Alauda(), load(t, archives))
	require.NotEmpty(t, p.Blocked)
	require.ErrorContains(t, p.Blocked[0], "can't be unpacked into /usr/local: / (btrfs) is mounted read-only")
}

func TestServicesOfOthersThatARuntimeMeetsAreTold(t *testing.T) {
	w := hosttest.Rocky9()
	w.UnitStates["fapolicyd.service"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	w.UnitStates["docker.service"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	p := plan(t, w, load(t, archives))
	require.Contains(t, strings.Join(p.Warnings, "\n"), "fapolicyd-cli --file add /usr/local && fapolicyd-cli --file add /usr/local/sbin/runc && fapolicyd-cli --update")
	require.Len(t, p.Notes, 1)
	require.Contains(t, p.Notes[0], "Docker")
	p = plan(t, packagedWith(t, w), load(t, ""))
	require.NotContains(t, strings.Join(p.Warnings, "\n"), "fapolicyd", "packages are trusted")
}

func packagedWith(t *testing.T, w *hosttest.World) *hosttest.World {
	require.NoError(t, w.Apply(context.Background(), change.InstallPackages{Manager: "dnf", Packages: []string{"containerd.io"}}, nil))
	return w
}

func TestAnOldContainerdIsToldFromKubernetes135On(t *testing.T) {
	for release, told := range map[string]bool{"v1.34.4": false, "v1.35.4": true} {
		spec := load(t, "")
		spec.Kubernetes.Version = release
		for version, old := range map[string]bool{"v1.7.29": true, "1.6.20": true, "v2.2.1": false} {
			p := Plan(spec, Facts{Present: Present{Binary: "/usr/bin/containerd", Runc: true}, CRI: &host.RuntimeVersion{Name: "containerd", Version: version}, Unit: host.Unit{LoadState: "loaded", ActiveState: "active"}})
			require.Equal(t, told && old, strings.Contains(strings.Join(p.Warnings, "\n"), "wants 2.0 or later"), "%s %s", release, version)
		}
	}
}
