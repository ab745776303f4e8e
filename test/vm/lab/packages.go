package lab

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kubeRelease and distroRelease are the release fields of the upstream packages
// and of the distribution's.
const (
	kubeRelease   = "150500.1.1"
	distroRelease = "1.el9"
)

// kubeletUnit and kubeletDropIn are laid out as in the upstream package: the
// drop-in reads kubeadm's flags first and the administrator's last.
const (
	kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/sysconfig/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
	containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target local-fs.target

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=%BIN%/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`
	// containerdConfig is what the vendor's package ships: CRI switched off.
	containerdConfig = `disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#state = "/run/containerd"

#[grpc]
#  address = "/run/containerd/containerd.sock"
`
)

// cniPlugins are those that the lab's network needs; the others would only make
// installing slower.
var cniPlugins = []string{"/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback", "/usr/lib/cni/portmap"}

// kubeletFiles come with the kubelet's program.
var kubeletFiles = []File{
	{Path: "/usr/lib/systemd/system/kubelet.service", Content: kubeletUnit},
	{Path: "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", Content: kubeletDropIn},
	{Path: "/etc/sysconfig/kubelet", Content: "KUBELET_EXTRA_ARGS=\n"},
}

// cniFiles are the CNI plugins at the place where containerd looks for them.
func cniFiles(ctx context.Context, d debs) ([]File, error) {
	files, err := d.files(ctx, func(p string) bool { return slices.Contains(cniPlugins, p) }, "containernetworking-plugins")
	for i := range files {
		files[i].Path = "/opt/cni/bin/" + filepath.Base(files[i].Path)
	}
	return files, err
}

// kubePackages are the RPMs of the Kubernetes repository.
func kubePackages(ctx context.Context, bin string, d debs) ([]rpmPackage, error) {
	tool := func(name string) rpmPackage {
		return rpmPackage{name: name, version: kubeVersion, release: kubeRelease,
			files: []File{{Path: "/usr/bin/" + name, Mode: 0o755, From: filepath.Join(bin, name)}}}
	}
	kubelet := tool("kubelet")
	kubelet.requires = []string{"kubernetes-cni >= 1.1.1"}
	kubelet.recommends = []string{"iptables"}
	kubelet.dirs = []string{"/etc/kubernetes/manifests"}
	kubelet.config = []string{"/etc/sysconfig/kubelet"}
	kubelet.files = append(kubelet.files, kubeletFiles...)
	plugins, err := cniFiles(ctx, d)
	if err != nil {
		return nil, err
	}
	cni := rpmPackage{name: "kubernetes-cni", version: "1.1.1", release: kubeRelease, files: plugins}
	crictl := rpmPackage{name: "cri-tools", version: crictlVersion, release: kubeRelease,
		files: []File{{Path: "/usr/bin/crictl", Mode: 0o755, From: filepath.Join(bin, "crictl")}}}
	return []rpmPackage{kubelet, tool("kubeadm"), tool("kubectl"), cni, crictl}, nil
}

// containerdPackages are the RPMs of the container runtime's repository.
func containerdPackages(ctx context.Context, bin string, d debs) ([]rpmPackage, error) {
	runc, err := d.files(ctx, func(p string) bool { return p == "/usr/sbin/runc" || p == "/usr/bin/runc" }, "runc")
	if err != nil {
		return nil, err
	}
	runc[0].Path = "/usr/bin/runc"
	p := rpmPackage{name: "containerd.io", version: containerdVersion, release: distroRelease,
		requires: []string{"container-selinux"}, provides: []string{"containerd", "runc"}, conflicts: []string{"runc < 99", "podman"},
		config: []string{"/etc/containerd/config.toml"},
		files: append(runc,
			File{Path: "/usr/lib/systemd/system/containerd.service", Content: strings.ReplaceAll(containerdUnit, "%BIN%", "/usr/bin")},
			File{Path: "/etc/containerd/config.toml", Content: containerdConfig})}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		p.files = append(p.files, File{Path: "/usr/bin/" + name, Mode: 0o755, From: filepath.Join(bin, name)})
	}
	return []rpmPackage{p}, nil
}

// toolPackages are what both distributions have under the same names and a stock
// host lacks. Their programs and libraries are Debian's.
func toolPackages(ctx context.Context, d debs, release string) ([]rpmPackage, error) {
	var out []rpmPackage
	for _, p := range []struct {
		name, version string
		provides      []string
		from          []string
	}{
		{"conntrack-tools", "1.4.7", []string{"conntrack = 1.4.7"}, []string{"conntrack"}},
		{"socat", "1.7.4.4", nil, []string{"socat"}},
		{"ethtool", "6.1", nil, []string{"ethtool"}},
		{"nfs-utils", "2.6.2", nil, []string{"nfs-common", "libnfsidmap1", "keyutils", "rpcbind", "libevent-core-2.1-7"}},
	} {
		files, err := d.files(ctx, programs, p.from...)
		if err != nil {
			return nil, err
		}
		out = append(out, rpmPackage{name: p.name, version: p.version, release: release, provides: p.provides, files: files})
	}
	return out, nil
}

// basePackagesRPM are the packages of the repository of the Rocky type.
func basePackagesRPM(ctx context.Context, base string, d debs) ([]rpmPackage, error) {
	out, err := toolPackages(ctx, d, distroRelease)
	if err != nil {
		return nil, err
	}
	iptables := rpmPackage{name: "iptables-nft", version: "1.8.9", release: distroRelease,
		provides: []string{"iptables = 1.8.9-" + distroRelease, "iptables-compat"},
		files:    []File{{Path: "/usr/sbin/xtables-nft-multi", Mode: 0o755, From: filepath.Join(base, "rootfs/usr/sbin/xtables-nft-multi")}}}
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			iptables.files = append(iptables.files, File{Path: "/usr/sbin/" + name + "-nft" + suffix, Link: "xtables-nft-multi"})
		}
	}
	// The plugin is taken out of the guest, so that it has to be installed.
	versionlock := rpmPackage{name: "python3-dnf-plugin-versionlock", version: "4.3.1", release: distroRelease, arch: "noarch",
		provides: []string{"dnf-command(versionlock)"}, config: []string{"/etc/dnf/plugins/versionlock.conf", "/etc/dnf/plugins/versionlock.list"}}
	for _, path := range versionlockFiles {
		versionlock.files = append(versionlock.files, File{Path: path, From: filepath.Join(base, "rootfs", path)})
	}
	selinux := rpmPackage{name: "container-selinux", version: "2.229.0", release: distroRelease, arch: "noarch",
		files: []File{{Path: "/usr/share/containers/selinux/contexts", Content: "process = \"system_u:system_r:container_t:s0\"\n"}}}
	return append(out, iptables, versionlock, selinux), nil
}

// versionlockFiles is dnf's version lock plugin in Debian's layout.
var versionlockFiles = []string{
	"/etc/dnf/plugins/versionlock.conf",
	"/etc/dnf/plugins/versionlock.list",
	"/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py",
}

// photonPackages are the packages of the repository of the Photon type: the
// runtime by Photon's names, with the shim apart, in Debian's older release.
func photonPackages(ctx context.Context, base string, d debs) ([]rpmPackage, error) {
	out, err := toolPackages(ctx, d, photonRelease)
	if err != nil {
		return nil, err
	}
	runc, err := d.files(ctx, func(p string) bool { return filepath.Base(p) == "runc" }, "runc")
	if err != nil {
		return nil, err
	}
	runc[0].Path = "/usr/bin/runc"
	shim := func(p string) bool { return filepath.Base(p) == "containerd-shim-runc-v2" }
	daemon, err := d.files(ctx, func(p string) bool { return strings.HasPrefix(p, "/usr/bin/") && !shim(p) }, "containerd")
	if err != nil {
		return nil, err
	}
	extras, err := d.files(ctx, shim, "containerd")
	if err != nil {
		return nil, err
	}
	daemon = append(daemon, File{Path: "/usr/lib/systemd/system/containerd.service", Content: strings.ReplaceAll(containerdUnit, "%BIN%", "/usr/bin")},
		File{Path: "/etc/containerd/config.toml", Content: "#root = \"/var/lib/containerd\"\n#state = \"/run/containerd\"\n"})
	xfs, err := installedFiles(base, "xfsprogs")
	if err != nil {
		return nil, err
	}
	const version = "1.6.20" // of the Debian release below
	return append(out,
		rpmPackage{name: "runc", version: "1.1.5", release: photonRelease, files: runc},
		rpmPackage{name: "containerd", version: version, release: photonRelease, requires: []string{"runc"}, config: []string{"/etc/containerd/config.toml"}, files: daemon},
		rpmPackage{name: "containerd-extras", version: version, release: photonRelease, requires: []string{"containerd = " + version}, files: extras},
		rpmPackage{name: "xfsprogs", version: "6.1.0", release: photonRelease, files: xfs}), nil
}

// installedFiles are the programs of a package that the base tree has.
func installedFiles(base, name string) ([]File, error) {
	root := filepath.Join(base, "rootfs")
	list, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/info", name+".list"))
	if err != nil {
		return nil, err
	}
	var out []File
	for line := range strings.Lines(string(list)) {
		f := File{Path: mergedUsr(strings.TrimSpace(line))}
		from := filepath.Join(root, f.Path)
		info, err := os.Lstat(from)
		if err != nil || info.IsDir() || !programs(f.Path) && !strings.HasPrefix(f.Path, "/usr/share/xfsprogs/") {
			continue // documentation was left out of the tree
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if f.Link, err = os.Readlink(from); err != nil {
				return nil, err
			}
		} else {
			f.From, f.Mode = from, info.Mode().Perm()
		}
		out = append(out, f)
	}
	return out, nil
}
