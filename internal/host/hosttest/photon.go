package hosttest

import (
	"time"

	"nodeagent/internal/host"
)

// Photon5 is a stock VMware Photon OS 5 virtual machine: tdnf, containerd 1.6
// that is installed and switched off and lacks its shim, rules of iptables that
// a service loads at boot, systemd-networkd and systemd-resolved, hardening
// sysctls, one blank disk, and no xfsprogs.
func Photon5() *World {
	program := File{Mode: "0755"}
	kubernetes := func(p Package) Package {
		p.Version, p.From = "1.35.4-150500.1.1", "kubernetes"
		return p
	}
	w := &World{
		Sys: host.System{Root: true, Arch: "x86_64", Kernel: "6.1.83-3.ph5", Hostname: "photon-7f3a91c0d2e4",
			MachineID: "9d2f0c5b7a6e4c1d8b3f6a1e5c7d9b02", UUID: "4206f1a2-8c3d-7b1e-a0c4-93d5e6f7a8b9", Serial: "VMware-42 06 f1 a2", Cgroup: 2,
			Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), MemoryBytes: 16 << 30, CPUs: 4, SELinux: "disabled"},
		Files: map[string]File{
			"/etc/os-release":      {Link: "../usr/lib/os-release"},
			"/usr/lib/os-release":  {Content: photon5},
			"/swap.img":            {Mode: "0600"},
			"/etc/fstab":           {Content: "#system\tmnt-pt\ttype\toptions\tdump\tfsck\nPARTUUID=5d0c\t/\text4\tdefaults,barrier,noatime,noacl,data=ordered\t1\t1\n/swap.img      none    swap    sw      0       0\n"},
			"/etc/machine-id":      {Content: "9d2f0c5b7a6e4c1d8b3f6a1e5c7d9b02\n", Mode: "0444"},
			"/etc/hostname":        {Content: "photon-7f3a91c0d2e4\n"},
			"/etc/resolv.conf":     {Link: "../run/systemd/resolve/stub-resolv.conf"},
			"/etc/tdnf/tdnf.conf":  {Content: "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=true\nrepodir=/etc/yum.repos.d\ncachedir=/var/cache/tdnf\n"},
			"/etc/tdnf/locks.d":    {Dir: true},
			"/etc/systemd/network": {Dir: true},
			"/etc/yum.repos.d/photon-updates.repo": {Content: "[photon-updates]\nname=VMware Photon Linux $releasever ($basearch) Updates\n" +
				"baseurl=http://mirror.example/$releasever/photon_updates_$releasever_$basearch\ngpgcheck=1\nenabled=1\nskip_if_unavailable=1\n"},
			"/etc/yum.repos.d/photon.repo": {Content: "[photon]\nname=VMware Photon Linux $releasever ($basearch)\n" +
				"baseurl=http://mirror.example/$releasever/photon_release_$releasever_$basearch\ngpgcheck=1\nenabled=0\nskip_if_unavailable=1\n"},
			"/etc/systemd/scripts/ip4save":                     {Content: photonRules, Mode: "0600"},
			"/etc/systemd/scripts/ip6save":                     {Content: photonRules, Mode: "0600"},
			"/usr/lib/sysctl.d/50-security-hardening.conf":     {Content: "kernel.kptr_restrict = 2\nnet.ipv4.ip_forward = 0\nnet.ipv4.conf.all.rp_filter = 1\nnet.ipv4.conf.default.rp_filter = 1\n"},
			"/etc/systemd/network/99-dhcp-en.network":          {Content: "[Match]\nName=e*\n\n[Network]\nDHCP=yes\nIPv6AcceptRA=no\n"},
			"/etc/containerd/config.toml":                      {Content: "#disabled_plugins = [\"cri\"]\n\n#root = \"/var/lib/containerd\"\nversion = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_selinux = true\n"},
			"/etc/nodeagent/join-command":                      {Content: joinCommand, Mode: "0600"},
			"/run/systemd/resolve/resolv.conf":                 {Content: "nameserver 192.0.2.53\nsearch example.com\n"},
			"/run/systemd/resolve/stub-resolv.conf":            {Content: "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.com\n"},
			"/run/systemd/system":                              {Dir: true},
			"/usr/bin/tdnf":                                    program,
			"/usr/bin/rpm":                                     program,
			"/usr/bin/systemctl":                               program,
			"/usr/bin/containerd":                              program,
			"/usr/bin/runc":                                    program,
			"/usr/sbin/iptables":                               program,
			"/usr/sbin/mkfs.ext4":                              program,
			"/usr/sbin/modprobe":                               program,
			"/lib/modules/6.1.83-3.ph5/modules.dep":            {Content: "kernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\nkernel/fs/overlayfs/overlay.ko.xz:\n"},
			"/lib/modules/6.1.83-3.ph5/modules.builtin":        {Content: "kernel/fs/ext4/ext4.ko\n"},
			"/proc/net/tcp":                                    {Content: "  sl  local_address rem_address   st\n"},
			"/proc/net/tcp6":                                   {Content: "  sl  local_address rem_address   st\n"},
			"/usr/lib/systemd/system-preset/50-default.preset": {Content: "disable containerd.service\ndisable docker.service\n"},
		},
		Packages: map[string]string{"tdnf": "3.5.6-1.ph5", "rpm": "4.18.0-7.ph5", "iptables": "1.8.9-2.ph5", "e2fsprogs": "1.46.5-3.ph5", "systemd": "253-5.ph5",
			"containerd": "1.6.8-8.ph5", "runc": "1.1.4-5.ph5", "docker": "20.10.14-13.ph5"},
		Repo: map[string]Package{
			"kubelet":           kubernetes(Package{Units: []string{"kubelet.service"}, Files: map[string]File{"/usr/bin/kubelet": program}}),
			"kubeadm":           kubernetes(Package{Files: map[string]File{"/usr/bin/kubeadm": program}}),
			"kubectl":           kubernetes(Package{Files: map[string]File{"/usr/bin/kubectl": program}}),
			"cri-tools":         kubernetes(Package{Files: map[string]File{"/usr/bin/crictl": program}}),
			"kubernetes-cni":    kubernetes(Package{}),
			"containerd":        {Version: "1.6.8-8.ph5", Files: map[string]File{"/usr/bin/containerd": program}},
			"containerd-extras": {Version: "1.6.8-8.ph5", Files: map[string]File{"/usr/bin/containerd-shim-runc-v2": program}},
			"runc":              {Version: "1.1.4-5.ph5", Files: map[string]File{"/usr/bin/runc": program}},
			"xfsprogs":          {Version: "6.0.0-3.ph5", Files: map[string]File{"/usr/sbin/mkfs.xfs": program}},
			"socat":             {Version: "1.7.4.4-1.ph5"}, "conntrack-tools": {Version: "1.4.6-2.ph5"}, "ethtool": {Version: "5.19-1.ph5"},
			"nfs-utils": {Version: "2.6.2-2.ph5"}, "iptables": {Version: "1.8.9-2.ph5"}, "e2fsprogs": {Version: "1.46.5-3.ph5"},
		},
		UnitStates: map[string]host.Unit{
			"iptables.service":         {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/iptables.service"},
			"systemd-networkd.service": {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/systemd-networkd.service"},
			"systemd-resolved.service": {LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/systemd-resolved.service"},
			"containerd.service":       {LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled", FragmentPath: "/usr/lib/systemd/system/containerd.service"},
			"docker.service":           {LoadState: "loaded", ActiveState: "inactive", UnitFileState: "disabled", FragmentPath: "/usr/lib/systemd/system/docker.service"},
			"swap.img.swap":            {LoadState: "loaded", ActiveState: "active", UnitFileState: "generated", FragmentPath: "/run/systemd/generator/swap.img.swap", SourcePath: "/etc/fstab", What: "/swap.img"},
		},
		Swaps:   []Swap{{"/swap.img", "file", "swap.img.swap"}},
		Modules: map[string]bool{"ext4": true},
		Sysctls: map[string]string{"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0", "net.ipv4.conf.all.rp_filter": "1", "net.ipv4.conf.default.rp_filter": "1",
			"vm.overcommit_memory": "0", "vm.panic_on_oom": "0", "kernel.panic": "0", "kernel.panic_on_oops": "1", "kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000"},
		Disks: []host.BlockDevice{
			{Name: "sda", Path: "/dev/sda", Type: "disk", Size: 16 << 30, ByPath: []string{"/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:0:0"}, PTType: "gpt", Signatures: []string{"gpt@0x200"}, NonZero: true, Children: []string{"sda1"}, Probed: true},
			{Name: "sda1", Path: "/dev/sda1", Type: "part", Parent: "sda", Size: 15 << 30, ByPath: []string{"/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:0:0-part1"}, FSType: "ext4", FSUUID: "5d0c", Signatures: []string{"ext4@0x438"}, NonZero: true, Probed: true},
			blank("sdb", "pci-0000:03:00.0-scsi-0:0:1:0"),
		},
		MountTable: []host.Mount{{Source: "/dev/sda1", Target: "/", Type: "ext4", Root: "/", Device: "8:1"}},
		Tables:     host.IPTables{Installed: true, Variant: "nft", Filter: map[string]string{"ipv4": loaded(photonRules), "ipv6": loaded(photonRules)}},
		Net:        host.Network{Addresses: []host.Address{{Interface: "eth0", IP: "192.0.2.11", Prefix: 24}}, MACs: []string{"00:50:56:86:12:34"}},
		LateRoute:  &host.Route{Family: "ipv4", Interface: "eth0", Gateway: "192.0.2.1", Metric: 1024},
		NodeObject: host.Node{Server: "https://192.0.2.1:6443", CAHash: "sha256:0000000000000000000000000000000000000000000000000000000000000000", Version: "v1.35.4"},
		TokenDoc:   "abcdef.0123456789abcdef",
	}
	return w.trusting("rehash_ca_certificates.sh", "/etc/pki/tls/certs/ca-bundle.crt").peopled().stock()
}

const photon5 = `NAME="VMware Photon OS"
VERSION="5.0"
ID=photon
VERSION_ID=5.0
PRETTY_NAME="VMware Photon OS/Linux"
ANSI_COLOR="1;34"
HOME_URL="https://vmware.github.io/photon/"
BUG_REPORT_URL="https://github.com/vmware/photon/issues"
`

// photonRules is what the package iptables installs as ip4save and ip6save.
const photonRules = `# init
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
# Allow local-only connections
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
#keep commented till upgrade issues are sorted
#-A INPUT -j LOG --log-prefix "FIREWALL:INPUT "
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A OUTPUT -j ACCEPT
COMMIT
`
