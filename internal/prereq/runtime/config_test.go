package runtime

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
)

var all = settings{socket: defaultSocket, sandboxImage: "registry.example/pause:3.10.1", mirrors: true}

// edited edits, checks that a second edit has nothing to do, and decodes.
func edited(t *testing.T, text string, s settings, schema int64) tree {
	t.Helper()
	out, changed, err := edit(text, s, schema)
	require.NoError(t, err)
	require.True(t, changed)
	again, changed, err := edit(out, s, schema)
	require.NoError(t, err)
	require.False(t, changed, "%s", out)
	require.Equal(t, out, again)
	parsed, err := parse(out)
	require.NoError(t, err)
	return parsed
}

func TestANewConfigurationForContainerd2IsOfSchema3(t *testing.T) {
	out, _, err := edit(fresh(3), all, 3)
	require.NoError(t, err)
	require.Equal(t, header+`imports = ['/etc/containerd/conf.d/*.toml']
version = 3

[plugins]
  [plugins.'io.containerd.cri.v1.images']
    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = 'registry.example/pause:3.10.1'

    [plugins.'io.containerd.cri.v1.images'.registry]
      config_path = '/etc/containerd/certs.d'

  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          runtime_type = 'io.containerd.runc.v2'

          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            SystemdCgroup = true
`, out)
}

func TestANewConfigurationForContainerd1IsOfSchema2(t *testing.T) {
	c := edited(t, fresh(2), all, 2)
	require.Equal(t, int64(2), c["version"])
	require.Equal(t, "registry.example/pause:3.10.1", get(c, "plugins", criV2, "sandbox_image"))
	require.Equal(t, true, get(c, "plugins", criV2, "containerd", "runtimes", "runc", "options", "SystemdCgroup"))
	require.Equal(t, defaultHostsDir, get(c, "plugins", criV2, "registry", "config_path"))
}

func TestK1CRIIsTakenOutOfDisabledPluginsAndOthersStay(t *testing.T) {
	for text, want := range map[string][]any{
		`disabled_plugins = ["cri"]`:                                                                  {},
		"version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']":                               {},
		"version = 3\ndisabled_plugins = ['io.containerd.cri.v1.images', 'io.containerd.nri.v1.nri']": {"io.containerd.nri.v1.nri"},
		`disabled_plugins = ["aufs", "cri", "zfs"]`:                                                   {"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs"},
	} {
		require.Equal(t, want, edited(t, text, settings{}, 3)["disabled_plugins"], text)
	}
}

func TestUnknownSettingsAreKept(t *testing.T) {
	text := `version = 2
root = "/data/containerd"
oom_score = -999
[grpc]
  max_recv_message_size = 33554432
[metrics]
  address = "127.0.0.1:1338"
[proxy_plugins.stargz]
  type = "snapshot"
[plugins."io.containerd.grpc.v1.cri"]
  max_container_log_line_size = 32768
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
      BinaryName = "/usr/bin/nvidia-container-runtime"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.kata]
    runtime_type = "io.containerd.kata.v2"
[plugins."io.example.future.v9.thing"]
  ratio = 0.5
  when = 2026-01-02T03:04:05Z
  list = [[1, 2], ["a"]]
`
	c := edited(t, text, all, 2)
	require.Equal(t, "/data/containerd", c["root"])
	require.Equal(t, int64(-999), c["oom_score"])
	require.Equal(t, int64(33554432), get(c, "grpc", "max_recv_message_size"))
	require.Equal(t, "/opt/cni/bin", get(c, "plugins", criV2, "cni", "bin_dir"))
	require.Equal(t, "/usr/bin/nvidia-container-runtime", get(c, "plugins", criV2, "containerd", "runtimes", "nvidia", "options", "BinaryName"))
	require.Equal(t, true, get(c, "plugins", criV2, "containerd", "runtimes", "nvidia", "options", "SystemdCgroup"))
	require.Nil(t, get(c, "plugins", criV2, "containerd", "runtimes", "kata", "options"))
	before, err := parse(text)
	require.NoError(t, err)
	require.Equal(t, get(before, "plugins", "io.example.future.v9.thing"), get(c, "plugins", "io.example.future.v9.thing"))
}

func TestAFileThatSaysItAllIsNotTouchedWhateverItsForm(t *testing.T) {
	text := "# mine\nversion=2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type=\"io.containerd.runc.v2\"\noptions={SystemdCgroup=true}\n"
	out, changed, err := edit(text, settings{socket: "/var/run/containerd/containerd.sock"}, 3)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, text, out)
}

func TestAFileOfSchema1WithPluginsBecomesSchema2(t *testing.T) {
	text := `[plugins]
  [plugins.cri]
    sandbox_image = "old"
    [plugins.cri.containerd]
      snapshotter = "overlayfs"
  [plugins.scheduler]
    pause_threshold = 0.02
`
	c := edited(t, text, settings{sandboxImage: "new"}, 3)
	require.Equal(t, int64(2), c["version"])
	require.Equal(t, "new", get(c, "plugins", criV2, "sandbox_image"))
	require.Equal(t, "overlayfs", get(c, "plugins", criV2, "containerd", "snapshotter"))
	require.Equal(t, 0.02, get(c, "plugins", "io.containerd.gc.v1.scheduler", "pause_threshold"))
	_, _, err := edit("[plugins.mystery]\na=1\n", settings{}, 3)
	require.ErrorContains(t, err, "mystery")
}

func TestWhatCantBeEditedIsAnErrorAndNotALoss(t *testing.T) {
	for text, want := range map[string]string{
		"version = ":               "not TOML",
		"version = \"two\"":        "version is two",
		"version = 2\nplugins = 3": "plugins in it is no table",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes]\nrunc = 1":                              "runtime runc in it is no table",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\nendpoint = [\"https://m\"]": "1 registry mirrors in the old form",
	} {
		_, _, err := edit(text, all, 2)
		require.ErrorContains(t, err, want, text)
	}
}

func TestAnotherSocketIsSetAndTheSameUnderAnotherNameIsNot(t *testing.T) {
	c := edited(t, "version = 3\n", settings{socket: "/run/other.sock"}, 3)
	require.Equal(t, "/run/other.sock", get(c, "grpc", "address"))
	c = edited(t, "version = 3\n[grpc]\naddress = '/var/run/containerd/containerd.sock'\n", settings{socket: defaultSocket}, 3)
	require.Equal(t, "/var/run/containerd/containerd.sock", get(c, "grpc", "address"))
}

func TestHostsFilesGoWhereTheConfigurationLooks(t *testing.T) {
	require.Equal(t, defaultHostsDir, hostsDir(""))
	require.Equal(t, "/etc/my", hostsDir("version=2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path=\"/etc/my/:/etc/docker/certs.d\"\n"))
	require.Equal(t, "/etc/v3", hostsDir("version=3\n[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path=\"/etc/v3\"\n"))
	require.Equal(t, `# Kept by nodeagent (spec.runtime.mirrors).
server = "https://registry-1.docker.io"

[host."https://mirror.example"]
  capabilities = ["pull", "resolve"]

[host."https://harbor.example/v2/dockerhub"]
  capabilities = ["pull", "resolve"]
  override_path = true
`, hostsFile(config.Mirror{Registry: "docker.io", Endpoints: []string{"https://mirror.example/", "https://harbor.example/v2/dockerhub"}}))
	require.NotContains(t, hostsFile(config.Mirror{Registry: "_default", Endpoints: []string{"http://m:5000"}}), "server")
}

// dump is what a real containerd makes of a configuration.
func dump(t *testing.T, text string) tree {
	t.Helper()
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("containerd is not in PATH: its reading of the files isn't checked")
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.Command(program, "--config", file, "config", "dump").Output()
	require.NoError(t, err)
	c, err := parse(string(out))
	require.NoError(t, err)
	return c
}

func TestARealContainerdReadsEverySchemaAsMeant(t *testing.T) {
	newest, _ := dump(t, "version = 2\n")["version"].(int64) // 2 of containerd 1.x, 3 of 2.x
	images, runtimes, sandbox := imagesV3, runtimeV3, []string{"pinned_images", "sandbox"}
	if newest < 3 {
		images, runtimes, sandbox = criV2, criV2, []string{"sandbox_image"}
	}
	for name, text := range map[string]string{
		"new":                   fresh(newest),
		"schema 2, new":         fresh(2),
		"the vendor's package":  "disabled_plugins = [\"cri\"]\n\n#root = \"/var/lib/containerd\"\n",
		"schema 1 with plugins": "[plugins.cri]\n  max_container_log_line_size = 9999\n",
		"schema 2 by hand":      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  BinaryName = \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := edit(text, all, newest)
			require.NoError(t, err)
			c := dump(t, out)
			require.Equal(t, "registry.example/pause:3.10.1", get(c, append([]string{"plugins", images}, sandbox...)...))
			require.Equal(t, defaultHostsDir, get(c, "plugins", images, "registry", "config_path"))
			runc := get(c, "plugins", runtimes, "containerd", "runtimes", "runc")
			require.Equal(t, true, get(runc.(tree), "options", "SystemdCgroup"))
			require.Equal(t, runcType, get(runc.(tree), "runtime_type"))
			require.NotContains(t, c["disabled_plugins"], criV2)
			if strings.Contains(name, "plugins") {
				require.EqualValues(t, 9999, get(c, "plugins", runtimes, "max_container_log_line_size"))
			}
		})
	}
}

func FuzzEditKeepsWhatItReads(f *testing.F) {
	f.Add("version = 2\n[a.b]\nc = 1\n")
	f.Add("disabled_plugins = ['cri']\n")
	f.Add("plugins = {cri = {}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		out, changed, err := edit(text, all, 3)
		if err != nil {
			return
		}
		if !changed && out != text {
			t.Fatal("changed without saying so")
		}
		if _, again, err := edit(out, all, 3); err != nil || again {
			t.Fatalf("not stable: %v\n%s", err, out)
		}
	})
}
