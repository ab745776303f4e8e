// Package disk decides which device is whose, what is on it, whether it is
// formatted, and how it is mounted. Data is worth more than a joined node:
// whatever isn't provably right is refused with the evidence.
package disk

import (
	"path/filepath"
	"sort"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
)

// Facts is what is observed for the step.
type Facts struct {
	// Observed is false when only a tree of files is at hand: then nothing is
	// known of devices.
	Observed  bool                 `json:"observed"`
	MachineID string               `json:"machineID,omitempty"`
	SELinux   string               `json:"selinux,omitempty"`
	Devices   []host.BlockDevice   `json:"devices,omitempty"`
	Mounts    []host.Mount         `json:"mounts,omitempty"`  // at the configured mount paths
	Targets   map[string]Target    `json:"targets,omitempty"` // by mount path
	Fstab     host.Text            `json:"fstab"`
	Files     map[string]host.Text `json:"files,omitempty"` // our units and drop-ins, by path
	Units     map[string]host.Unit `json:"units,omitempty"` // nil when systemd can't be asked
	// Emptied is the disks that were emptied once on this system disk, by name.
	Emptied map[string]bool `json:"emptied,omitempty"`
	Joined  bool            `json:"joined,omitempty"` // the host belongs to a cluster
	// Udev is what udev knows of the devices of raw disks, by kernel name.
	Udev map[string]map[string]string `json:"udev,omitempty"`
	// Rules are those of others that make links below /dev/disk/by-capv.
	Rules []udev.Rule `json:"rules,omitempty"`
	// Unfinished is the formats that the journal holds an intent for, but not
	// that they were done; by change id.
	Unfinished map[string]change.MakeFilesystem `json:"unfinished,omitempty"`
}

// Target is a mount point as it is.
type Target struct {
	Link  string `json:"link,omitempty"`  // the first symbolic link on the way, "PATH -> TARGET"
	File  bool   `json:"file,omitempty"`  // it exists and is not a directory
	Files int    `json:"files,omitempty"` // files below it that a mount would hide; counting stops at 1000
	// Index counts files besides those: what an idle containerd has made.
	Index int `json:"index,omitempty"`
	// Samples are a few of those files.
	Samples []string `json:"samples,omitempty"`
	SELinux string   `json:"selinux,omitempty"` // context of what is mounted there
	// ReadOnly says why the directory, which isn't there, can't be made.
	ReadOnly string `json:"readOnly,omitempty"`
}

const unitDir = "/etc/systemd/system"

// MountUnit is the name of the mount unit of a path: systemd.mount(5).
func MountUnit(path string) string { return unit.UnitNamePathEscape(path) + ".mount" }

// dropIn is where a service learns which mounts it needs.
func dropIn(service string) string {
	return filepath.Join(unitDir, service+".d", "10-nodeagent-mounts.conf")
}

// services must not start without the disks they write to.
var services = []string{"kubelet.service", "containerd.service"}

// below tells whether path is dir or lies below it.
func below(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// parentsFirst returns the disks in the order in which they are mounted.
func parentsFirst(disks []config.Disk) []config.Disk {
	out := append([]config.Disk(nil), disks...)
	sort.SliceStable(out, func(i, j int) bool {
		return strings.Count(out[i].MountPath, "/") < strings.Count(out[j].MountPath, "/")
	})
	return out
}

// mountAt returns what is mounted on a path now: the last of several. An
// automount point alone holds nothing.
func (f Facts) mountAt(path string) (host.Mount, bool) {
	for i := len(f.Mounts) - 1; i >= 0; i-- {
		if m := f.Mounts[i]; m.Target == path && m.Type != "autofs" {
			return m, true
		}
	}
	return host.Mount{}, false
}

// mounted tells whether the whole filesystem of d, of the wanted type, is what
// is mounted on the disk's path.
func (f Facts) mounted(d config.Disk, dev host.BlockDevice) bool {
	m, ok := f.mountAt(d.MountPath)
	if !ok || m.Type != d.Filesystem.Type || m.Root != "" && m.Root != "/" {
		return false
	}
	for _, at := range dev.Mounts {
		if at == d.MountPath {
			return m.Source == dev.Path || m.Device == "" || dev.Device == "" || m.Device == dev.Device
		}
	}
	return false
}
