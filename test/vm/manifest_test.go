package vm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// convertedNodes runs the shipped binary's convert on manifests.
func convertedNodes(t *testing.T, manifests string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	check(t, os.WriteFile(file, []byte(manifests), 0o600))
	cmd := exec.CommandContext(t.Context(), binary(t), slices.Concat([]string{"convert", file}, args)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("convert %s: %v: %s", args, err, &errs)
	}
	return string(out)
}

// fleetBase is what no manifest says: where packages come from.
const fleetBase = `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  packages:%s
  runtime:%s
    sandboxImage: %s
  firewall:%s
---
`

func withBase(nodes string) string {
	s := lab.Rocky9.Spec
	return fmt.Sprintf(fleetBase, s.Packages, s.Runtime, lab.PauseImage, s.Firewall) + nodes
}

// bootConverted is a first boot by the unit with a converted configuration.
func bootConverted(t *testing.T, l *lab.Lab, g *lab.Guest, nodes string) (join string) {
	t.Helper()
	join = must(l.JoinCommand(t.Context(), 2*time.Hour))(t)
	g.Seed(lab.CNIConfig, lab.File{Path: lab.Binary, Mode: 0o755, From: binary(t)},
		lab.File{Path: lab.ConfigFile, Mode: 0o600, Content: withBase(nodes)}, lab.File{Path: lab.TokenFile, Mode: 0o600, Content: join})
	g.Seed(firstBootUnit(t)...)
	powerOnToReady(t, l, g)
	return join
}

// TestAConvertedPoolOfThreeDiskWorkers takes a DCS pool, its machine template, its
// bootstrap template and its deployment, and boots one of the machines.
func TestAConvertedPoolOfThreeDiskWorkers(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	const name = "blue-worker-1"
	g := newGuest(t, l, lab.Rocky9, name)
	for range 3 {
		must(g.AddDisk(20, ""))(t)
	}
	manifests := strings.ReplaceAll(dcsManifests, "ADDR", g.Addr)
	convertedNodes(t, manifests, "--check")
	nodes := convertedNodes(t, manifests, "--interface", "enp0s16")
	t.Log(nodes)
	join := bootConverted(t, l, g, nodes)
	settled(t, g, tokenSecret(t, join))
	checkMounts(t, g, map[string]string{"/var/lib/kubelet": "xfs kubelet", "/var/lib/containerd": "xfs containerd", "/var/cpaas": "xfs cpaas"})
	n := must(nodeOf(ctx, l, name))(t)
	if n.Metadata.Labels["pool"] != "blue" || n.Metadata.Labels["disk"] != "fast" {
		t.Errorf("labels %v", n.Metadata.Labels)
	}
	if id := must(l.Kubectl(ctx, "get", "node", name, "--output=jsonpath={.spec.providerID} {.status.addresses[0].address}"))(t); id != "dcs://vm-blue-1 "+g.Addr {
		t.Errorf("provider and address are %s", id)
	}
	for _, want := range []string{
		`test -e /etc/blue-worker && grep -qx 'Blue workers.' /etc/motd`,
		`test "$(stat -c '%a %U' ~boot/.ssh/authorized_keys)" = '600 boot' && grep -q 'boot$' ~boot/.ssh/authorized_keys`,
		`test "$(stat -c %a /var/lib/kubelet/config.yaml)" = 600`,
		`grep -q 'streamingConnectionIdleTimeout: 5m' /var/lib/kubelet/config.yaml && ! grep -q clientCAFile: /etc/kubernetes/patches/*`,
		`test -e /run/cluster-api/bootstrap-success.complete`,
	} {
		if r := must(g.Exec(ctx, want))(t); r.Code != 0 {
			t.Errorf("%s: exit %d %s", want, r.Code, r.Stdout+r.Stderr)
		}
	}
	if out := must(g.Run(ctx, "nodeagent plan || true"))(t); strings.Contains(out, "warning: network") {
		t.Errorf("the pool's address is the host's own, and yet: %s", out)
	}
}

const dcsManifests = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DCSIpHostnamePool
metadata: {name: blue-workers, namespace: cpaas-system}
spec:
  pool:
  - {ip: "ADDR", mask: "255.255.255.0", gateway: "192.0.2.1", dns: "192.0.2.1", hostname: "blue-worker-1", machineName: "vm-blue-1"}
  - {ip: "192.0.2.249", mask: "255.255.255.0", gateway: "192.0.2.1", dns: "192.0.2.1", hostname: "blue-worker-2", machineName: "vm-blue-2"}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DCSMachineTemplate
metadata: {name: blue-worker-v1, namespace: cpaas-system}
spec:
  template:
    spec:
      vmTemplateName: node-image
      vmConfig:
        dcsMachineCpuSpec: {quantity: 8}
        dcsMachineMemorySpec: {quantity: 16384}
        dcsMachineDiskSpec:
        - {quantity: 0, datastoreClusterName: store1, systemVolume: true}
        - {quantity: 20, datastoreClusterName: store1, path: /var/lib/kubelet, format: xfs}
        - {quantity: 20, datastoreClusterName: store1, path: /var/lib/containerd, format: xfs}
        - {quantity: 20, datastoreClusterName: store1, path: /var/cpaas, format: xfs}
      ipHostPoolRef: {name: blue-workers}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: blue-bootstrap, namespace: cpaas-system}
spec:
  template:
    spec:
      format: ignition
      users:
      - name: boot
        sshAuthorizedKeys:
        - "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHWNx4ygHMNHHhdNnHfqOCJxzTXYk1jD0HmXTiPiGgBq boot"
      files:
      - path: /etc/kubernetes/patches/kubeletconfiguration0+strategic.json
        owner: "root:root"
        permissions: "0644"
        content: |
          {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "protectKernelDefaults": true,
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
            "streamingConnectionIdleTimeout": "5m",
            "clientCAFile": "/etc/kubernetes/pki/ca.crt"
          }
      - {path: /etc/motd, owner: "root:root", permissions: "0644", encoding: base64, content: Qmx1ZSB3b3JrZXJzLgo=}
      preKubeadmCommands:
      - while ! ip route | grep -q "default via"; do sleep 1; done; echo "NetworkManager started"
      - mkdir -p /run/cluster-api && restorecon -Rv /run/cluster-api
      - if [ -f /etc/disk-setup.sh ]; then bash /etc/disk-setup.sh; fi
      - swapoff -a && touch /etc/blue-worker
      postKubeadmCommands:
      - chmod 600 /var/lib/kubelet/config.yaml
      joinConfiguration:
        patches: {directory: /etc/kubernetes/patches}
        nodeRegistration:
          kubeletExtraArgs:
            provider-id: PROVIDER_ID
            node-ip: NODE_IP
            node-labels: "pool=blue,disk=fast"
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: blue, namespace: cpaas-system}
spec:
  strategy:
    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
    type: RollingUpdate
  clusterName: blue
  replicas: 2
  selector: {matchLabels: null}
  template:
    spec:
      nodeDrainTimeout: 1m
      bootstrap:
        configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: blue-bootstrap}
      clusterName: blue
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DCSMachineTemplate, name: blue-worker-v1}
      version: v1.35.4
`

// vSphereManifests is a slot of one persistent, one raw and two ephemeral disks.
const vSphereManifests = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineConfigPool
metadata: {name: green-workers}
spec:
  releaseDelayHours: 24
  configs:
  - hostname: green-worker-1
    datacenter: dc1
    network:
      primary: {networkName: lan, ip: "ADDR/24", gateway: 192.0.2.1, dns: [192.0.2.1]}
    persistentDisks:
    - {name: var-cpaas, sizeGiB: 2, mountPath: /var/cpaas, fsFormat: ext4}
    - {name: application-data, sizeGiB: 2}
    ephemeralDisks:
    - {name: var-lib-kubelet, sizeGiB: 20, mountPath: /var/lib/kubelet, fsFormat: ext4}
    - {name: var-lib-containerd, sizeGiB: 20, mountPath: /var/lib/containerd}
STATUS---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: green-worker-v1}
spec:
  template:
    spec:
      template: node-image
      numCPUs: 8
      memoryMiB: 16384
      diskGiB: 40
      machineConfigPoolRef: {name: green-workers}
      network:
        devices: [{networkName: lan}]
`

// What a hypervisor calls the two disks that outlive their machine.
const cpaasUUID, rawUUID = "6000c2910f1e2d3c4b5a69788796a5b4", "6000c2970f1e2d3c4b5a69788796ffff"

const slotInUse = `status:
  configStatuses:
  - {hostname: green-worker-1, state: InUse}
  persistentDiskStatuses:
  - {hostname: green-worker-1, name: var-cpaas, diskUUID: 6000C291-0f1e-2d3c-4b5a-69788796a5b4, unitNumber: 1, phase: Attached}
  - {hostname: green-worker-1, name: application-data, diskUUID: 6000C297-0f1e-2d3c-4b5a-69788796ffff, unitNumber: 2, phase: Attached}
`

// TestASlotOutlivesItsMachine takes a slot of a vSphere pool to a Ready node,
// deletes the machine, and gives the persistent disks to a new one, on other
// units of the bus.
func TestASlotOutlivesItsMachine(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	const name = "green-worker-1"
	var addr string
	machine := func(t *testing.T, units ...lab.SCSIDisk) *lab.Guest {
		g := newGuest(t, l, lab.Rocky9, name)
		addr = g.Addr
		must(g.AddSCSI(lab.SCSIDisk{Serial: "unit0", Late: true}, 1))(t) // the system disk's unit
		for _, d := range units {
			size := 20 << 10
			if d.Serial == cpaasUUID || d.Serial == rawUUID {
				size = 2 << 10
			}
			must(g.AddSCSI(d, size))(t)
		}
		return g
	}
	mounts := map[string]string{"/var/lib/kubelet": "ext4 kubelet", "/var/lib/containerd": "ext4 containerd", "/var/cpaas": "ext4 cpaas"}
	raw := func(t *testing.T, g *lab.Guest) string {
		t.Helper()
		return strings.TrimSpace(must(g.Run(ctx, "dd if=/dev/disk/by-capv/application-data bs=512 count=1 status=none | tr -d '\\0'; ! findmnt -S $(readlink -f /dev/disk/by-capv/application-data)"))(t))
	}

	first := machine(t, lab.SCSIDisk{Serial: cpaasUUID}, lab.SCSIDisk{Serial: rawUUID}, lab.SCSIDisk{Serial: "kubelet-1"}, lab.SCSIDisk{Serial: "containerd-1"})
	args := []string{"--scsi-order", "--kubernetes-version", "v1.35.4", "--interface", "enp0s16"}
	manifests := strings.ReplaceAll(strings.Replace(vSphereManifests, "STATUS", "", 1), "ADDR", addr)
	bootConverted(t, l, first, convertedNodes(t, manifests, args...))
	settled(t, first, "")
	checkMounts(t, first, mounts)
	if got := raw(t, first); got != "" {
		t.Errorf("the raw disk holds %q already", got)
	}
	must(first.Run(ctx, `echo 'the only copy' >/var/cpaas/data; echo old >/var/lib/kubelet/scratch; printf 'raw data' | dd of=/dev/disk/by-capv/application-data conv=notrunc status=none; sync`))(t)
	check(t, first.PowerOff(ctx))
	must(l.Kubectl(ctx, "delete", "node", name))(t)
	old := first.SCSI()

	second := machine(t, lab.SCSIDisk{Serial: rawUUID, Path: old[2].Path}, lab.SCSIDisk{Serial: cpaasUUID, Path: old[1].Path}, lab.SCSIDisk{Serial: "kubelet-2"}, lab.SCSIDisk{Serial: "containerd-2"})
	manifests = strings.ReplaceAll(strings.Replace(vSphereManifests, "STATUS", slotInUse, 1), "ADDR", addr)
	nodes := convertedNodes(t, manifests, args...)
	t.Log(nodes)
	join := bootConverted(t, l, second, nodes)
	settled(t, second, tokenSecret(t, join))
	for i := range 2 {
		checkMounts(t, second, mounts)
		if got := strings.TrimSpace(must(second.Run(ctx, "cat /var/cpaas/data; ! cat /var/lib/kubelet/scratch 2>/dev/null"))(t)); got != "the only copy" {
			t.Errorf("the disks hold %q", got)
		}
		if got := raw(t, second); got != "raw data" {
			t.Errorf("the raw disk holds %q", got)
		}
		if i == 0 { // the link comes back at every boot
			check(t, second.Reboot(ctx))
			check(t, second.WaitSSH(ctx, 5*time.Minute))
			check(t, lab.WaitFor(ctx, "the unit to be done", 5*time.Minute, func(ctx context.Context) error {
				_, err := second.Run(ctx, "systemctl is-active nodeagent.service")
				return err
			}))
		}
	}
}
