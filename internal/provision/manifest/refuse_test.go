package manifest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
)

// spec is a KubeadmConfig with these lines below spec.
func spec(lines string) Input {
	var b strings.Builder
	b.WriteString("apiVersion: bootstrap.cluster.x-k8s.io/v1beta1\nkind: KubeadmConfig\nmetadata: {name: red}\nspec:\n")
	for line := range strings.Lines(lines) {
		b.WriteString("  " + line)
	}
	return Input{Name: "f.yaml", Data: []byte(b.String())}
}

func TestWhatCannotBeCarriedIsToldWithItsPlaceAndPath(t *testing.T) {
	for name, c := range map[string]struct{ lines, want, hint string }{
		"content of a secret":        {"files:\n- path: /etc/x\n  contentFrom: {secret: {name: a, key: b}}\n", "f.yaml:7:18: spec.files[0].contentFrom: refers to a secret", "write the content"},
		"an unknown key":             {"files:\n- {path: /etc/x, contents: y}\n", "f.yaml:6:30: spec.files[0].contents: isn't known", ""},
		"an unknown key at the top":  {"postJoinCommands: [a]\n", "f.yaml:5:21: spec.postJoinCommands: isn't known", ""},
		"a control plane":            {"clusterConfiguration: {clusterName: x}\n", "spec.clusterConfiguration: is of a control plane: workers are the job", ""},
		"a control plane's join":     {"joinConfiguration: {controlPlane: {}}\n", "spec.joinConfiguration.controlPlane: joins a control plane node", ""},
		"base64 that is none":        {"files:\n- {path: /etc/x, encoding: base64, content: '%%%'}\n", "f.yaml:6:47: spec.files[0].content: is not base64", ""},
		"gzip that is none":          {"files:\n- {path: /etc/x, encoding: gzip+base64, content: aGVsbG8=}\n", "spec.files[0].content: is not what gzip has packed", ""},
		"an unknown encoding":        {"files:\n- {path: /etc/x, encoding: zstd, content: x}\n", `spec.files[0].encoding: "zstd" is not an encoding`, ""},
		"a relative path":            {"files:\n- {path: etc/x, content: x}\n", `f.yaml:6:5: spec.files[0]: "etc/x" is not a clean absolute path`, ""},
		"a JSON patch":               {"files:\n- {path: /p/kubeletconfiguration+json.json, content: '[]'}\njoinConfiguration: {patches: {directory: /p}}\n", "spec.files[0]: a patch of type json can't be carried", ""},
		"kubelet's own file":         {"files:\n- {path: /var/lib/kubelet/config.yaml, content: x}\n", "kubeadm join writes /var/lib/kubelet/config.yaml itself", ""},
		"a secret file":              {"files:\n- {path: /etc/x, permissions: '0600', content: hush}\n", "is secret: the content of /etc/x", "--with-secrets"},
		"a password hash":            {"users:\n- {name: ops, passwd: $6$a$b}\n", "spec.users[0].passwd: is secret: the password hash of user ops", "--with-secrets"},
		"a token in a command":       {"preKubeadmCommands: [\"curl -H abcdef.0123456789abcdef cp.example\"]\n", "spec.preKubeadmCommands[0]: is secret", "--with-secrets"},
		"a boot command":             {"bootCommands: [\"echo hello\"]\n", "spec.bootCommands[0]: runs at every boot", ""},
		"a command that formats":     {"preKubeadmCommands: [\"mkfs.xfs -f /dev/sdb\"]\n", "spec.preKubeadmCommands[0]: formats a disk by itself: mkfs.xfs -f /dev/sdb", "a blank one is formatted"},
		"a command that joins":       {"preKubeadmCommands: [\"kubeadm join --config /x\"]\n", "spec.preKubeadmCommands[0]: runs kubeadm itself", ""},
		"a placeholder":              {"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {provider-id: PROVIDER_ID}}}\n", "provider-id: PROVIDER_ID stands for the provider's id of the machine, which no document says", "add the pool"},
		"an address placeholder":     {"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {node-ip: NODE_IP}}}\n", "node-ip: NODE_IP stands for the machine's address", "add the pool"},
		"an unknown template":        {"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {node-ip: \"{{ ds.meta_data.other }}\"}}}\n", "has a template that isn't known", ""},
		"a flag that is gone":        {"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {cloud-config: /x}}}\n", "kubelet has no flag --cloud-config since 1.34", ""},
		"a protected label":          {"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {node-labels: node-role.kubernetes.io/worker=}}}\n", "a node can't give itself a label of node-role.kubernetes.io", ""},
		"a phase":                    {"joinConfiguration: {skipPhases: [preflight]}\n", "spec.joinConfiguration.skipPhases[0]: a phase of kubeadm can't be skipped", ""},
		"an unseen cluster":          {"joinConfiguration: {discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, unsafeSkipCAVerification: true}}}\n", "a cluster is never joined unseen", ""},
		"two kinds of discovery":     {"joinConfiguration: {discovery: {file: {kubeConfigPath: /x}, tlsBootstrapToken: abcdef.0123456789abcdef}}\n", "discovery.tlsBootstrapToken: goes with a kubeconfig", ""},
		"a filesystem replaced":      {"diskSetup: {filesystems: [{device: /dev/disk/by-id/x, filesystem: xfs, overwrite: true}]}\nmounts: [[/dev/disk/by-id/x, /data]]\n", "spec.diskSetup.filesystems[0].overwrite: a disk that holds anything is never formatted", ""},
		"kernel names":               {"diskSetup: {filesystems: [{device: /dev/sdb, filesystem: xfs}, {device: /dev/sdc, filesystem: xfs}]}\nmounts: [[/dev/sdb, /a], [/dev/sdc, /b]]\n", "spec.diskSetup.filesystems[0].device: /dev/sdb is another disk after another boot", "by-id"},
		"a filesystem never mounted": {"diskSetup: {filesystems: [{device: /dev/disk/by-id/x, filesystem: xfs}]}\n", "spec.diskSetup.filesystems[0]: is mounted nowhere", ""},
		"another filesystem":         {"diskSetup: {filesystems: [{device: /dev/disk/by-id/x, filesystem: btrfs}]}\nmounts: [[/dev/disk/by-id/x, /data]]\n", `"btrfs" is not allowed`, ""},
		"Ignition's own":             {"ignition: {containerLinuxConfig: {additionalConfig: x}}\n", "spec.ignition: is Ignition's own configuration", ""},
		"a key twice":                {"format: ignition\nformat: cloud-config\n", `has the key "format" twice`, ""},
		"an example not filled in":   {"users: [{name: <user-name>}]\n", "spec.users[0].name: <user-name> is still an example's placeholder", "fill it in"},
		"another shape":              {"files: {path: /x}\n", "spec.files: want a list, found a mapping", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Convert([]Input{spec(c.lines)}, Options{Version: "v1.34.5"})
			require.NotEmpty(t, r.Problems, "%s", Join(r.Machines))
			require.Contains(t, r.Problems.Error(), c.want)
			require.NotContains(t, r.Problems.Error()+string(Join(r.Machines)), "0123456789abcdef")
			if c.hint != "" {
				require.Contains(t, hints(r.Problems), c.hint)
			}
			accepted(t, r) // what --keep-going writes
		})
	}
}

func hints(p config.Problems) (s string) {
	for _, x := range p {
		s += x.Hint + "\n"
	}
	return s
}

func TestDocumentsThatAreNotConvertedAreToldByNumber(t *testing.T) {
	const good = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n---\n"
	for name, c := range map[string]struct{ text, want string }{
		"control plane":    {good + "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: KubeadmControlPlane\n", "f.yaml:4:1: document 2 is a KubeadmControlPlane: workers are the job"},
		"another kind":     {good + "apiVersion: v1\nkind: Secret\n", "f.yaml:4:1: document 2: Secret of v1 is not a kind that is converted"},
		"another group":    {"apiVersion: example.com/v1\nkind: MachineDeployment\n", "document 1: a MachineDeployment belongs to cluster.x-k8s.io"},
		"another version":  {"apiVersion: kubeadm.k8s.io/v1alpha1\nkind: JoinConfiguration\n", "document 1: JoinConfiguration of version v1alpha1 is not known"},
		"no kind":          {"a: b\n", "document 1 has no apiVersion and kind"},
		"no mapping":       {"[a]\n", "document 1 is a list, not a manifest"},
		"nothing":          {"# nothing\n", "f.yaml: holds no document"},
		"no YAML":          {"a: b\n\tc: d\n", "f.yaml:2:1: document 1: found a tab character"},
		"itself in itself": {"a: &a [*a]\n", "document 1 is nested too deeply or expands to too many values"},
		"two joins":        {good + "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n", "is a second JoinConfiguration, beside f.yaml:1"},
		"a pool alone":     {"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: DCSIpHostnamePool\nmetadata: {name: a}\n", "no machine template refers to this pool"},
		"no pool":          {"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: DCSMachineTemplate\nmetadata: {name: a}\nspec: {template: {spec: {ipHostPoolRef: {name: b}}}}\n", "f.yaml:4:48: spec.template.spec.ipHostPoolRef.name: the DCSIpHostnamePool b is not among the documents"},
		"a list of kinds":  {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n", "items[0]: document 1: Node of v1 is not a kind"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Convert([]Input{{Name: "f.yaml", Data: []byte(c.text)}}, Options{Version: "v1.35.4"})
			require.ErrorContains(t, r.Problems, c.want)
		})
	}
}

func TestTheReleaseIsNamedBySomebody(t *testing.T) {
	line := Input{Name: "join", Data: []byte("kubeadm join cp.example:6443 --token abcdef.0123456789abcdef\n")}
	r := Convert([]Input{line}, Options{})
	require.ErrorContains(t, r.Problems, "no document names the Kubernetes release")
	require.ErrorContains(t, Convert([]Input{line}, Options{Version: "latest"}).Problems, `"vlatest" is not a release`)
	require.Empty(t, Convert([]Input{line}, Options{Version: "1.35.4"}).Problems)
}

// Every encoding of a file means the same content.
func TestFilesOfEveryEncodingHoldTheSame(t *testing.T) {
	const want = "one\n two\t\nthree"
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write([]byte(want))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	packed := base64.StdEncoding.EncodeToString(z.Bytes())
	for name, file := range map[string]string{
		"as it is":    `content: "one\n two\t\nthree"`,
		"base64":      "encoding: base64, content: " + base64.StdEncoding.EncodeToString([]byte(want)),
		"gzip+base64": "encoding: gzip+base64, content: " + packed,
		"gzip":        "encoding: gzip, content: !!binary " + packed,
		"binary":      "content: !!binary " + base64.StdEncoding.EncodeToString([]byte(want)),
	} {
		r := Convert([]Input{spec("files:\n- {path: /etc/x, append: true, owner: 'ops:ops', permissions: '0755', " + file + "}\n")}, Options{Version: "v1.35.4"})
		require.Empty(t, r.Problems, name)
		l, err := config.Load([]config.Source{{Data: r.Machines[0].YAML}}, config.Identity{})
		require.NoError(t, err, name)
		require.Equal(t, []config.File{{Path: "/etc/x", Owner: "ops:ops", Permissions: "0755", Append: true, Content: want}}, l.Spec.Files, name)
	}
}
