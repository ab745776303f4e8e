package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodDCS = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DCSIpHostnamePool
metadata: {name: blue}
spec:
  pool:
  - {ip: 192.0.2.21, mask: 255.255.255.0, gateway: 192.0.2.1, dns: 192.0.2.53, hostname: blue-1, machineName: vm-1}
  - {ip: 192.0.2.22, mask: 255.255.255.0, gateway: 192.0.2.1, dns: 192.0.2.53, hostname: blue-2, machineName: vm-2}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DCSMachineTemplate
metadata: {name: blue-v1}
spec:
  template:
    spec:
      vmConfig:
        dcsMachineDiskSpec:
        - {quantity: 100, path: /var/lib/kubelet, format: xfs}
        - {quantity: 100, path: /var/lib/containerd, format: xfs}
      ipHostPoolRef: {name: blue}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: blue}
spec:
  template:
    spec:
      files:
      - path: /etc/kubernetes/patches/kubeletconfiguration0+strategic.json
        content: '{"imagePullCredentialsVerificationPolicy": "NeverVerify"}'
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: blue}
spec:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  template:
    spec:
      version: v1.35.4
      bootstrap: {configRef: {kind: KubeadmConfigTemplate, name: blue}}
      infrastructureRef: {kind: DCSMachineTemplate, name: blue-v1}
`

const goodSlots = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineConfigPool
metadata: {name: green}
spec:
  configs:
  - hostname: green-1
    network: {primary: {ip: 192.0.2.31/24, gateway: 192.0.2.1}}
    persistentDisks: [{name: var-cpaas, sizeGiB: 80, mountPath: /var/cpaas}]
    ephemeralDisks: [{name: var-lib-kubelet, sizeGiB: 60, mountPath: /var/lib/kubelet}, {name: var-lib-containerd, sizeGiB: 90, mountPath: /var/lib/containerd}]
  - hostname: green-2
    network: {primary: {ip: 192.0.2.32/24, gateway: 192.0.2.1}}
    persistentDisks: [{name: var-cpaas, sizeGiB: 80, mountPath: /var/cpaas}]
    ephemeralDisks: [{name: var-lib-kubelet, sizeGiB: 60, mountPath: /var/lib/kubelet}, {name: var-lib-containerd, sizeGiB: 90, mountPath: /var/lib/containerd}]
status: {configStatuses: [{hostname: green-1, state: InUse}, {hostname: green-2, state: Free}]}
`

const goodMachines = `---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: green-v1}
spec: {template: {spec: {machineConfigPoolRef: {name: green}, network: {devices: [{networkName: lan}]}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: green}
spec: {template: {spec: {joinConfiguration: {}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: green}
spec:
  replicas: 2
  rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}
  template:
    spec:
      version: v1.34.5
      bootstrap: {configRef: {kind: KubeadmConfigTemplate, name: green}}
      infrastructureRef: {kind: VSphereMachineTemplate, name: green-v1}
`

func checked(t *testing.T, text string) string {
	t.Helper()
	problems, _ := Check([]Input{{Name: "f.yaml", Data: []byte(text)}})
	if len(problems) == 0 {
		return ""
	}
	return problems.Error()
}

// Each rule is broken by one edit of manifests that keep them all, and told once.
func TestRulesAreToldBeforeAnythingIsApplied(t *testing.T) {
	slots := goodSlots + goodMachines
	second := goodSlots + "---\n" // the pool as the cluster has it, and then as it shall be
	for name, c := range map[string]struct{ all, from, to, want string }{
		"replicas":                {goodDCS, "replicas: 2", "replicas: 3", "3 replicas need more than the 2 entries of pool blue"},
		"surge by default":        {goodDCS, "rollingUpdate: {maxSurge: 0, maxUnavailable: 1}", "rollingUpdate: {}", "maxSurge is not set and defaults to 1"},
		"surge":                   {goodDCS, "maxSurge: 0", "maxSurge: 1", "with maxSurge 1 a rollout waits"},
		"nothing to replace":      {goodDCS, "maxUnavailable: 1", "maxUnavailable: 0", "with maxUnavailable 0 no machine can be replaced"},
		"an address twice":        {goodDCS, "192.0.2.22", "192.0.2.21", "the ip 192.0.2.21 is that of f.yaml:6, too"},
		"a name twice":            {goodDCS, "hostname: blue-2", "hostname: BLUE-1", "the hostname BLUE-1 is that of f.yaml:6, too"},
		"a machine twice":         {goodDCS, "vm-2", "vm-1", "the machineName vm-1 is that of f.yaml:6, too"},
		"a gateway elsewhere":     {goodDCS, "gateway: 192.0.2.1,", "gateway: 198.51.100.1,", "the gateway 198.51.100.1 is outside of 192.0.2.0/24"},
		"no mask":                 {goodDCS, "mask: 255.255.255.0", "mask: 255.0.255.0", `"255.0.255.0" is no mask for 192.0.2.21`},
		"no disk for kubelet":     {goodDCS, "path: /var/lib/kubelet", "path: /var/lib/other", "has no disk for /var/lib/kubelet, which the provider requires"},
		"no pull policy":          {goodDCS, `{"imagePullCredentialsVerificationPolicy": "NeverVerify"}`, "{}", "v1.35.4 needs imagePullCredentialsVerificationPolicy"},
		"another pull policy":     {goodDCS, "NeverVerify", "AlwaysVerify", "imagePullCredentialsVerificationPolicy is not NeverVerify"},
		"a pull policy too early": {goodDCS, "version: v1.35.4", "version: v1.34.5", "kubelet v1.34.5 doesn't know imagePullCredentialsVerificationPolicy"},
		"no such template":        {goodDCS, "name: blue-v1}\n", "name: blue-v2}\n", "blue-v1 is not among the documents"},

		"slots":                    {slots, "replicas: 2", "replicas: 4", "4 replicas need more than the 2 entries of pool green"},
		"surge of v1beta2":         {slots, "maxSurge: 0", "maxSurge: 2", "with maxSurge 2 a rollout waits"},
		"unequal disks":            {slots, "sizeGiB: 80, mountPath: /var/cpaas", "sizeGiB: 81, mountPath: /var/cpaas", "the disks of slot green-2"},
		"no var-cpaas":             {slots, "mountPath: /var/cpaas", "mountPath: /var/other", "slot green-1 has no disk for /var/cpaas in persistentDisks"},
		"no disk for containerd":   {slots, "mountPath: /var/lib/containerd", "mountPath: /var/lib/other", "has no disk for /var/lib/containerd in ephemeralDisks"},
		"a second network":         {slots, "devices: [{networkName: lan}]", "devices: [{networkName: lan}, {networkName: two}]", "slot green-1 has 1 networks, and the template green-v1 has 2 devices"},
		"a slot's gateway":         {slots, "gateway: 192.0.2.1}", "gateway: 203.0.113.1}", "is outside of 192.0.2.0/24"},
		"a used slot's size":       {second + goodSlots, "", "sizeGiB: 80>sizeGiB: 81", "slot green-1 is InUse, and sizeGiB of its disk var-cpaas can't change from 80 to 81"},
		"a used slot's mount path": {second + goodSlots, "", "mountPath: /var/cpaas>mountPath: /var/cpaas2", "slot green-1 is InUse, and mountPath of its disk var-cpaas can't change"},
		"a used slot's address":    {second + goodSlots, "", "192.0.2.31/24>192.0.2.41/24", "slot green-1 is InUse, and its ip can't change from 192.0.2.31/24 to 192.0.2.41/24"},
		"a used slot's disk":       {second + goodSlots, "", "name: var-cpaas>name: other", "slot green-1 is InUse and can't lose the persistent disk var-cpaas"},
		"a used slot":              {second + goodSlots, "", "hostname: green-1\n>hostname: green-3\n", "slot green-1 is InUse and can't be removed"},
		"a disk more":              {second + goodSlots, "", "persistentDisks: [>persistentDisks: [{name: more, sizeGiB: 1}, ", "slot green-1 is InUse, and no disk is added to it"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, checked(t, c.all), "all rules are kept to begin with")
			broken := strings.Replace(c.all, c.from, c.to, 1)
			if c.from == "" { // the second state of the pool, in every slot
				before, after, _ := strings.Cut(c.to, ">")
				require.Contains(t, goodSlots, before)
				broken = second + strings.ReplaceAll(goodSlots, before, after)
			}
			require.NotEqual(t, c.all, broken)
			require.Contains(t, checked(t, broken), c.want)
		})
	}
	require.Empty(t, checked(t, strings.Replace(goodDCS, "type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}", "type: OnDelete", 1)))
}

func TestMasksOfBothSpellings(t *testing.T) {
	for mask, want := range map[string]int{"255.255.255.0": 24, "24": 24, "/25": 25, "255.255.254.0": 23, "255.255.255.255": 32, "0.0.0.0": 0, "255.0.255.0": 0, "33": 0, "": 0, "ffff::": 0, "254.255.0.0": 0} {
		n, ok := prefixLength(mask, "192.0.2.1")
		require.Equal(t, want > 0, ok, mask)
		if ok {
			require.Equal(t, want, n, mask)
		}
	}
	n, ok := prefixLength("64", "2001:db8::1")
	require.True(t, ok)
	require.Equal(t, 64, n)
}
