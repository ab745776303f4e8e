// Package config turns strict YAML into a validated value and points at
// file, line and column when it can't.
package config

import (
	"strings"
	"time"
)

// APIVersion and Kind are the only accepted header of a document.
const (
	APIVersion = "nodeagent/v1alpha1"
	Kind       = "NodeConfig"
)

// NodeConfig is one document. The doc tags are the text of the JSON Schema and
// of the config reference.
type NodeConfig struct {
	APIVersion string   `yaml:"apiVersion" doc:"Always nodeagent/v1alpha1."`
	Kind       string   `yaml:"kind" doc:"Always NodeConfig."`
	Metadata   Metadata `yaml:"metadata" doc:"Which hosts the document is for."`
	Spec       Spec     `yaml:"spec" doc:"What the host shall become."`
}

// Metadata says which hosts a document is for.
type Metadata struct {
	Name  string `yaml:"name" doc:"A name for people; nothing depends on it."`
	Match *Match `yaml:"match" doc:"Only hosts with one of these identities use the document; it is laid over the documents without match."`
}

// Match lists identities; a host matches when any one of them is its own.
type Match struct {
	MAC      []string `yaml:"mac" doc:"MAC addresses of any network card, colons or dashes, any case."`
	Serial   []string `yaml:"serial" doc:"DMI product serials."`
	Hostname []string `yaml:"hostname" doc:"Host names."`
	UUID     []string `yaml:"uuid" doc:"DMI product UUIDs."`
}

// Spec is what the host shall become.
type Spec struct {
	Hostname   string     `yaml:"hostname" doc:"The host and node name; absent keeps the host's."`
	Kubernetes Kubernetes `yaml:"kubernetes" doc:"The Kubernetes release of this node."`
	Packages   Packages   `yaml:"packages" doc:"The package manager, its repositories and extra packages."`
	Runtime    Runtime    `yaml:"runtime" doc:"containerd: where it comes from and its settings."`
	Swap       Swap       `yaml:"swap" doc:"What happens to swap."`
	Kernel     Kernel     `yaml:"kernel" doc:"Modules and sysctls beyond those Kubernetes needs."`
	Disks      []Disk     `yaml:"disks" doc:"Data disks."`
	Firewall   Firewall   `yaml:"firewall" doc:"Ports to open; the firewall stays on."`
	Kubelet    Kubelet    `yaml:"kubelet" doc:"The kubelet's configuration, flags, labels and taints."`
	Network    Network    `yaml:"network" doc:"What the interfaces are, and what is waited for before the join."`
	Users      []User     `yaml:"users" doc:"Local users. Existing ones get what they lack; root can get keys and a password only."`
	Time       Time       `yaml:"time" doc:"Where the host gets its time."`
	Proxy      Proxy      `yaml:"proxy" doc:"The HTTP proxy of nodeagent, of the package manager and other programs that it starts, and of the runtime. kubelet gets none."`
	CATrust    []CATrust  `yaml:"caTrust" doc:"Certificate authorities the whole host trusts."`
	Mounts     []Mount    `yaml:"mounts" doc:"Filesystems of others to mount, such as NFS exports, bind mounts and tmpfs. Data disks belong to disks."`
	Files      []File     `yaml:"files" doc:"Files to write before the runtime starts."`
	Hooks      Hooks      `yaml:"hooks" doc:"Your own shell commands, each run once."`
	Join       Join       `yaml:"join" doc:"How the node joins its cluster."`
}

// OnDataDisk tells whether path lies below the mount path of a data disk, which
// may not be mounted yet.
func (s Spec) OnDataDisk(path string) bool {
	for _, d := range s.Disks {
		if d.MountPath != "" && strings.HasPrefix(path, strings.TrimSuffix(d.MountPath, "/")+"/") {
			return true
		}
	}
	return false
}

// Kubernetes is the release to run.
type Kubernetes struct {
	Version string `yaml:"version" doc:"Exact version with or without the v, such as v1.35.4."`
}

// Packages describes packages and where they come from.
type Packages struct {
	Manager      string       `yaml:"manager" enum:"auto,dnf,tdnf,none" doc:"auto chooses by the host."`
	Repositories []Repository `yaml:"repositories" doc:"Repositories to add."`
	Install      []string     `yaml:"install" doc:"Extra packages: a bare name, or name-version."`
	Remove       []string     `yaml:"remove" doc:"Packages that may be removed when one that is installed conflicts with them, such as podman and runc for containerd.io. Nothing else is ever removed."`
	Lock         *bool        `yaml:"lock" doc:"Keep kubelet, kubeadm and kubectl at their version. Default true."`
}

// Repository is one RPM repository.
type Repository struct {
	ID       string   `yaml:"id" doc:"The section name and file name in /etc/yum.repos.d."`
	Name     string   `yaml:"name" doc:"The title; the id when absent."`
	BaseURL  string   `yaml:"baseURL" doc:"Where repodata/ is found."`
	GPGKeys  []string `yaml:"gpgKeys" doc:"URLs or file paths of the signing keys."`
	GPGCheck *bool    `yaml:"gpgCheck" doc:"Check package signatures. Default true."`
	RepoGPG  bool     `yaml:"repoGPGCheck" doc:"Also check the signature of the repository's metadata."`
	Exclude  []string `yaml:"exclude" doc:"Packages that ordinary updates shall not take from here."`
}

// Runtime is the container runtime.
type Runtime struct {
	Source       string    `yaml:"source" enum:"auto,package,archive,preinstalled" doc:"auto: archive if archives are given, else what is installed, else the package."`
	Package      string    `yaml:"package" doc:"The package to install for source package; the distribution's usual one when absent."`
	Archives     []Archive `yaml:"archives" doc:"Archives to unpack for source archive."`
	Socket       string    `yaml:"socket" doc:"The CRI socket. Default unix:///run/containerd/containerd.sock."`
	SandboxImage string    `yaml:"sandboxImage" doc:"The pause image; absent leaves the runtime's default."`
	Mirrors      []Mirror  `yaml:"mirrors" doc:"Registry mirrors, written as hosts.toml."`
}

// Archive is a tar archive or a single program, fetched and checked before use.
type Archive struct {
	URL     string `yaml:"url" doc:"http, https or file URL."`
	SHA256  string `yaml:"sha256" doc:"Hex digest of the whole file."`
	MaxSize string `yaml:"maxSize" doc:"A larger download is broken off, such as 300MiB. Default 2GiB; what is unpacked may be four times that."`
	Into    string `yaml:"into" doc:"Directory to unpack into, or the file to write when the URL isn't an archive."`
}

// Mirror maps a registry to the endpoints asked first.
type Mirror struct {
	Registry  string   `yaml:"registry" doc:"Host of the registry, such as docker.io, or _default."`
	Endpoints []string `yaml:"endpoints" doc:"URLs asked in this order."`
}

// Swap is the policy for swap.
type Swap struct {
	Mode string `yaml:"mode" enum:"disable,keep" doc:"disable: off now and after every boot. keep: leave it (set kubelet.config.failSwapOn yourself)."`
}

// Kernel lists extra modules and sysctls.
type Kernel struct {
	Modules []string          `yaml:"modules" doc:"Modules to load, besides overlay and br_netfilter."`
	Sysctls map[string]string `yaml:"sysctls" literal:"number" doc:"Sysctls to set, besides those Kubernetes needs."`
}

// Disk is one data disk. Without a mount path and a filesystem it is raw.
type Disk struct {
	Name         string     `yaml:"name" doc:"A name for people and for the journal. A raw disk's is its link: /dev/disk/by-capv/NAME."`
	Select       DiskSelect `yaml:"select" doc:"Which device: exactly one way."`
	Filesystem   Filesystem `yaml:"filesystem" doc:"The filesystem the device has or gets."`
	MountPath    string     `yaml:"mountPath" doc:"Where it is mounted. With neither this nor a filesystem the disk is raw: it gets a link by its name and nothing else, and is selected by serial, wwn, diskUUID, scsiUnit or path."`
	MountOptions []string   `yaml:"mountOptions" doc:"Options for mount, such as noatime."`
	WipeOnce     bool       `yaml:"wipeOnce" doc:"Empty the filesystem once on this system disk: its files are deleted, it isn't formatted. /var/lib/nodeagent/emptied/NAME says that it was done. Refused on a host that has joined."`
	Keep         bool       `yaml:"keep" doc:"The device holds data already: adopt it, never format it, even when it is blank."`
}

// Raw tells whether the disk gets only its link: it has neither a mount path
// nor a filesystem. Defaults leave a raw disk as it is.
func (d Disk) Raw() bool {
	return d.MountPath == "" && d.Filesystem.Type == "" && d.Filesystem.Label == "" && len(d.Filesystem.Options) == 0
}

// DiskSelect names one device in exactly one way.
type DiskSelect struct {
	Label     string `yaml:"label" doc:"Filesystem label."`
	PartLabel string `yaml:"partLabel" doc:"GPT partition label."`
	FSUUID    string `yaml:"fsUUID" doc:"Filesystem UUID."`
	Serial    string `yaml:"serial" doc:"Serial of the whole disk."`
	WWN       string `yaml:"wwn" doc:"World Wide Name of the whole disk."`
	DiskUUID  string `yaml:"diskUUID" doc:"The identity a hypervisor gives a disk, such as a VMDK's UUID; dashes, blanks and case don't matter."`
	SCSIUnit  *int   `yaml:"scsiUnit" doc:"The unit number on the SCSI controller (/dev/disk/by-path/*-scsi-0:0:UNIT:0); where two controllers have a disk there, it is refused."`
	Path      string `yaml:"path" doc:"A link below /dev/disk/by-id or /dev/disk/by-path; kernel names change between boots and are refused."`
	Blank     *Blank `yaml:"blank" doc:"Any provably blank whole disk, in by-path order."`
}

// Blank picks among blank disks by size.
type Blank struct {
	MinSize string `yaml:"minSize" doc:"At least this large, such as 90GiB."`
	MaxSize string `yaml:"maxSize" doc:"At most this large."`
}

// Filesystem is the filesystem of a disk.
type Filesystem struct {
	Type    string   `yaml:"type" enum:"xfs,ext4" doc:"xfs or ext4."`
	Label   string   `yaml:"label" doc:"Label given at format and mounted by. xfs 12 bytes, ext4 16 bytes at most. Default: the disk's name when it fits."`
	Options []string `yaml:"options" doc:"Extra arguments for mkfs at first format."`
}

// Firewall is what to open.
type Firewall struct {
	Manager        string   `yaml:"manager" enum:"auto,firewalld,iptables,none" doc:"auto chooses by what is active."`
	CNI            string   `yaml:"cni" enum:"cilium,calico,flannel,kube-ovn,none" doc:"Opens the ports of this network plugin."`
	Allow          []string `yaml:"allow" doc:"Ports to open besides 10250/tcp: 30000-32767/tcp."`
	TrustedSources []string `yaml:"trustedSources" doc:"Pod and service CIDRs accepted whole."`
}

// Kubelet configures the kubelet.
type Kubelet struct {
	Config     map[string]any    `yaml:"config" doc:"A KubeletConfiguration fragment, laid over the cluster's as a strategic patch."`
	ExtraArgs  []Arg             `yaml:"extraArgs" doc:"kubelet flags; they go through kubeadm's nodeRegistration."`
	Labels     map[string]string `yaml:"labels" doc:"Node labels set at registration."`
	Taints     []Taint           `yaml:"taints" doc:"Node taints set at registration."`
	ProviderID string            `yaml:"providerID" doc:"The node's spec.providerID."`
}

// Arg is one flag.
type Arg struct {
	Name  string `yaml:"name" doc:"Flag name without dashes."`
	Value string `yaml:"value" doc:"Its value."`
}

// Taint is a node taint.
type Taint struct {
	Key    string `yaml:"key" doc:"Taint key."`
	Value  string `yaml:"value" doc:"Taint value."`
	Effect string `yaml:"effect" enum:"NoSchedule,PreferNoSchedule,NoExecute" doc:"Taint effect."`
}

// Network says what is waited for, and what the host's interfaces are.
type Network struct {
	Configure    bool         `yaml:"configure" doc:"Configure interfaces that differ, in the words of the manager that has them (NetworkManager, systemd-networkd), with a check and a way back. Default false: they are only compared with the host and differences are told."`
	Interfaces   []Interface  `yaml:"interfaces" doc:"The interfaces the host has."`
	DefaultRoute DefaultRoute `yaml:"defaultRoute" doc:"The default route that is awaited before anything is fetched."`
}

// Interface is one network interface with static addresses.
type Interface struct {
	Name      string   `yaml:"name" doc:"The interface's name, such as eth0. Beside mac: the name that it should have."`
	MAC       string   `yaml:"mac" doc:"Its hardware address, by which it is found whatever its name is."`
	Addresses []string `yaml:"addresses" doc:"Its static addresses with prefix length, such as 192.0.2.10/24. A family without one is left to DHCP or router advertisements."`
	Gateway   string   `yaml:"gateway" doc:"The default gateway, in a network of the addresses; better on one interface only."`
	DNS       []string `yaml:"dns" doc:"Name servers."`
	Search    []string `yaml:"search" doc:"Search domains."`
}

// DefaultRoute is the awaited route.
type DefaultRoute struct {
	Family  string   `yaml:"family" enum:"any,ipv4,ipv6,none" doc:"none doesn't wait (air-gapped hosts without a default route)."`
	Timeout Duration `yaml:"timeout" doc:"How long to wait. Default 10m."`
}

// File is a file to write.
type File struct {
	Path        string `yaml:"path" doc:"Absolute path."`
	Owner       string `yaml:"owner" doc:"user:group. Default root:root."`
	Permissions string `yaml:"permissions" literal:"number" doc:"Octal mode. Default 0644."`
	Encoding    string `yaml:"encoding" enum:",base64,gzip+base64" doc:"How content is written here. Absent: as it is."`
	Append      bool   `yaml:"append" doc:"Add the content as lines at the end of the file, unless they are in it already, instead of replacing the file. A file that exists keeps its mode and owner."`
	Content     string `yaml:"content" doc:"The whole content. What isn't UTF-8 text goes through encoding."`
}

// User is a local user.
type User struct {
	Name              string   `yaml:"name" doc:"Login name."`
	Comment           string   `yaml:"comment" doc:"The full name (GECOS)."`
	Groups            []string `yaml:"groups" doc:"Supplementary groups; those that are missing are created."`
	PrimaryGroup      string   `yaml:"primaryGroup" doc:"The primary group of a new user; absent: one of the user's own name."`
	Home              string   `yaml:"home" doc:"Home directory of a new user. Default /home/NAME."`
	Shell             string   `yaml:"shell" doc:"Login shell of a new user. Default /bin/bash."`
	SSHAuthorizedKeys []string `yaml:"sshAuthorizedKeys" doc:"Public keys that may log in. Keys of others in authorized_keys are left."`
	Sudo              string   `yaml:"sudo" doc:"A sudoers rule without the name, such as ALL=(ALL) NOPASSWD:ALL."`
	PasswordHash      string   `yaml:"passwordHash" doc:"A crypt(5) hash, such as openssl passwd -6 makes."`
	LockPassword      *bool    `yaml:"lockPassword" doc:"No login by password. Default for a new user: true, unless passwordHash is given. Absent leaves an existing user's password as it is."`
}

// Time is where the host gets its time.
type Time struct {
	Servers     []string `yaml:"servers" doc:"NTP servers by name or address, set for chrony or systemd-timesyncd, whichever the host has. Nothing is fetched and no token is used before the clock is synchronised."`
	SyncTimeout Duration `yaml:"syncTimeout" doc:"How long to wait for the first synchronisation; 0 doesn't wait. Default 5m. Without servers, those that the host has already are waited for."`
}

// Asked tells whether anything is asked of the clock at all.
func (t Time) Asked() bool { return len(t.Servers) > 0 || t.SyncTimeout.Set }

// Proxy is the HTTP proxy of what fetches.
type Proxy struct {
	HTTP    string   `yaml:"http" doc:"Proxy for http URLs, such as http://proxy.example:3128; no user, no password."`
	HTTPS   string   `yaml:"https" doc:"Proxy for https URLs, in the same form."`
	NoProxy []string `yaml:"noProxy" doc:"Hosts, domains and networks reached directly; the API server, firewall.trustedSources, the loopback and the node's own name are always added."`
}

// CATrust is one certificate authority.
type CATrust struct {
	Name string `yaml:"name" doc:"Names the file in the host's trust store: nodeagent-NAME. Lower-case letters, digits, dashes."`
	PEM  string `yaml:"pem" doc:"The certificate of one authority as PEM."`
	File string `yaml:"file" doc:"A file of the host with the certificate, instead of pem."`
}

// Mount is one mount that isn't a data disk.
type Mount struct {
	What    string   `yaml:"what" doc:"The source, as mount(8) takes it: an NFS export, a directory for a bind mount, tmpfs."`
	Where   string   `yaml:"where" doc:"The mount point."`
	Type    string   `yaml:"type" doc:"Filesystem type: nfs, nfs4, cifs, smb3, ceph, glusterfs, lustre, tmpfs, hugetlbfs, virtiofs, 9p, or none for a bind mount."`
	Options []string `yaml:"options" doc:"Mount options, one an entry; [bind] for a bind mount. Passwords belong into a file: credentials=FILE."`
}

// Hooks are the user's own commands.
type Hooks struct {
	PreJoin  []string `yaml:"preJoin" doc:"Run by /bin/sh before the join, each once per host."`
	PostJoin []string `yaml:"postJoin" doc:"Run by /bin/sh after the join, each once per host."`
}

// Join says how to reach the cluster.
type Join struct {
	Endpoint              string   `yaml:"endpoint" doc:"host:port of the API server; may come with the token document instead."`
	CACertHashes          []string `yaml:"caCertHashes" doc:"sha256:… pins of the cluster CA; may come with the token document instead."`
	CACert                string   `yaml:"caCert" doc:"The cluster CA as PEM, instead of caCertHashes."`
	CACertFile            string   `yaml:"caCertFile" doc:"A file with the cluster CA as PEM, instead of caCertHashes."`
	Token                 Token    `yaml:"token" doc:"Where the join token comes from: exactly one source."`
	IgnorePreflightErrors []string `yaml:"ignorePreflightErrors" doc:"kubeadm preflight checks whose errors become warnings."`
	Timeout               Duration `yaml:"timeout" doc:"Limit for kubeadm join. Default 10m."`
	WaitReady             Duration `yaml:"waitReady" doc:"How long to wait for the node to be Ready; 0 doesn't wait. Default 10m."`
}

// Duration is a time span in Go's notation (90s, 10m); a bare 0 is allowed.
type Duration struct {
	time.Duration
	Set bool // given in the file, so that an explicit 0 differs from absent
}
