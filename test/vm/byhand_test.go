package vm_test

import (
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// handJoin is what an administrator types on a stock host. It proves the lab
// without the product.
const handJoin = `set -eux
cat >/etc/yum.repos.d/kubernetes.repo <<EOF
[kubernetes]
name=Kubernetes
baseurl=http://repo.lab.test/kubernetes/
enabled=1
gpgcheck=1
repo_gpgcheck=1
gpgkey=http://repo.lab.test/kubernetes/repodata/repomd.xml.key
exclude=kubelet kubeadm kubectl cri-tools kubernetes-cni
[containerd]
name=containerd
baseurl=http://repo.lab.test/containerd/
enabled=1
gpgcheck=1
gpgkey=http://repo.lab.test/containerd/repodata/repomd.xml.key
EOF
time dnf -y install --disableexcludes=kubernetes kubelet-1.35.4-* kubeadm-1.35.4-* kubectl-1.35.4-* cri-tools containerd.io \
  conntrack socat ethtool nfs-utils iptables python3-dnf-plugin-versionlock
for p in conntrack socat ethtool mount.nfs iptables-nft runc crictl; do ldd $(command -v $p) || true; done 2>&1 | { ! grep 'not found'; }
dnf versionlock add kubelet
swapoff -a
sed -i 's/^.*swap/#&/' /etc/fstab
systemctl disable srv-swapfile.swap
modprobe -a overlay br_netfilter
sysctl -w net.ipv4.ip_forward=1
sed -i 's/^disabled_plugins.*/version = 3/' /etc/containerd/config.toml
cat >>/etc/containerd/config.toml <<EOF
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'registry.lab.test/pause:1'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
EOF
systemctl enable --now containerd
systemctl enable kubelet
firewall-cmd --add-port=10250/tcp
mkdir -p /root/patches
echo 'resolvConf: /etc/resolv.conf' >/root/patches/kubeletconfiguration0+strategic.yaml
cat /etc/resolv.conf
ip route
`

// handPod listens on two ports, and has the node's own resolv.conf.
const handPod = `apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: NODE
  hostNetwork: HOSTNET
  dnsPolicy: Default
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  containers:
  - name: pod
    image: ` + lab.PodImage + `
    imagePullPolicy: Never
    args: [serve, ":30080", ":20080"]
`

func podManifest(name, node, hostNetwork string) string {
	return strings.NewReplacer("NAME", name, "NODE", node, "HOSTNET", hostNetwork).Replace(handPod)
}

func TestLabJoinsByHand(t *testing.T) {
	needWholeMatrix(t)
	l := needLab(t)
	ctx := t.Context()
	g := newGuest(t, l, lab.Rocky9, "byhand")
	if _, err := g.AddDisk(20, ""); err != nil {
		t.Fatal(err)
	}
	g.Seed(lab.CNIConfig)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		l.Log.Printf("%s", what)
	}
	must("power on", g.Boot(ctx))
	must("ssh answers", g.WaitSSH(ctx, 3*time.Minute))
	code, err := g.Stream(ctx, t.Output(), handJoin)
	must("packages and runtime", err)
	if code != 0 {
		t.Fatalf("preparing by hand: exit %d", code)
	}
	must("images", g.ImportImages(ctx))
	join, err := l.JoinCommand(ctx, time.Hour)
	must("token", err)
	code, err = g.Stream(ctx, t.Output(), strings.TrimSpace(join)+" --patches /root/patches --cri-socket unix:///run/containerd/containerd.sock")
	must("join", err)
	if code != 0 {
		t.Fatalf("kubeadm join: exit %d", code)
	}
	must("ready", l.WaitNode(ctx, "byhand", 3*time.Minute))
	out, err := l.Kubectl(ctx, "get", "nodes", "--output=wide")
	must(out, err)
	must("pods", l.Apply(ctx, podManifest("pod-net", "byhand", "false")+"---\n"+podManifest("host-net", "byhand", "true")))
	must("pod ready", l.WaitPod(ctx, "pod-net", 2*time.Minute))
	must("pod on the host's network ready", l.WaitPod(ctx, "host-net", 2*time.Minute))
	out, err = l.Kubectl(ctx, "logs", "host-net")
	must("logs: "+out, err)
	out, err = l.Kubectl(ctx, "exec", "pod-net", "--", "/pod", "cat", "/etc/resolv.conf")
	must("exec: "+out, err)
	if out, err := lab.GetFromLAN(ctx, "http://"+g.Addr+":30080/"); err == nil {
		t.Errorf("a port that isn't open answered: %s", out)
	}
	_, err = g.Run(ctx, "firewall-cmd --add-port=30080/tcp")
	must("open a port", err)
	out, err = lab.GetFromLAN(ctx, "http://"+g.Addr+":30080/")
	must("host port: "+out, err)
}
