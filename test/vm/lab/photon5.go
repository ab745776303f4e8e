package lab

import _ "embed"

// photonRepo is the repository of Photon's own packages.
const photonRepo = "photon"

// photonRelease is the release field of its packages.
const photonRelease = "1.ph5"

// tdnfStandIn is not tdnf, which Debian doesn't package: it answers as the real
// program was seen to answer, and lets dnf do the work.
//
//go:embed tdnf-standin.sh
var tdnfStandIn string

// Photon5 is a stock Photon OS 5 host: tdnf, rules of iptables that a service
// loads at boot, systemd-networkd and systemd-resolved, and a containerd that
// is installed and switched off.
var Photon5 = Flavour{
	Name:    "photon5",
	Without: []string{"firewalld", "network-manager", "xfsprogs"},
	Debs:    []string{"systemd-resolved"},
	Rename:  map[string]string{"/usr/bin/dnf-3": "/usr/lib/lab/dnf"},
	Files: []File{
		{Path: "/usr/lib/os-release", Content: photon5Release},
		{Path: "/etc/os-release", Link: "../usr/lib/os-release"},
		{Path: "/etc/photon-release", Content: "VMware Photon OS 5.0\nPHOTON_BUILD_NUMBER=dde71ec57\n"},
		{Path: "/usr/bin/tdnf", Mode: 0o755, Content: tdnfStandIn},
		{Path: "/etc/tdnf/tdnf.conf", Content: "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=0\nrepodir=/etc/yum.repos.d\ncachedir=/var/cache/tdnf\n"},
		{Path: "/etc/tdnf/locks.d/.keep"},
		{Path: "/etc/yum.repos.d/photon-updates.repo", Content: `[photon-updates]
name=VMware Photon Linux $releasever ($basearch) Updates
baseurl=http://repo.lab.test/photon/
gpgkey=file:///etc/pki/rpm-gpg/VMWARE-RPM-GPG-KEY
gpgcheck=1
enabled=1
skip_if_unavailable=True
`},
		{Path: "/etc/yum.repos.d/photon.repo", Content: `[photon]
name=VMware Photon Linux $releasever ($basearch)
baseurl=http://repo.lab.test/nowhere/
gpgkey=file:///etc/pki/rpm-gpg/VMWARE-RPM-GPG-KEY
gpgcheck=1
enabled=0
skip_if_unavailable=True
`},
		{Path: "/etc/systemd/scripts/ip4save", Mode: 0o600, Content: photonRules("")},
		{Path: "/etc/systemd/scripts/ip6save", Mode: 0o600, Content: photonRules("-A INPUT -p ipv6-icmp -j ACCEPT\n")},
		{Path: "/etc/systemd/scripts/iptables", Mode: 0o755, Content: "#!/bin/sh\niptables-restore </etc/systemd/scripts/ip4save && ip6tables-restore </etc/systemd/scripts/ip6save\n"},
		{Path: "/etc/systemd/scripts/iptables.stop", Mode: 0o755, Content: `#!/bin/sh
# Every table loses every rule, whoever made it.
for program in iptables ip6tables; do
	for chain in INPUT FORWARD OUTPUT; do $program -P $chain ACCEPT; done
	for table in filter nat mangle; do $program -t $table -F; $program -t $table -X; done
done
`},
		{Path: "/usr/lib/systemd/system/iptables.service", Content: `[Unit]
Description=IPv4 packet filtering framework
Before=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/etc/systemd/scripts/iptables
ExecStop=/etc/systemd/scripts/iptables.stop

[Install]
WantedBy=multi-user.target
`},
		{Path: "/usr/lib/sysctl.d/50-security-hardening.conf", Content: `kernel.kptr_restrict = 2
kernel.dmesg_restrict = 1
net.ipv4.ip_forward = 0
net.ipv4.conf.all.rp_filter = 1
net.ipv4.conf.default.rp_filter = 1
net.ipv4.conf.all.send_redirects = 0
net.ipv4.conf.default.send_redirects = 0
net.ipv4.conf.all.accept_redirects = 0
net.ipv4.tcp_syncookies = 1
`},
		{Path: "/etc/systemd/network/99-dhcp-en.network", Content: "[Match]\nName=e*\n\n[Network]\nDHCP=yes\nIPv6AcceptRA=no\n"},
		{Path: "/etc/resolv.conf", Link: "../run/systemd/resolve/stub-resolv.conf"},
		{Path: "/etc/fstab", Content: "#system\tmnt-pt\ttype\toptions\tdump\tfsck\nLABEL=root\t/\text4\tdefaults,noatime\t1\t1\n/swap.img      none    swap    sw      0       0\n"},
		{Path: "/etc/issue", Content: "Welcome to Photon 5.0 (\\m) - Kernel \\r (\\l)\n"},
		{Path: "/etc/motd"},
		{Path: "/etc/default/locale", Content: "LANG=C.UTF-8\n"},
	},
	Remove:  append([]string{"/usr/bin/dnf", "/usr/bin/yum", "/etc/dnf/plugins", "/usr/lib/python3/dist-packages/dnf-plugins"}, versionlockFiles...),
	Mask:    debianNoise,
	Enable:  []string{"systemd-networkd.service", "systemd-resolved.service", "iptables.service"},
	Disable: []string{"containerd.service"},
	Repo:    photonRepo,
	Key:     "/etc/pki/rpm-gpg/VMWARE-RPM-GPG-KEY",
	Release: rpmPackage{name: "photon-release", version: "5.0", release: photonRelease, arch: "noarch", provides: []string{"system-release = 5.0"}},
	RPMs: []string{
		"bash", "bridge-utils", "ca-certificates", "coreutils", "curl", "dbus", "e2fsprogs", "filesystem", "glibc", "iproute2", "iptables",
		"kmod", "openssh-server", "photon-repos", "procps-ng", "rpm", "systemd", "systemd-udev", "tar", "tdnf", "util-linux",
	},
	Install: []string{"containerd", "runc"},
	Swap:    []SwapFile{{"/swap.img", 64}},
	Spec: Sections{
		Packages: `
    repositories:` + kubernetesRepository,
		Firewall: `
    cni: flannel
    allow: [30000-32767/tcp, 30000-32767/udp]
    trustedSources: [10.244.0.0/16]`,
		Disks: `
  - name: kubelet
    select: {blank: {minSize: 15GiB}}
    filesystem: {type: ext4, label: kubelet}
    mountPath: /var/lib/kubelet
  - name: containerd
    select: {blank: {minSize: 15GiB}}
    filesystem: {type: xfs, label: containerd}
    mountPath: /var/lib/containerd
    mountOptions: [noatime]`,
	},
}

const photon5Release = `NAME="VMware Photon OS"
VERSION="5.0"
ID=photon
VERSION_ID=5.0
PRETTY_NAME="VMware Photon OS/Linux"
ANSI_COLOR="1;34"
HOME_URL="https://vmware.github.io/photon/"
BUG_REPORT_URL="https://github.com/vmware/photon/issues"
`

// photonRules are the rules that Photon's iptables.service loads: everything is
// dropped but ssh, what the host asked for, and what more says.
func photonRules(more string) string {
	return `# init
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
` + more + `-A OUTPUT -j ACCEPT
COMMIT
`
}
