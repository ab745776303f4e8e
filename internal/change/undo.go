package change

import (
	"fmt"
	"strings"
)

// The kinds of a reset. What a reset gives back with an ordinary change (an old
// file, a sysctl's old value) has no kind of its own.

// RestoreFile puts back a file that others may not read, from the copy that was
// kept when nodeagent wrote it (Keepsake). The copy goes with it.
type RestoreFile struct {
	Path string `json:"path"`
}

func (c RestoreFile) ID() string      { return "restore:" + c.Path }
func (c RestoreFile) Summary() string { return "put back " + c.Path + " as it was" }
func (c RestoreFile) Diff() string    { return "(secret content)" }
func (c RestoreFile) Class() Class    { return Reversible }

// SwapOn uses a swap area again, by its unit when systemd has one.
type SwapOn struct {
	Area string `json:"area"`
	Unit string `json:"unit"`
}

func (c SwapOn) ID() string      { return "swapon:" + c.Area }
func (c SwapOn) Summary() string { return "swap on " + c.Area + " (" + c.Unit + ")" }
func (c SwapOn) Diff() string    { return "" }
func (c SwapOn) Class() Class    { return Reversible }

// UnmaskUnit takes a mask away and puts the unit file back that it hid.
type UnmaskUnit struct {
	Unit string `json:"unit"`
}

func (c UnmaskUnit) ID() string      { return "unmask:" + c.Unit }
func (c UnmaskUnit) Summary() string { return "unmask " + c.Unit }
func (c UnmaskUnit) Diff() string    { return "" }
func (c UnmaskUnit) Class() Class    { return Reversible }

// RemoveKeys drops signing keys from the RPM database.
type RemoveKeys struct {
	Repository string   `json:"repository"`
	Keys       []string `json:"keys"` // version-release of gpg-pubkey packages
}

func (c RemoveKeys) ID() string { return "dropkeys:" + c.Repository }
func (c RemoveKeys) Summary() string {
	return fmt.Sprintf("drop %d signing key(s) of repository %s from the RPM database", len(c.Keys), c.Repository)
}
func (c RemoveKeys) Diff() string { return "" }
func (c RemoveKeys) Class() Class { return Reversible }

// RemovePackages removes packages that nodeagent installed, and what came with
// them and nothing else needs.
type RemovePackages struct {
	Manager  string   `json:"manager"`
	Packages []string `json:"packages"` // names
}

func (c RemovePackages) ID() string { return "remove-packages" }
func (c RemovePackages) Summary() string {
	return fmt.Sprintf("remove %d package(s) with %s: %s", len(c.Packages), c.Manager, strings.Join(c.Packages, " "))
}
func (c RemovePackages) Diff() string { return "" }
func (c RemovePackages) Class() Class { return Removal }

// RemoveArchive removes the files that were unpacked from an archive and are
// still as they were unpacked, and then its marker.
type RemoveArchive struct {
	URL    string `json:"url"`
	Marker string `json:"marker"`
	Files  int    `json:"files"`
}

func (c RemoveArchive) ID() string { return "remove-archive:" + c.URL }
func (c RemoveArchive) Summary() string {
	return fmt.Sprintf("remove %d file(s) that were unpacked from %s", c.Files, c.URL)
}
func (c RemoveArchive) Diff() string { return "" }
func (c RemoveArchive) Class() Class { return Removal }

// ClosePorts takes back what an AllowPorts let in, one thing at a time.
type ClosePorts AllowPorts

func (c ClosePorts) ID() string { return "close-" + AllowPorts(c).ID() }
func (c ClosePorts) Summary() string {
	if c.Family != "" {
		return fmt.Sprintf("delete %d rule(s) of nodeagent's from the live filter table for %s (%s)", len(c.Rules), c.Family, c.Backend)
	}
	return strings.Replace(AllowPorts(c).Summary(), "allow in zone", "take back in zone", 1)
}
func (c ClosePorts) Diff() string {
	if len(c.Rules) > 0 {
		return strings.Join(c.Rules, "\n") + "\n"
	}
	return ""
}
func (c ClosePorts) Class() Class { return Reversible }

// Unmount unmounts what a Mount mounted and disables its unit. The filesystem
// and all it holds stay.
type Unmount struct {
	Unit   string   `json:"unit"`
	Target string   `json:"target"`
	Dirs   []string `json:"dirs,omitempty"`   // made for the mount: removed when empty; deepest last
	Source string   `json:"source,omitempty"` // of a mount that is no data disk
}

func (c Unmount) ID() string { return "unmount:" + c.Target }
func (c Unmount) Summary() string {
	if c.Source != "" {
		return "unmount " + c.Source + " from " + c.Target
	}
	return "unmount " + c.Target + "; the data on it stays"
}
func (c Unmount) Diff() string { return "" }
func (c Unmount) Class() Class { return Reversible }

// StopPods stops and removes what runs in the runtime as pods.
type StopPods struct {
	Socket string   `json:"socket"`
	Pods   []string `json:"pods"` // namespace/name
}

func (c StopPods) ID() string      { return "pods" }
func (c StopPods) Summary() string { return fmt.Sprintf("stop %d pod(s)", len(c.Pods)) }
func (c StopPods) Diff() string    { return strings.Join(c.Pods, "\n") }
func (c StopPods) Class() Class    { return Removal }

// UnmountVolumes unmounts what kubelet mounted below its directory.
type UnmountVolumes struct {
	Targets []string `json:"targets"` // deepest first
}

func (c UnmountVolumes) ID() string { return "volumes" }
func (c UnmountVolumes) Summary() string {
	return fmt.Sprintf("unmount %d volume(s) of kubelet's", len(c.Targets))
}
func (c UnmountVolumes) Diff() string { return strings.Join(c.Targets, "\n") }
func (c UnmountVolumes) Class() Class { return Removal }

// RemoveState removes files and directories that a joined kubelet made. Nothing
// below a mount or behind a symbolic link is touched.
type RemoveState struct {
	Paths []string `json:"paths"`
	Dirs  []string `json:"dirs,omitempty"` // directories that were made for them: removed when empty
	What  string   `json:"-"`
}

func (c RemoveState) ID() string { return "state:" + c.Paths[0] }
func (c RemoveState) Summary() string {
	return fmt.Sprintf("remove %s (%d)", c.What, len(c.Paths))
}
func (c RemoveState) Diff() string { return strings.Join(c.Paths, "\n") }
func (c RemoveState) Class() Class { return Removal }

// CleanNetwork removes, each by its name, what kube-proxy, kubelet and the
// network plugin have put into the kernel.
type CleanNetwork struct {
	Chains   []string `json:"chains,omitempty"`   // "nft ipv4 nat KUBE-SERVICES"
	Tables   []string `json:"tables,omitempty"`   // of nftables: "ip kube-proxy"
	Services []string `json:"services,omitempty"` // of IPVS: "TCP 10.96.0.1:443"
	Links    []string `json:"links,omitempty"`
}

func (c CleanNetwork) ID() string { return "network" }
func (c CleanNetwork) Summary() string {
	var what []string
	for _, g := range []struct {
		list []string
		name string
	}{{c.Chains, "iptables chain(s)"}, {c.Tables, "nftables table(s)"}, {c.Services, "IPVS service(s)"}, {c.Links, "link(s)"}} {
		if len(g.list) > 0 {
			what = append(what, fmt.Sprintf("%d %s", len(g.list), g.name))
		}
	}
	return "remove the cluster's " + strings.Join(what, ", ")
}
func (c CleanNetwork) Diff() string {
	var all []string
	for _, list := range [][]string{c.Chains, c.Tables, c.Services, c.Links} {
		all = append(all, list...)
	}
	return strings.Join(all, "\n")
}
func (c CleanNetwork) Class() Class { return Removal }
