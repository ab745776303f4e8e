package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	pki            = "/etc/kubernetes/pki/"
	adminConf      = "/etc/kubernetes/admin.conf"
	superAdminConf = "/etc/kubernetes/super-admin.conf"
	kcmConf        = "/etc/kubernetes/controller-manager.conf"
)

// APIEndpoint is host:port of the API server.
const APIEndpoint = apiName + ":6443"

// clusterConfig is what kubeadm would have been given on the control plane. Its
// resolvConf is that of a systemd-resolved host, which a RHEL-type worker isn't.
const clusterConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: ` + labAddr + `, bindPort: 6443}
nodeRegistration: {name: cp, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v` + kubeVersion + `
controlPlaneEndpoint: ` + APIEndpoint + `
networking: {serviceSubnet: 10.96.0.0/12, podSubnet: 10.244.0.0/16}
apiServer: {certSANs: ["` + labAddr + `", "` + apiName + `"]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
resolvConf: /run/systemd/resolve/resolv.conf
`

// StartControlPlane runs etcd, kube-apiserver and kube-controller-manager as
// plain processes, and makes the objects that a joining node looks for.
func (l *Lab) StartControlPlane(ctx context.Context) error {
	config := filepath.Join(l.RunDir, "kubeadm.yaml")
	if err := os.WriteFile(config, []byte(clusterConfig), 0o644); err != nil {
		return err
	}
	for _, phase := range []string{"certs all", "kubeconfig admin", "kubeconfig super-admin", "kubeconfig controller-manager"} {
		if _, err := l.kubeadm(ctx, "init phase "+phase+" --config "+config); err != nil {
			return err
		}
	}
	l.Log.Printf("certificates made")
	etcd, err := l.spawn("etcd", l.bin("etcd"), etcdFlags(filepath.Join(l.RunDir, "etcd"))...)
	if err != nil {
		return err
	}
	api, err := l.spawn("kube-apiserver", l.bin("kube-apiserver"), apiServerFlags...)
	if err != nil {
		return err
	}
	err = WaitFor(ctx, "the API server", 2*time.Minute, func(ctx context.Context) error {
		if err := errors.Join(etcd.alive(), api.alive()); err != nil {
			return err
		}
		_, err := l.kubectl(ctx, superAdminConf, "get", "--raw", "/readyz")
		return err
	})
	if err != nil {
		return err
	}
	l.Log.Printf("API server ready")
	// kubeadm's admin.conf has no rights until its group is bound.
	_, err = l.kubectl(ctx, superAdminConf, "create", "clusterrolebinding", "kubeadm:cluster-admins",
		"--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins")
	if err != nil {
		return err
	}
	// Only now: the controller manager ends itself if its roles aren't there.
	if err := l.startControllerManager(ctx); err != nil {
		return err
	}
	for _, phase := range []string{"upload-config kubeadm", "upload-config kubelet", "bootstrap-token"} {
		if _, err := l.kubeadm(ctx, "init phase "+phase+" --config "+config); err != nil && !strings.Contains(err.Error(), `nodes "cp" not found`) {
			return err
		}
	}
	// Pods need the default service account, joins the signed cluster-info.
	err = WaitFor(ctx, "service account and signed cluster-info", time.Minute, func(ctx context.Context) error {
		if _, err := l.Kubectl(ctx, "get", "serviceaccount", "default"); err != nil {
			return err
		}
		data, err := l.Kubectl(ctx, "get", "configmap", "cluster-info", "--namespace=kube-public", "--output=jsonpath={.data}")
		if err == nil && !strings.Contains(data, "jws-kubeconfig-") {
			err = errors.New("no signature in cluster-info")
		}
		return err
	})
	if err == nil {
		l.Log.Printf("control plane ready")
	}
	return err
}

// startControllerManager starts it again if it ended during its first steps.
func (l *Lab) startControllerManager(ctx context.Context) error {
	var kcm *process
	return WaitFor(ctx, "the controller manager", time.Minute, func(ctx context.Context) error {
		if kcm == nil || kcm.alive() != nil {
			var err error
			if kcm, err = l.spawn("kube-controller-manager", l.bin("kube-controller-manager"), controllerManagerFlags...); err != nil {
				return err
			}
		}
		_, err := l.Kubectl(ctx, "get", "serviceaccount", "default")
		return err
	})
}

func etcdFlags(dir string) []string {
	return []string{
		"--data-dir=" + dir, "--name=lab", "--unsafe-no-fsync",
		"--listen-client-urls=https://127.0.0.1:2379", "--advertise-client-urls=https://127.0.0.1:2379",
		"--listen-peer-urls=https://127.0.0.1:2380", "--initial-advertise-peer-urls=https://127.0.0.1:2380",
		"--initial-cluster=lab=https://127.0.0.1:2380",
		"--client-cert-auth=true", "--trusted-ca-file=" + pki + "etcd/ca.crt",
		"--cert-file=" + pki + "etcd/server.crt", "--key-file=" + pki + "etcd/server.key",
		"--peer-client-cert-auth=true", "--peer-trusted-ca-file=" + pki + "etcd/ca.crt",
		"--peer-cert-file=" + pki + "etcd/peer.crt", "--peer-key-file=" + pki + "etcd/peer.key",
	}
}

var apiServerFlags = []string{
	"--advertise-address=" + labAddr, "--secure-port=6443", "--allow-privileged=true",
	"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
	"--client-ca-file=" + pki + "ca.crt",
	"--tls-cert-file=" + pki + "apiserver.crt", "--tls-private-key-file=" + pki + "apiserver.key",
	"--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile=" + pki + "etcd/ca.crt",
	"--etcd-certfile=" + pki + "apiserver-etcd-client.crt", "--etcd-keyfile=" + pki + "apiserver-etcd-client.key",
	"--kubelet-client-certificate=" + pki + "apiserver-kubelet-client.crt",
	"--kubelet-client-key=" + pki + "apiserver-kubelet-client.key",
	"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
	"--proxy-client-cert-file=" + pki + "front-proxy-client.crt", "--proxy-client-key-file=" + pki + "front-proxy-client.key",
	"--requestheader-client-ca-file=" + pki + "front-proxy-ca.crt", "--requestheader-allowed-names=front-proxy-client",
	"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
	"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
	"--service-account-key-file=" + pki + "sa.pub", "--service-account-signing-key-file=" + pki + "sa.key",
	"--service-cluster-ip-range=10.96.0.0/12",
}

var controllerManagerFlags = []string{
	"--kubeconfig=" + kcmConf, "--authentication-kubeconfig=" + kcmConf, "--authorization-kubeconfig=" + kcmConf,
	"--bind-address=127.0.0.1", "--leader-elect=false", "--controllers=*,bootstrapsigner,tokencleaner",
	"--client-ca-file=" + pki + "ca.crt", "--root-ca-file=" + pki + "ca.crt",
	"--cluster-signing-cert-file=" + pki + "ca.crt", "--cluster-signing-key-file=" + pki + "ca.key",
	"--requestheader-client-ca-file=" + pki + "front-proxy-ca.crt",
	"--service-account-private-key-file=" + pki + "sa.key", "--use-service-account-credentials=true",
	"--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/12",
}
