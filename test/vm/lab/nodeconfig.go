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
	Disks     string // YAML of spec.disks; empty: MainDisks
	CACerts   []string
	WaitReady string // empty: 10m
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

// String is the YAML document.
func (c NodeConfig) String() string {
	disks, wait, pins := c.Disks, c.WaitReady, ""
	if disks == "" {
		disks = MainDisks
	}
	disks = "\n  " + strings.TrimSpace(disks)
	if c.Disks == "[]" {
		disks = " []" // a flow list has to stand deeper than its key
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
  packages:
    repositories:
    - id: kubernetes
      name: Kubernetes
      baseURL: %[3]s/kubernetes/
      gpgKeys: [%[3]s/kubernetes/repodata/repomd.xml.key]
      exclude: [kubelet, kubeadm, kubectl, cri-tools, kubernetes-cni]
    - id: containerd
      name: containerd
      baseURL: %[3]s/containerd/
      gpgKeys: [%[3]s/containerd/repodata/repomd.xml.key]
  runtime:
    source: package
    package: containerd.io
    sandboxImage: %[4]s
  disks:%[5]s
  firewall:
    cni: cilium
    allow: [30000-32767/tcp, 30000-32767/udp]
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
`, c.HostName, kubeVersion, RepoURL, PauseImage, disks, c.Addr, pins, c.TokenFile, wait)
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
