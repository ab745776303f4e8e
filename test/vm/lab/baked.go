package lab

import (
	"context"
	"path/filepath"
	"strings"
)

// bakedFiles are Kubernetes and containerd as part of an image, with what they
// need of the distribution.
func bakedFiles(ctx context.Context, bin string, d debs) ([]File, error) {
	files, err := d.files(ctx, programs, "conntrack", "socat", "ethtool", "nfs-common", "libnfsidmap1", "keyutils", "rpcbind", "libevent-core-2.1-7")
	if err != nil {
		return nil, err
	}
	runc, err := d.files(ctx, func(p string) bool { return filepath.Base(p) == "runc" }, "runc")
	if err != nil {
		return nil, err
	}
	cni, err := cniFiles(ctx, d)
	if err != nil {
		return nil, err
	}
	files = append(append(files, runc...), cni...)
	for _, name := range []string{"kubelet", "kubeadm", "kubectl", "crictl", "containerd", "containerd-shim-runc-v2", "ctr"} {
		files = append(files, File{Path: "/usr/bin/" + name, Mode: 0o755, From: filepath.Join(bin, name)})
	}
	return append(append(files, kubeletFiles...),
		File{Path: "/usr/lib/systemd/system/containerd.service", Content: strings.ReplaceAll(containerdUnit, "%BIN%", "/usr/bin")}), nil
}
