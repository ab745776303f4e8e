// Package host is the only package that touches the machine: it runs
// programs, talks D-Bus and netlink, opens block devices and writes files.
//
// Planning receives a View, which cannot write, so a truthful dry run is a
// fact of the types. Running receives a Host, which can also Apply changes.
package host

import (
	"context"
	"errors"
	"time"

	"nodeagent/internal/change"
)

// ErrUnobservable is returned by probes that need a live host when only a
// tree of files is observed (--root). Planners treat it as "not known".
var ErrUnobservable = errors.New("only a live host can tell")

// View is what may be observed. No method changes the host. Methods that start
// programs remember their answer until the next Apply.
type View interface {
	// ReadFile returns a file's content, following links inside the root; at
	// most MaxFile bytes. A missing file is fs.ErrNotExist.
	ReadFile(path string) ([]byte, error)
	// Stat describes path itself, without following a final link.
	Stat(path string) (FileInfo, error)
	// ReadDir returns the sorted names in a directory.
	ReadDir(path string) ([]string, error)
	// LookPath finds a program in the fixed PATH; fs.ErrNotExist if absent.
	LookPath(program string) (string, error)
	// Live is false when only a tree of files is observed.
	Live() bool

	// System returns what identifies host and kernel.
	System() (System, error)
	// Clock tells whether the clock is synchronised; nothing of a tree.
	Clock() (Clock, error)
	// Filesystem describes the filesystem that holds path (or its nearest
	// existing parent).
	Filesystem(path string) (Filesystem, error)
	// Version runs "PROGRAM --version" (kubeadm: "version -o short") and
	// returns the version in it, without "v".
	Version(ctx context.Context, program string) (string, error)

	// Installed returns version-release for those of names that the RPM database
	// has or something in it provides; several versions of one name are separated
	// by blanks.
	Installed(ctx context.Context, names []string) (map[string]string, error)
	// Needed tells which of the installed packages can't go together without
	// something that stays: by name, with who needs it.
	Needed(ctx context.Context, names []string) (map[string]string, error)
	// Units describes systemd units; unknown ones have LoadState "not-found".
	Units(ctx context.Context, names []string) (map[string]Unit, error)
	// SwapUnits lists .swap units that are loaded or have a file, and active
	// services that are named after swap.
	SwapUnits(ctx context.Context) (map[string]Unit, error)

	// BlockDevices lists disks, partitions and what is stacked on them as the
	// kernel and udev see them, in by-path order; no device is opened. settle
	// first gives udev up to ten seconds to finish with devices that have just
	// appeared.
	BlockDevices(ctx context.Context, settle bool) ([]BlockDevice, error)
	// Probe returns d with what is on it now by its own bytes: blkid -p,
	// wipefs -n, an exclusive open and reads at both ends.
	Probe(ctx context.Context, d BlockDevice) (BlockDevice, error)
	// UdevProperties is what udev's database says of a device, by property, as
	// far as it identifies the device: UdevIdentity. Nothing at all means that
	// udev doesn't know the device.
	UdevProperties(ctx context.Context, d BlockDevice) (map[string]string, error)
	// Mounts is the parsed /proc/self/mountinfo.
	Mounts() ([]Mount, error)

	// Firewalld describes firewalld, running or not.
	Firewalld(ctx context.Context) (Firewalld, error)
	// IPTables returns the live filter tables of iptables.
	IPTables(ctx context.Context) (IPTables, error)
	// Network returns links, addresses and default routes.
	Network() (Network, error)
	// NetworkOwner tells which network manager configures an interface, and by
	// what.
	NetworkOwner(ctx context.Context, name string) (NetworkOwner, error)
	// SourceAddress is the local address from which host:port is reached. A
	// name is resolved; nothing else is sent.
	SourceAddress(ctx context.Context, hostport string) (string, error)

	// CRI asks the runtime at a CRI socket for its name and version.
	CRI(ctx context.Context, socket string) (RuntimeVersion, error)
	// Pods lists the pods of a runtime, as namespace/name.
	Pods(ctx context.Context, socket string) ([]string, error)
	// ClusterNetwork finds what has the names of a cluster's own in the kernel.
	ClusterNetwork(ctx context.Context) (ClusterNetwork, error)
	// Node reads this host's own Node object with /etc/kubernetes/kubelet.conf.
	Node(ctx context.Context, name string) (Node, error)
	// Credential is the path of a systemd credential: this service's own, or the
	// machine's; there may be nothing.
	Credential(name string) string
	// TokenHeld tells whether a join token is held in memory by this run.
	TokenHeld() bool
}

// Host is a View that can also change the machine.
type Host interface {
	View
	State
	// Apply carries out one change, or returns why it could not. progress
	// receives short texts for people; it may be nil.
	Apply(ctx context.Context, c change.Change, progress func(string)) error
}

// MaxFile bounds ReadFile.
const MaxFile = 16 << 20

// FileInfo describes a path without following it.
type FileInfo struct {
	Exists  bool   `json:"exists"`
	Dir     bool   `json:"dir,omitempty"`
	Link    string `json:"link,omitempty"` // target, when it is a symbolic link
	Mode    uint32 `json:"mode,omitempty"` // permission bits
	Owner   string `json:"owner,omitempty"`
	Size    int64  `json:"size,omitempty"`
	SELinux string `json:"selinux,omitempty"` // its SELinux context; empty when there is none
	// Modified is when the content last changed, in µs since the epoch as in
	// Unit.StartedAt, so that a daemon older than its configuration is seen.
	Modified int64 `json:"modified,omitempty"`
}

// System identifies host and kernel.
type System struct {
	Root        bool      `json:"root"` // effective user 0
	Arch        string    `json:"arch"` // as uname: x86_64, aarch64
	Kernel      string    `json:"kernel"`
	Hostname    string    `json:"hostname"` // static or kernel host name
	FQDN        string    `json:"fqdn,omitempty"`
	MachineID   string    `json:"machineID,omitempty"`
	Serial      string    `json:"serial,omitempty"` // DMI product serial
	UUID        string    `json:"uuid,omitempty"`   // DMI product UUID
	Cgroup      int       `json:"cgroup"`           // 1, 2; 0 not known
	Now         time.Time `json:"now"`
	MemoryBytes int64     `json:"memoryBytes,omitempty"`
	CPUs        int       `json:"cpus,omitempty"`
	SELinux     string    `json:"selinux"` // disabled, permissive, enforcing
}

// Clock tells who calls the clock synchronised.
type Clock struct {
	// Kernel: its maximum error is below 16 s, the most it counts to. A client
	// keeps it there, and chronyd puts it back to 16 s when it starts.
	Kernel bool `json:"kernel"`
	// Timesyncd: systemd-timesyncd has set the clock since it started.
	Timesyncd bool `json:"timesyncd"`
}

// By tells whether the clock is synchronised by the client that unit is.
func (c Clock) By(unit string) bool {
	if unit == Timesyncd {
		return c.Timesyncd
	}
	return c.Kernel
}

// Timesyncd is the unit of systemd's own NTP client.
const Timesyncd = "systemd-timesyncd.service"

// Filesystem is the filesystem under a path.
type Filesystem struct {
	Type      string `json:"type"` // ext4, xfs, overlay, rootfs, tmpfs, …
	Source    string `json:"source,omitempty"`
	FreeBytes uint64 `json:"freeBytes"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	Target    string `json:"target,omitempty"` // where it is mounted
	// Sandboxed is set when it is read-only for this process and not for pid 1.
	Sandboxed bool `json:"sandboxed,omitempty"`
}

// Unit is a systemd unit's state, in systemd's own words.
type Unit struct {
	LoadState     string `json:"loadState"`   // loaded, not-found, masked
	ActiveState   string `json:"activeState"` // active, inactive, failed, activating
	SubState      string `json:"subState,omitempty"`
	UnitFileState string `json:"unitFileState,omitempty"` // enabled, disabled, static, masked, generated
	NeedsReload   bool   `json:"needsReload,omitempty"`   // unit file changed since daemon-reload
	FragmentPath  string `json:"fragmentPath,omitempty"`
	SourcePath    string `json:"sourcePath,omitempty"` // what a generator made it from: /etc/fstab
	What          string `json:"what,omitempty"`       // .swap units: the device or file
	StartedAt     int64  `json:"startedAt,omitempty"`  // ActiveEnterTimestamp, µs since the epoch
	// WantedBy are the units that pull a .swap unit in.
	WantedBy []string `json:"wantedBy,omitempty"`
}

// BlockDevice is a disk, partition or anything stacked on one.
type BlockDevice struct {
	Name      string   `json:"name"`             // kernel name; never an identity
	Path      string   `json:"path"`             // /dev/NAME
	Device    string   `json:"device,omitempty"` // major:minor
	Type      string   `json:"type"`             // disk, part, lvm, crypt, raid1, loop, rom, mpath
	Size      int64    `json:"size"`             // bytes
	ReadOnly  bool     `json:"readOnly,omitempty"`
	Removable bool     `json:"removable,omitempty"`
	Model     string   `json:"model,omitempty"`
	Serial    string   `json:"serial,omitempty"`
	WWN       string   `json:"wwn,omitempty"`
	ByID      []string `json:"byID,omitempty"`   // /dev/disk/by-id links
	ByPath    []string `json:"byPath,omitempty"` // /dev/disk/by-path links
	ByCAPV    []string `json:"byCAPV,omitempty"` // /dev/disk/by-capv links, which raw disks have
	PartLabel string   `json:"partLabel,omitempty"`
	PartUUID  string   `json:"partUUID,omitempty"`
	Parent    string   `json:"parent,omitempty"`   // kernel name of the disk of a partition
	Children  []string `json:"children,omitempty"` // kernel names of partitions and holders
	Swap      bool     `json:"swap,omitempty"`     // in use as swap
	Mounts    []string `json:"mounts,omitempty"`   // mount points in our namespace

	// From udev's database, and once probed from the device itself.
	FSType string `json:"fsType,omitempty"`
	Label  string `json:"label,omitempty"`
	FSUUID string `json:"fsUUID,omitempty"`
	PTType string `json:"ptType,omitempty"` // partition table type

	Probed     bool     `json:"probed,omitempty"`     // the rest was looked for
	Signatures []string `json:"signatures,omitempty"` // wipefs -n: "type@offset"
	Ambivalent bool     `json:"ambivalent,omitempty"` // blkid -p exit 8
	Busy       string   `json:"busy,omitempty"`       // why O_EXCL failed
	Unreadable string   `json:"unreadable,omitempty"` // why it can't be opened, read or probed
	NonZero    bool     `json:"nonZero,omitempty"`    // among the bytes that a blank device has as zeros one is not
	NonZeroAt  int64    `json:"nonZeroAt,omitempty"`  // offset of the first such byte that was read
	Unfinished bool     `json:"unfinished,omitempty"` // its own superblock says that mkfs has not come to its end
	Claim      string   `json:"claim,omitempty"`      // UUID of a filesystem that nodeagent began to make and did not finish
}

// Mount is one line of mountinfo.
type Mount struct {
	Source  string   `json:"source"`
	Target  string   `json:"target"`
	Type    string   `json:"type"`
	Root    string   `json:"root,omitempty"` // root within the filesystem; not "/" for bind mounts
	Device  string   `json:"device"`         // major:minor
	Options []string `json:"options,omitempty"`
}

// Firewalld is firewalld's state. When it doesn't run, only what is in its
// files is known, and Interfaces is what they say.
type Firewalld struct {
	Installed   bool              `json:"installed"`
	Enabled     bool              `json:"enabled,omitempty"` // starts at boot
	Running     bool              `json:"running"`
	State       string            `json:"state,omitempty"` // in its own words: RUNNING, FAILED
	DefaultZone string            `json:"defaultZone,omitempty"`
	Interfaces  map[string]string `json:"interfaces,omitempty"` // interface → runtime zone
	Permanent   map[string]string `json:"permanent,omitempty"`  // interface → zone in the permanent configuration
	Zones       map[string]Zone   `json:"zones,omitempty"`      // those in use, the default one and trusted
}

// Zone is what a zone lets in, at run time and permanently.
type Zone struct {
	Runtime   ZoneSettings `json:"runtime"`
	Permanent ZoneSettings `json:"permanent"`
}

// ZoneSettings in firewalld's notation: "10250/tcp", "30000-32767/tcp".
type ZoneSettings struct {
	Ports              []string `json:"ports,omitempty"`
	Protocols          []string `json:"protocols,omitempty"`
	Sources            []string `json:"sources,omitempty"`
	Interfaces         []string `json:"interfaces,omitempty"`
	Forward            bool     `json:"forward,omitempty"`
	ICMPBlocks         []string `json:"icmpBlocks,omitempty"`
	ICMPBlockInversion bool     `json:"icmpBlockInversion,omitempty"`
	Target             string   `json:"target,omitempty"`
}

// IPTables is the rule set of iptables that is in use: nft and legacy are two
// sets that don't see each other.
type IPTables struct {
	Installed bool              `json:"installed"`
	Variant   string            `json:"variant,omitempty"` // nft, legacy
	Both      bool              `json:"both,omitempty"`    // the other set has rules as well
	Filter    map[string]string `json:"filter,omitempty"`  // ipv4, ipv6 → the filter table as iptables-save prints it
}

// Network is links, addresses and default routes.
type Network struct {
	Links     []Link    `json:"links,omitempty"` // without loopback
	Addresses []Address `json:"addresses,omitempty"`
	Defaults  []Route   `json:"defaults,omitempty"`
	MACs      []string  `json:"macs,omitempty"`
}

// Link is a network interface.
type Link struct {
	Name  string `json:"name"`
	State string `json:"state"`          // up, no carrier, down
	Card  bool   `json:"card,omitempty"` // a network card that is no part of a bond or bridge, or a bond
	MAC   string `json:"mac,omitempty"`  // lower case, with colons; of Ethernet links
	// Permanent is the card's own address where it tells one and has another now.
	Permanent string `json:"permanentMAC,omitempty"`
	Kind      string `json:"kind,omitempty"`   // in the kernel's words: device, veth, bond, bridge, vlan
	Master    string `json:"master,omitempty"` // the bond or bridge that it is part of
}

// NetworkOwner is what configures an interface.
type NetworkOwner struct {
	Manager string `json:"manager,omitempty"` // NetworkManager, systemd-networkd; empty when neither does
	Said    string `json:"said,omitempty"`    // what both say of it, when neither does
	Profile string `json:"profile,omitempty"` // what is active, for people
	UUID    string `json:"uuid,omitempty"`    // of NetworkManager's connection
	File    string `json:"file,omitempty"`    // where the profile lies
	Zone    string `json:"zone,omitempty"`    // of firewalld, when the connection names one
	// Losses is what the profile has that a file of nodeagent's would not have.
	Losses []string `json:"losses,omitempty"`
	// Pending is set while a change of the interface would be taken back by the
	// manager: a run was killed before it knew that the network is there.
	Pending bool `json:"pending,omitempty"`
}

// Address is one global unicast address that is usable: an IPv6 address counts
// when duplicate address detection is over.
type Address struct {
	Interface string `json:"interface"`
	IP        string `json:"ip"`
	Prefix    int    `json:"prefix"`
	Dynamic   bool   `json:"dynamic,omitempty"` // it ends by itself: of DHCP or a router advertisement
}

// Route is one usable default route; unreachable, blackhole and prohibit
// routes aren't.
type Route struct {
	Family    string `json:"family"` // ipv4, ipv6
	Interface string `json:"interface"`
	Gateway   string `json:"gateway,omitempty"`
	Source    string `json:"source,omitempty"` // preferred source address, when the route has one
	Metric    int    `json:"metric"`
}

// RuntimeVersion is a CRI runtime's answer.
type RuntimeVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Node is this host's Node object and the credential that reads it.
type Node struct {
	Joined bool   `json:"joined"`           // kubelet.conf parses and its certificate is valid now
	Server string `json:"server,omitempty"` // API server URL in kubelet.conf
	CAHash string `json:"caHash,omitempty"` // sha256:… of that cluster's CA
	// CAHashes is the same for every CA of the bundle: two, while one replaces
	// the other.
	CAHashes []string          `json:"caHashes,omitempty"`
	Expired  bool              `json:"expired,omitempty"` // joined once; the certificate has ended since
	Early    bool              `json:"early,omitempty"`   // the certificate isn't valid yet by this host's clock
	Expires  time.Time         `json:"expires,omitzero"`  // end of kubelet's certificate
	Name     string            `json:"name,omitempty"`    // node name in the certificate
	Reached  bool              `json:"reached,omitempty"` // the API server answered for the Node
	Ready    bool              `json:"ready,omitempty"`
	Unmet    string            `json:"unmet,omitempty"`   // the condition that is missing, in its own words
	Reported time.Time         `json:"reported,omitzero"` // when kubelet last reported that, by this host's clock
	Version  string            `json:"version,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Problem  string            `json:"problem,omitempty"` // why Joined or Reached is false
}
