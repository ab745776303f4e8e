package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
)

func TestCommandsWithANativeMeaningAreNotHooksToo(t *testing.T) {
	var none []string
	for command, want := range map[string][]string{
		`while ! ip route | grep -q "default via"; do sleep 1; done; echo "NetworkManager started"`: none,
		"until ip -4 route show | grep default; do sleep 2; done":                                   none,
		"mkdir -p /run/cluster-api && restorecon -Rv /run/cluster-api":                              none,
		"if [ -f /etc/disk-setup.sh ]; then bash /etc/disk-setup.sh; fi":                            none,
		"swapoff -a": none,
		"swapoff -a && sed -i '/ swap / s/^/#/' /etc/fstab":                      none,
		"systemctl enable --now containerd":                                      none,
		"systemctl daemon-reload":                                                none,
		"systemctl start kubelet.service":                                        none,
		"systemctl stop swap.target":                                             none,
		"modprobe -a overlay br_netfilter":                                       none,
		"sysctl -w vm.max_map_count=262144":                                      none,
		"sysctl --system":                                                        none,
		"hostnamectl set-hostname red-1":                                         none,
		"echo red-1 > /etc/hostname":                                             none,
		`echo "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.9" > /etc/sysconfig/kubelet`: none,

		"echo hello":                        {"echo hello"},
		"swapoff -a; echo hello":            {"echo hello"},
		"a; swapoff -a; b":                  {"a; b"},
		"a && swapoff -a && b":              {"a && b"},
		"swapoff /dev/sdb":                  {"swapoff /dev/sdb"},
		"sed -i 's/a/b/' /etc/fstab":        {"sed -i 's/a/b/' /etc/fstab"},
		"systemctl restart rsyslog":         {"systemctl restart rsyslog"},
		"systemctl disable kubelet":         {"systemctl disable kubelet"},
		"systemctl enable chronyd":          {"systemctl enable chronyd"}, // no time servers here
		"modprobe -r floppy":                {"modprobe -r floppy"},
		"sysctl -w kernel.x=$(nproc)":       {"sysctl -w kernel.x=$(nproc)"},
		"hostname -I > /etc/addresses":      {"hostname -I > /etc/addresses"},
		"cd /opt && swapoff -a":             {"cd /opt && swapoff -a"}, // what follows a cd stays with it
		"if true; then swapoff -a; fi":      {"if true; then swapoff -a; fi"},
		"echo 'swapoff -a; ok' > /etc/note": {"echo 'swapoff -a; ok' > /etc/note"},
	} {
		t.Run(command, func(t *testing.T) {
			quoted, err := json.Marshal(command)
			require.NoError(t, err)
			r := Convert([]Input{spec("preKubeadmCommands:\n- " + string(quoted) + "\n- last\n")}, Options{Version: "v1.35.4"})
			require.Empty(t, r.Problems)
			l, err := config.Load([]config.Source{{Data: r.Machines[0].YAML}}, config.Identity{Hostname: "red-1"})
			require.NoError(t, err)
			require.Equal(t, append(want, "last"), l.Spec.Hooks.PreJoin)
			if want == nil {
				require.Contains(t, string(r.Machines[0].YAML), "# Native: ", "every decision is told")
			}
		})
	}
}

func TestNativeCommandsReachTheirSections(t *testing.T) {
	r := Convert([]Input{spec(`ntp: {servers: [ntp.example.com]}
preKubeadmCommands:
- modprobe nf_conntrack ip_vs
- sysctl -w vm.max_map_count=262144
- hostnamectl set-hostname red-1
- systemctl enable --now chronyd
- echo "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.9 --provider-id=baremetal:///red-1" > /etc/sysconfig/kubelet
`)}, Options{Version: "v1.35.4"})
	require.Empty(t, r.Problems)
	out := string(r.Machines[0].YAML)
	for _, want := range []string{"- nf_conntrack\n", "- ip_vs\n", "vm.max_map_count: \"262144\"\n", "hostname: red-1\n", "value: 192.0.2.9\n", "providerID: baremetal:///red-1\n", "- ntp.example.com\n"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "hooks:")
}

// A service that reads what the manifest brings has to be told once it is there.
func TestAReloadStaysWhereItIsNeeded(t *testing.T) {
	for path, hook := range map[string]bool{"/etc/systemd/system/x.service": true, "/etc/motd": false} {
		r := Convert([]Input{spec("files:\n- {path: " + path + ", content: x}\npreKubeadmCommands: [systemctl daemon-reload]\n")}, Options{Version: "v1.35.4"})
		require.Empty(t, r.Problems)
		require.Equal(t, hook, strings.Contains(string(r.Machines[0].YAML), "preJoin:"), path)
	}
}
