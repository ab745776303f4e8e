package hosttest

import (
	"time"

	"nodeagent/internal/host"
)

// Rocky9 is a stock Rocky Linux 9.4 server as in the field: swap in fstab
// (tabs) and in a unit of its own, two blank disks without any id but their
// place, firewalld on, DHCP that answers late, and a repository that has what
// Kubernetes needs.
func Rocky9() *World {
	program := File{Mode: "0755"}
	w := &World{
		Sys: host.System{Root: true, Arch: "x86_64", Kernel: "5.14.0-427.13.1.el9_4.x86_64", Hostname: "prdk8snod001",
			MachineID: "4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b", UUID: "2f6c1f7e-51c9-4d0f-9d0b-0d7c3c1f2a11", Serial: "VMW-0001", Cgroup: 2,
			Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), MemoryBytes: 32 << 30, CPUs: 4, SELinux: "disabled"},
		Files: map[string]File{
			"/etc/os-release":     {Link: "../usr/lib/os-release"},
			"/usr/lib/os-release": {Content: rocky94},
			"/etc/fstab":          {Content: "UUID=0f1e\t/\txfs\tdefaults\t0\t0\n/swap.img\tnone\tswap\tsw\t0\t0\n"},
			"/etc/machine-id":     {Content: "4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b\n", Mode: "0444"},
			"/etc/hostname":       {Content: "prdk8snod001\n"},
			"/etc/resolv.conf":    {Content: "nameserver 192.0.2.53\n"},
			"/etc/yum.repos.d/rocky.repo": {Content: "[baseos]\nname=Rocky Linux 9 - BaseOS\nbaseurl=http://mirror.example/baseos\ngpgcheck=1\nenabled=1\n" +
				"exclude=kubelet\n"},
			"/etc/dnf/dnf.conf":                 {Content: "[main]\ngpgcheck=1\n"},
			"/etc/dnf/plugins/versionlock.conf": {Content: "[main]\nenabled = 1\nlocklist = /etc/dnf/plugins/versionlock.list\n"},
			"/etc/dnf/plugins/versionlock.list": {Content: ""},
			"/etc/systemd/system/old-swap.swap": {Content: "[Swap]\nWhat=/var/swapfile\n[Install]\nWantedBy=swap.target\n"},
			"/etc/nodeagent/join-command":       {Content: joinCommand, Mode: "0600"},
			"/swap.img":                         {Mode: "0600"},
			"/var/swapfile":                     {Mode: "0600"},
			"/usr/bin/dnf":                      program,
			"/usr/bin/rpm":                      program,
			"/usr/bin/systemctl":                program,
			"/usr/sbin/mkfs.xfs":                program,
			"/usr/sbin/mkfs.ext4":               program,
			"/usr/sbin/modprobe":                program,
			"/lib/modules/5.14.0-427.13.1.el9_4.x86_64/modules.dep":     {},
			"/lib/modules/5.14.0-427.13.1.el9_4.x86_64/modules.builtin": {},
			"/proc/net/tcp":       {Content: "  sl  local_address rem_address   st\n"},
			"/proc/net/tcp6":      {Content: "  sl  local_address rem_address   st\n"},
			"/run/systemd/system": {Dir: true},
		},
		Packages: map[string]string{"dnf": "4.14.0-9.el9", "firewalld": "1.3.4-1.el9", "xfsprogs": "6.3.0-1.el9", "e2fsprogs": "1.46.5-5.el9",
			"util-linux": "2.37.4-18.el9", "iptables-nft": "1.8.10-4.el9", "python3-dnf-plugin-versionlock": "4.3.0-16.el9"},
		Repo: map[string]Package{
			"kubelet":        {Version: "1.35.4-150500.1.1", Units: []string{"kubelet.service"}, Files: map[string]File{"/usr/bin/kubelet": program}},
			"kubeadm":        {Version: "1.35.4-150500.1.1", Files: map[string]File{"/usr/bin/kubeadm": program}},
			"kubectl":        {Version: "1.35.4-150500.1.1", Files: map[string]File{"/usr/bin/kubectl": program}},
			"cri-tools":      {Version: "1.35.0-150500.1.1", Files: map[string]File{"/usr/bin/crictl": program}},
			"kubernetes-cni": {Version: "1.8.0-150500.1.1"},
			"containerd.io": {Version: "2.2.9-1.el9", Units: []string{"containerd.service"}, Files: map[string]File{
				"/usr/bin/containerd": program, "/usr/bin/runc": program, "/etc/containerd/config.toml": {Content: "disabled_plugins = [\"cri\"]\n"}}},
			"socat": {Version: "1.7.4-1.el9"}, "conntrack-tools": {Version: "1.4.7-2.el9"}, "ethtool": {Version: "6.2-1.el9"},
			"nfs-utils": {Version: "2.5.4-25.el9"}, "iptables-nft": {Version: "1.8.10-4.el9", Provides: []string{"iptables"}},
			"container-selinux": {Version: "2.229.0-1.el9"}, "tar": {Version: "1.34-6.el9"}, "iproute": {Version: "6.2-1.el9"},
		},
		UnitStates: map[string]host.Unit{
			"firewalld.service":      {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"},
			"NetworkManager.service": {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"},
			"swap.img.swap":          {LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", FragmentPath: "/run/systemd/generator/swap.img.swap", SourcePath: "/etc/fstab", What: "/swap.img"},
			"old-swap.swap":          {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/etc/systemd/system/old-swap.swap", What: "/var/swapfile"},
		},
		Swaps:   []Swap{{"/swap.img", "file", "swap.img.swap"}, {"/var/swapfile", "file", "old-swap.swap"}},
		Modules: map[string]bool{"xfs": true},
		Sysctls: map[string]string{"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0", "vm.overcommit_memory": "0", "vm.panic_on_oom": "0",
			"kernel.panic": "0", "kernel.panic_on_oops": "1", "kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000",
			"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "1"},
		Disks: []host.BlockDevice{
			{Name: "vda", Path: "/dev/vda", Type: "disk", Size: 40 << 30, ByPath: []string{"/dev/disk/by-path/pci-0000:00:03.0"}, PTType: "gpt", Signatures: []string{"gpt@0x200"}, NonZero: true, Children: []string{"vda1"}, Probed: true},
			{Name: "vda1", Path: "/dev/vda1", Type: "part", Parent: "vda", Size: 39 << 30, ByPath: []string{"/dev/disk/by-path/pci-0000:00:03.0-part1"}, FSType: "xfs", FSUUID: "0f1e", Signatures: []string{"xfs@0x0"}, NonZero: true, Mounts: []string{"/"}, Probed: true},
			blank("vdb", "pci-0000:00:04.0"),
			blank("vdc", "pci-0000:00:05.0"),
		},
		MountTable: []host.Mount{{Source: "/dev/vda1", Target: "/", Type: "xfs", Root: "/", Device: "253:1"}},
		Firewall: host.Firewalld{Installed: true, Running: true, DefaultZone: "public", Interfaces: map[string]string{"eth0": "public"},
			Zones: map[string]host.Zone{"public": {}, "trusted": {Runtime: host.ZoneSettings{Target: "ACCEPT"}, Permanent: host.ZoneSettings{Target: "ACCEPT"}}}},
		Net:        host.Network{Addresses: []host.Address{{Interface: "eth0", IP: "192.0.2.10", Prefix: 24}}, MACs: []string{"52:54:00:12:34:56"}},
		LateRoute:  &host.Route{Family: "ipv4", Interface: "eth0", Gateway: "192.0.2.1", Metric: 100},
		NodeObject: host.Node{Server: "https://192.0.2.1:6443", CAHash: "sha256:0000000000000000000000000000000000000000000000000000000000000000", Version: "v1.35.4"},
		TokenDoc:   "abcdef.0123456789abcdef",
	}
	return w.trusting("update-ca-trust", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem").peopled("visudo", "sudo").stock()
}

const rocky94 = `NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
ANSI_COLOR="0;32"
CPE_NAME="cpe:/o:rocky:rocky:9::baseos"
`

// blank is a disk of 100 GiB without any id but its place.
func blank(name, place string) host.BlockDevice {
	return host.BlockDevice{Name: name, Path: "/dev/" + name, Type: "disk", Size: 100 << 30,
		ByPath: []string{"/dev/disk/by-path/" + place}, Probed: true}
}

// joinCommand is what kubeadm token create --print-join-command printed.
const joinCommand = "kubeadm join 192.0.2.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:0000000000000000000000000000000000000000000000000000000000000000 \n"
