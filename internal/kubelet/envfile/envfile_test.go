package envfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const k = "KUBELET_KUBEADM_ARGS"

func removed(name string) bool {
	return name == "network-plugin" || name == "container-runtime" || name == "pod-infra-container-image" || name == "register-schedulable"
}

func TestK2RemovedFlagsGoAndEveryOtherByteStays(t *testing.T) {
	switches := map[string]bool{"register-schedulable": true}
	for name, c := range map[string]struct {
		in, want string
		dropped  []string
	}{
		"K2":                                    {k + `="--network-plugin=cni --container-runtime=remote --pod-infra-container-image=registry.k8s.io/pause:3.10.1"` + "\n", k + `=""` + "\n", []string{"network-plugin", "container-runtime", "pod-infra-container-image"}},
		"among others":                          {k + `="--container-runtime-endpoint=unix:///run/containerd/containerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.10 --node-ip=192.0.2.10"` + "\n", k + `="--container-runtime-endpoint=unix:///run/containerd/containerd.sock --node-ip=192.0.2.10"` + "\n", []string{"pod-infra-container-image"}},
		"the first":                             {k + `='--network-plugin=cni   --a=b'`, k + `='--a=b'`, []string{"network-plugin"}},
		"the last, unquoted":                    {k + "=--a=b --network-plugin cni  \nOTHER=1", k + "=--a=b  \nOTHER=1", []string{"network-plugin"}},
		"a value of its own word":               {k + `="--network-plugin cni --a b"`, k + `="--a b"`, []string{"network-plugin"}},
		"a switch has no value":                 {k + `="--register-schedulable x --a"`, k + `="x --a"`, []string{"register-schedulable"}},
		"over two lines":                        {k + "=\"--a=b \\\n  --network-plugin=cni \\\n  --c=d\"\n", k + "=\"--a=b \\\n \\\n  --c=d\"\n", []string{"network-plugin"}},
		"comments stay":                         {"# " + k + "=--network-plugin=cni\n" + k + "=\n", "# " + k + "=--network-plugin=cni\n" + k + "=\n", nil},
		"a comment with a backslash at its end": {"# x \\\n" + k + "=--network-plugin=cni\n", "# x \\\n" + k + "=\n", []string{"network-plugin"}},
		"another variable":                      {"X" + k + "=--network-plugin=cni\n", "X" + k + "=--network-plugin=cni\n", nil},
		"twice":                                 {k + "=--network-plugin=a\n" + k + "=--network-plugin=b --c\n", k + "=\n" + k + "=--c\n", []string{"network-plugin", "network-plugin"}},
		"nothing there":                         {"", "", nil},
		"Windows line ends":                     {k + "=\"--network-plugin=cni --a\"\r\n", k + "=\"--a\"\r\n", []string{"network-plugin"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, dropped := Drop(c.in, k, removed, switches)
			require.Equal(t, c.want, got)
			var names []string
			for _, f := range dropped {
				names = append(names, f.Name)
			}
			require.Equal(t, c.dropped, names)
			again, more := Drop(got, k, removed, switches)
			require.Equal(t, got, again)
			require.Empty(t, more)
		})
	}
}

func TestAFlagIsSetWhereItStandsOrAtTheEnd(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 k + "=\"--node-ip=1\"\n",
		"A=1":                              "A=1\n" + k + "=\"--node-ip=1\"\n",
		k + "=\"\"\n":                      k + "=\"--node-ip=1\"\n",
		k + "=\n":                          k + "=--node-ip=1\n",
		k + "=\"--a=b\"\n":                 k + "=\"--a=b --node-ip=1\"\n",
		k + "=\"--node-ip=2 --a=b\"\n":     k + "=\"--node-ip=1 --a=b\"\n",
		k + "=\"--a --node-ip 2\"\n":       k + "=\"--a --node-ip=1\"\n",
		k + "=--a\nX=1\n":                  k + "=--a --node-ip=1\nX=1\n",
		k + "=--a\n" + k + "=--node-ip=2 ": k + "=--a\n" + k + "=--node-ip=1 ",
	} {
		got := Set(in, k, "node-ip", "1")
		require.Equal(t, want, got, in)
		require.Equal(t, got, Set(got, k, "node-ip", "1"))
		require.Contains(t, Flags(got, k), Flag{"node-ip", "1", true})
	}
}

func FuzzDropAndSet(f *testing.F) {
	f.Add(k + `="--network-plugin=cni --a b"` + "\n# x\nY=1")
	f.Add(k + "=--a \\\n --network-plugin=x")
	f.Fuzz(func(t *testing.T, s string) {
		out, _ := Drop(s, k, removed, nil)
		require.LessOrEqual(t, len(out), len(s))
		for _, fl := range Flags(out, k) {
			require.False(t, removed(fl.Name))
		}
		if !strings.Contains(s, k) {
			require.Equal(t, s, out)
		}
		set := Set(s, k, "node-ip", "1")
		require.Equal(t, set, Set(set, k, "node-ip", "1"))
	})
}
