package change

import "fmt"

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

// Mount mounts a filesystem by label, or what is no data disk by its source,
// through a systemd mount unit: one that nodeagent owns (already written by a
// WriteFile of the same plan) or one that systemd made of an fstab entry.
type Mount struct {
	Unit   string `json:"unit"` // var-lib-kubelet.mount
	Label  string `json:"label,omitempty"`
	Source string `json:"source,omitempty"` // instead of a label: server:/export, tmpfs, a directory
	UUID   string `json:"uuid,omitempty"`   // checked when known
	Target string `json:"target"`
	Type   string `json:"type"`
	// Foreign is set when the unit isn't ours: it is started, not enabled.
	Foreign bool `json:"foreign,omitempty"`
}

func (c Mount) ID() string { return "mount:" + c.Target }
func (c Mount) Summary() string {
	if c.Source != "" {
		return fmt.Sprintf("mount %s on %s (%s)", c.Source, c.Target, c.Type)
	}
	return fmt.Sprintf("mount LABEL=%s on %s", c.Label, c.Target)
}
func (c Mount) Diff() string { return "" }
func (c Mount) Class() Class { return Additive }

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

// EmptyFilesystem deletes every file of a filesystem that is mounted at Target,
// once in the life of a system disk: Marker, which lies there, says that it was
// done. The filesystem itself stays.
type EmptyFilesystem struct {
	Disk   string `json:"disk"` // the name in the config
	UUID   string `json:"uuid"`
	Target string `json:"target"`
	Marker string `json:"marker"`
}

func (c EmptyFilesystem) ID() string { return "empty:" + c.Target }
func (c EmptyFilesystem) Summary() string {
	return fmt.Sprintf("DELETE all files on %s (%s), once", c.Target, c.Disk)
}
func (c EmptyFilesystem) Diff() string { return "filesystem uuid " + c.UUID }
func (c EmptyFilesystem) Class() Class { return Destructive }
