package change

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// WriteFile replaces a whole file atomically, keeping a final symbolic link.
// Missing parent directories are made with mode 0755.
type WriteFile struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"`  // octal: "0644"
	Owner   string `json:"owner"` // user:group
	Content string `json:"content,omitempty"`
	Reload  string `json:"reload,omitempty"` // unit that reads the file again when told to; it isn't restarted
	Secret  bool   `json:"secret,omitempty"` // content stays out of plans, logs and journal
	Before  *Saved `json:"before,omitempty"` // nil when the file did not exist
	What    string `json:"-"`                // summary; "write PATH" when empty
}

// Saved is a file as it was.
type Saved struct {
	Mode    string `json:"mode"`
	Owner   string `json:"owner"`
	Content string `json:"content"`
}

func (c WriteFile) ID() string { return "file:" + c.Path }
func (c WriteFile) Summary() string {
	if c.What != "" {
		return c.What
	}
	return "write " + c.Path
}
func (c WriteFile) Diff() string {
	if c.Secret {
		return "(secret content)"
	}
	before := ""
	if c.Before != nil {
		before = c.Before.Content
	}
	d := unified(c.Path, before, c.Content, c.Before != nil)
	if c.Before != nil && (c.Before.Mode != c.Mode || c.Before.Owner != c.Owner) {
		d = fmt.Sprintf("mode %s → %s, owner %s → %s\n", c.Before.Mode, c.Mode, c.Before.Owner, c.Owner) + d
	}
	return d
}
func (c WriteFile) Class() Class {
	if c.Before == nil {
		return Additive
	}
	return Reversible
}

// MarshalJSON leaves secret content out.
func (c WriteFile) MarshalJSON() ([]byte, error) {
	type plain WriteFile
	p := plain(c)
	if c.Secret {
		p.Content, p.Before = "", nil
	}
	return json.Marshal(p)
}

// RemoveFile removes one file; a missing one is fine.
type RemoveFile struct {
	Path   string `json:"path"`
	Before *Saved `json:"before,omitempty"`
	What   string `json:"-"`
}

func (c RemoveFile) ID() string { return "remove:" + c.Path }
func (c RemoveFile) Summary() string {
	if c.What != "" {
		return c.What
	}
	return "remove " + c.Path
}
func (c RemoveFile) Diff() string {
	if c.Before == nil {
		return ""
	}
	return unified(c.Path, c.Before.Content, "", true)
}
func (c RemoveFile) Class() Class { return Reversible }

// SetHostname sets the static and the kernel's host name.
type SetHostname struct {
	Name   string `json:"name"`
	Before string `json:"before"`
}

func (c SetHostname) ID() string { return "hostname" }
func (c SetHostname) Summary() string {
	if c.Before == "" {
		return "set host name " + c.Name
	}
	return fmt.Sprintf("set host name %s (was %s)", c.Name, c.Before)
}
func (c SetHostname) Diff() string { return "" }
func (c SetHostname) Class() Class { return Reversible }

// ProbeRepository checks that a repository answers before it is enabled: a
// .repo file with a dead URL breaks every later use of the package manager.
type ProbeRepository struct {
	Repository string `json:"repository"`
	BaseURL    string `json:"baseURL"` // with $releasever and the like filled in
}

func (c ProbeRepository) ID() string { return "probe:" + c.Repository }
func (c ProbeRepository) Summary() string {
	return fmt.Sprintf("check that repository %s answers at %s", c.Repository, c.BaseURL)
}
func (c ProbeRepository) Diff() string { return "" }
func (c ProbeRepository) Class() Class { return Wait }

// ImportKeys imports OpenPGP keys into the RPM database, from URLs or files.
type ImportKeys struct {
	Repository string   `json:"repository"`
	Keys       []string `json:"keys"`
	StoreAs    string   `json:"storeAs"` // local copy under /etc/pki/rpm-gpg, named in the .repo file
}

func (c ImportKeys) ID() string { return "keys:" + c.Repository }
func (c ImportKeys) Summary() string {
	return fmt.Sprintf("import %d signing key(s) of repository %s", len(c.Keys), c.Repository)
}
func (c ImportKeys) Diff() string { return strings.Join(c.Keys, "\n") }
func (c ImportKeys) Class() Class { return Additive }

// InstallPackages installs packages in one transaction. Signatures are
// checked as the repositories say.
type InstallPackages struct {
	Manager  string   `json:"manager"`            // dnf, tdnf
	Packages []string `json:"packages"`           // specs: "kubelet-1.35.4-*", "socat"
	Optional []string `json:"optional,omitempty"` // left out when no repository has them
	Unlock   []string `json:"unlock,omitempty"`   // repositories whose excludes don't count for this transaction; "main" is dnf.conf
	Remove   []string `json:"remove,omitempty"`   // conflicting packages the user listed for removal
	// Keys are fetched anew, once, when a signature doesn't check: a stored key
	// may have been renewed or replaced.
	Keys []ImportKeys `json:"keys,omitempty"`
}

func (c InstallPackages) ID() string { return "packages" }
func (c InstallPackages) Summary() string {
	s := fmt.Sprintf("install %d package(s) with %s: %s", len(c.Packages)+len(c.Optional), c.Manager, strings.Join(c.Packages, " "))
	if len(c.Optional) > 0 {
		s += " and, where there is one, " + strings.Join(c.Optional, " ")
	}
	if len(c.Remove) > 0 {
		s += "; remove " + strings.Join(c.Remove, " ") + " where in conflict"
	}
	return s
}
func (c InstallPackages) Diff() string { return "" }
func (c InstallPackages) Class() Class { return Additive }

// InstallArchive fetches, checks and unpacks an archive (or one program).
type InstallArchive struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	Into   string `json:"into"`
	Marker string `json:"marker"` // file that records what was unpacked
}

func (c InstallArchive) ID() string      { return "archive:" + c.URL }
func (c InstallArchive) Summary() string { return fmt.Sprintf("unpack %s into %s", c.URL, c.Into) }
func (c InstallArchive) Diff() string    { return "sha256 " + c.SHA256 }
func (c InstallArchive) Class() Class    { return Additive }

// SwapOff stops using one swap area now.
type SwapOff struct {
	Area string `json:"area"`           // device or file as in /proc/swaps
	Unit string `json:"unit"`           // its systemd unit
	From string `json:"from,omitempty"` // what turns it on at boot, for people
}

func (c SwapOff) ID() string { return "swapoff:" + c.Area }
func (c SwapOff) Summary() string {
	from := ""
	if c.From != "" && c.From != c.Unit {
		from = ", from " + c.From
	}
	return "swap off " + c.Area + " (" + c.Unit + from + ")"
}
func (c SwapOff) Diff() string { return "" }
func (c SwapOff) Class() Class { return Reversible }

// MaskUnit stops a unit and keeps it from starting ever again.
type MaskUnit struct {
	Unit string `json:"unit"`
	Why  string `json:"why"`
}

func (c MaskUnit) ID() string      { return "mask:" + c.Unit }
func (c MaskUnit) Summary() string { return fmt.Sprintf("mask %s: %s", c.Unit, c.Why) }
func (c MaskUnit) Diff() string    { return "" }
func (c MaskUnit) Class() Class    { return Reversible }

// SetUnit brings a unit to a state. The systemd manager is reloaded first when
// Reload is set.
type SetUnit struct {
	Unit    string `json:"unit"`
	Reload  bool   `json:"reload,omitempty"`
	Enable  bool   `json:"enable,omitempty"`
	Start   bool   `json:"start,omitempty"`
	Restart bool   `json:"restart,omitempty"` // restarts it when it runs, starts it otherwise
	Disable bool   `json:"disable,omitempty"` // disables and stops it
	Socket  string `json:"socket,omitempty"`  // CRI socket that must answer afterwards
	Why     string `json:"why,omitempty"`
}

func (c SetUnit) ID() string { return "unit:" + c.Unit }
func (c SetUnit) Summary() string {
	var do []string
	for _, w := range []struct {
		on bool
		is string
	}{{c.Reload, "reload the manager"}, {c.Enable, "enable"}, {c.Start, "start"}, {c.Restart, "restart"}, {c.Disable, "disable and stop"}} {
		if w.on {
			do = append(do, w.is)
		}
	}
	s := strings.Join(do, ", ") + " " + c.Unit
	if c.Why != "" {
		s += ": " + c.Why
	}
	return s
}
func (c SetUnit) Diff() string { return "" }
func (c SetUnit) Class() Class { return Reversible }

// LoadModule loads a kernel module now.
type LoadModule struct {
	Name string `json:"name"`
}

func (c LoadModule) ID() string      { return "module:" + c.Name }
func (c LoadModule) Summary() string { return "load kernel module " + c.Name }
func (c LoadModule) Diff() string    { return "" }
func (c LoadModule) Class() Class    { return Additive }

// SetSysctl sets a kernel parameter now and checks the effective value.
type SetSysctl struct {
	Key    string `json:"key"` // dotted
	Value  string `json:"value"`
	Before string `json:"before"`
}

func (c SetSysctl) ID() string { return "sysctl:" + c.Key }
func (c SetSysctl) Summary() string {
	if c.Before == "" { // it comes with a module that is loaded first
		return fmt.Sprintf("set %s = %s", c.Key, c.Value)
	}
	return fmt.Sprintf("set %s = %s (was %s)", c.Key, c.Value, c.Before)
}
func (c SetSysctl) Diff() string { return "" }
func (c SetSysctl) Class() Class { return Reversible }

// MakeFilesystem formats a device that is provably blank. Everything that
// identified the device in the plan is checked again right before mkfs.
type MakeFilesystem struct {
	Disk    string   `json:"disk"`   // the name in the config
	Device  string   `json:"device"` // stable link: by-id or by-path
	Size    int64    `json:"size"`
	Serial  string   `json:"serial,omitempty"`
	WWN     string   `json:"wwn,omitempty"`
	Type    string   `json:"type"`
	Label   string   `json:"label"`
	UUID    string   `json:"uuid"`
	Options []string `json:"options,omitempty"`
	// Resume is set when the journal holds an intent for this very device: an
	// interrupted mkfs of ours may be repeated.
	Resume bool `json:"resume,omitempty"`
}

func (c MakeFilesystem) ID() string { return "mkfs:" + c.Device }
func (c MakeFilesystem) Summary() string {
	return fmt.Sprintf("FORMAT %s (%s, %s) as %s labelled %s", c.Device, Size(c.Size), c.Disk, c.Type, c.Label)
}
func (c MakeFilesystem) Diff() string { return "uuid " + c.UUID }
func (c MakeFilesystem) Class() Class { return Destructive }

// Mount mounts a filesystem by label through a systemd mount unit: one that
// nodeagent owns (already written by a WriteFile of the same plan) or one that
// systemd made of an fstab entry.
type Mount struct {
	Unit   string `json:"unit"` // var-lib-kubelet.mount
	Label  string `json:"label"`
	UUID   string `json:"uuid,omitempty"` // checked when known
	Target string `json:"target"`
	Type   string `json:"type"`
	// Foreign is set when the unit isn't ours: it is started, not enabled.
	Foreign bool `json:"foreign,omitempty"`
}

func (c Mount) ID() string      { return "mount:" + c.Target }
func (c Mount) Summary() string { return fmt.Sprintf("mount LABEL=%s on %s", c.Label, c.Target) }
func (c Mount) Diff() string    { return "" }
func (c Mount) Class() Class    { return Additive }

// Relabel gives a filesystem that has no SELinux labels those of the policy,
// below a path. One that has labels is left alone: containers' own live in it.
type Relabel struct {
	Path string `json:"path"`
}

func (c Relabel) ID() string { return "relabel:" + c.Path }
func (c Relabel) Summary() string {
	return "restore SELinux labels below " + c.Path + " if the filesystem has none"
}
func (c Relabel) Diff() string { return "" }
func (c Relabel) Class() Class { return Reversible }

// AllowPorts lets traffic in: in one firewalld zone, either live or in the
// permanent configuration, or by live rules of iptables of one family.
type AllowPorts struct {
	Backend    string   `json:"backend"` // firewalld, firewalld-offline, iptables-nft, iptables-legacy
	Zone       string   `json:"zone,omitempty"`
	Permanent  bool     `json:"permanent"` // false: the running rules
	Ports      []string `json:"ports,omitempty"`
	Protocols  []string `json:"protocols,omitempty"`
	Sources    []string `json:"sources,omitempty"`    // traffic from them is judged by the zone
	Interfaces []string `json:"interfaces,omitempty"` // the same for interfaces; "lxc+" is a prefix
	Forward    bool     `json:"forward,omitempty"`    // between the zone's own interfaces and sources
	Why        string   `json:"why,omitempty"`        // why this zone

	Family string   `json:"family,omitempty"` // iptables: ipv4, ipv6
	Rules  []string `json:"rules,omitempty"`  // iptables: to be added to the filter table, each where it has an effect
	Node   string   `json:"node,omitempty"`   // iptables: the node's interface
}

func (c AllowPorts) ID() string {
	switch {
	case c.Family != "":
		return "firewall:" + c.Backend + ":" + c.Family
	case c.Permanent:
		return "firewall:" + c.Zone + ":permanent"
	}
	return "firewall:" + c.Zone + ":runtime"
}
func (c AllowPorts) Summary() string {
	if c.Family != "" {
		return fmt.Sprintf("insert %d rule(s) into the live filter table for %s (%s)", len(c.Rules), c.Family, c.Backend)
	}
	when := "now"
	if c.Permanent {
		when = "permanently"
	}
	var what []string
	for _, group := range []struct {
		name string
		list []string
	}{{"", c.Ports}, {"protocol ", c.Protocols}, {"from ", c.Sources}, {"interface ", c.Interfaces}} {
		if len(group.list) > 0 {
			what = append(what, group.name+strings.Join(group.list, " "))
		}
	}
	if c.Forward {
		what = append(what, "forwarding inside the zone")
	}
	return fmt.Sprintf("allow in zone %s %s: %s", c.Zone, when, strings.Join(what, ", "))
}
func (c AllowPorts) Diff() string {
	if len(c.Rules) > 0 {
		return strings.Join(c.Rules, "\n") + "\n"
	}
	return c.Why
}
func (c AllowPorts) Class() Class { return Additive }

// WaitRoute waits for a default route and a global address on its link.
type WaitRoute struct {
	Family  string        `json:"family"` // any, ipv4, ipv6
	Timeout time.Duration `json:"timeout"`
}

func (c WaitRoute) ID() string { return "route" }
func (c WaitRoute) Summary() string {
	return fmt.Sprintf("wait up to %s for a default route (%s)", c.Timeout, c.Family)
}
func (c WaitRoute) Diff() string { return "" }
func (c WaitRoute) Class() Class { return Wait }

// FetchToken reads the token document into memory, nowhere else.
type FetchToken struct {
	File string `json:"file,omitempty"`
	// Inline is set when the config itself holds the document.
	Inline string `json:"-"`
}

func (c FetchToken) ID() string { return "token" }
func (c FetchToken) Summary() string {
	if c.File != "" {
		return "read the join token from " + c.File
	}
	return "take the join token from the configuration"
}
func (c FetchToken) Diff() string { return "" }
func (c FetchToken) Class() Class { return Wait }

// Join runs kubeadm join with the token in memory.
type Join struct {
	NodeName              string        `json:"nodeName"`
	Endpoint              string        `json:"endpoint,omitempty"` // overrides the document's
	CACertHashes          []string      `json:"caCertHashes,omitempty"`
	CACert                string        `json:"caCert,omitempty"` // PEM
	Socket                string        `json:"criSocket"`
	PatchDirectory        string        `json:"patchDirectory,omitempty"`
	KubeletArgs           []NameValue   `json:"kubeletExtraArgs,omitempty"`
	Taints                []NodeTaint   `json:"taints,omitempty"`
	IgnorePreflightErrors []string      `json:"ignorePreflightErrors,omitempty"`
	Timeout               time.Duration `json:"timeout"`
	Resume                bool          `json:"resume,omitempty"` // leftovers of an earlier, failed join of ours are removed first
	KubernetesVersion     string        `json:"kubernetesVersion"`
}

// NameValue is one kubelet flag.
type NameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NodeTaint is one taint.
type NodeTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func (c Join) ID() string { return "join" }
func (c Join) Summary() string {
	if c.Endpoint == "" {
		return "join the cluster as node " + c.NodeName
	}
	return fmt.Sprintf("join the cluster at %s as node %s", c.Endpoint, c.NodeName)
}
func (c Join) Diff() string { return "" }
func (c Join) Class() Class { return Additive }

// WaitReady waits until the API server says this node is Ready.
type WaitReady struct {
	NodeName string        `json:"nodeName"`
	Timeout  time.Duration `json:"timeout"`
	// After is when kubelet was last started: what the API server says of the
	// time before, as after a reboot, doesn't count.
	After time.Time `json:"after,omitzero"`
}

func (c WaitReady) ID() string { return "ready" }
func (c WaitReady) Summary() string {
	return fmt.Sprintf("wait up to %s for node %s to be Ready", c.Timeout, c.NodeName)
}
func (c WaitReady) Diff() string { return "" }
func (c WaitReady) Class() Class { return Wait }

// RunHook runs one of the user's own commands with /bin/sh, once per host.
type RunHook struct {
	When    string `json:"when"` // preJoin, postJoin
	Command string `json:"command"`
	Marker  string `json:"marker"` // written when it succeeded
}

func (c RunHook) ID() string      { return "hook:" + c.Marker }
func (c RunHook) Summary() string { return fmt.Sprintf("run %s hook: %s", c.When, c.Command) }
func (c RunHook) Diff() string    { return "" }
func (c RunHook) Class() Class    { return Additive }

func (WriteFile) sealed()       {}
func (RemoveFile) sealed()      {}
func (SetHostname) sealed()     {}
func (ProbeRepository) sealed() {}
func (ImportKeys) sealed()      {}
func (InstallPackages) sealed() {}
func (InstallArchive) sealed()  {}
func (SwapOff) sealed()         {}
func (MaskUnit) sealed()        {}
func (SetUnit) sealed()         {}
func (LoadModule) sealed()      {}
func (SetSysctl) sealed()       {}
func (MakeFilesystem) sealed()  {}
func (Mount) sealed()           {}
func (Relabel) sealed()         {}
func (AllowPorts) sealed()      {}
func (WaitRoute) sealed()       {}
func (FetchToken) sealed()      {}
func (Join) sealed()            {}
func (WaitReady) sealed()       {}
func (RunHook) sealed()         {}
