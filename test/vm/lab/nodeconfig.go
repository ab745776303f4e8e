package lab

import (
	"encoding/json"
	"fmt"
	"strings"
)

// NodeConfig is the configuration of the main scenario: what a user writes for
// a stock host with two blank data disks.
type NodeConfig struct {
	HostName  string
	Addr      string
	TokenFile string
	Spec      Sections // empty: Rocky9's
	Disks     string   // YAML of spec.disks; empty: those of Spec
	CACerts   []string
	WaitReady string // empty: 10m
	// JoinTimeout is spec.join.timeout; empty: 10m.
	JoinTimeout string
}

// MainDisks asks for two of the blank disks, which have no ids.
const MainDisks = `
  - name: kubelet
    select: {blank: {minSize: 15GiB}}
    filesystem: {type: xfs, label: kubelet}
    mountPath: /var/lib/kubelet
  - name: containerd
    select: {blank: {minSize: 15GiB}}
    filesystem: {type: xfs, label: containerd}
    mountPath: /var/lib/containerd
    mountOptions: [noatime]
`

// kubernetesRepository is the entry of the lab's Kubernetes packages in
// spec.packages.repositories.
const kubernetesRepository = `
    - id: kubernetes
      name: Kubernetes
      baseURL: ` + RepoURL + `/kubernetes/
      gpgKeys: [` + RepoURL + `/kubernetes/repodata/repomd.xml.key]
      exclude: [kubelet, kubeadm, kubectl, cri-tools, kubernetes-cni]`

// String is the YAML document.
func (c NodeConfig) String() string {
	spec, disks, wait, pins := c.Spec, c.Disks, c.WaitReady, ""
	if spec == (Sections{}) {
		spec = Rocky9.Spec
	}
	if disks == "" {
		disks = spec.Disks
	}
	disks = "\n  " + strings.TrimSpace(disks)
	if c.Disks == "[]" {
		disks = " []" // a flow list has to stand deeper than its key
	}
	packages := "" // an image's belong to the image
	if spec.Packages != "" {
		packages = "  packages:" + spec.Packages + "\n"
	}
	timeout := c.JoinTimeout
	if timeout == "" {
		timeout = "10m"
	}
	if wait == "" {
		wait = "10m"
	}
	if len(c.CACerts) > 0 {
		list, _ := json.Marshal(c.CACerts)
		pins = "    caCertHashes: " + string(list) + "\n"
	}
	return fmt.Sprintf(`apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  hostname: %s
  kubernetes: {version: v%s}
%[3]s  runtime:%[4]s
    sandboxImage: %[11]s
  disks:%[5]s
  firewall:%[10]s
  kubelet:
    config:
      protectKernelDefaults: true
      maxPods: 55
    extraArgs:
    - {name: node-ip, value: %[6]s}
    labels: {type: physical}
    taints:
    - {key: dedicated, value: lab, effect: NoSchedule}
  join:
%[7]s    token: {file: %[8]s}
    waitReady: %[9]s
    timeout: %[12]s
`, c.HostName, kubeVersion, packages, spec.Runtime, disks, c.Addr, pins, c.TokenFile, wait, spec.Firewall, PauseImage, timeout)
}

// The product's files in a guest.
const (
	Binary     = "/usr/local/bin/nodeagent"
	ConfigFile = "/etc/nodeagent/config.yaml"
	TokenFile  = "/etc/nodeagent/join-command"
)

// ProductFiles are the binary, the configuration and the token as an
// administrator puts them on a host.
func ProductFiles(binary string, c NodeConfig, joinCommand string) []File {
	return []File{
		{Path: Binary, Mode: 0o755, From: binary},
		{Path: ConfigFile, Mode: 0o600, Content: c.String()},
		{Path: c.TokenFile, Mode: 0o600, Content: joinCommand},
	}
}
