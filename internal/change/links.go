package change

// LinkDisk lets udev make the link of a raw disk, by rules that are there
// already. Nothing is written to the disk.
type LinkDisk struct {
	Disk   string `json:"disk"`   // the name in the config
	Link   string `json:"link"`   // below /dev/disk/by-capv
	Device string `json:"device"` // another stable link of the disk: by-id or by-path
	Size   int64  `json:"size"`
	Holds  string `json:"holds,omitempty"` // what is on the disk, for people
	// Instead is a stable link of the device that the link leads to now.
	Instead string `json:"instead,omitempty"`
}

func (c LinkDisk) ID() string { return "link:" + c.Link }
func (c LinkDisk) Summary() string {
	s := "link " + c.Link + " to " + c.Device + " (" + Size(c.Size) + ", raw)"
	if c.Instead != "" {
		s += " and no more to " + c.Instead
	}
	if c.Holds != "" {
		s += "; what is on it stays: " + c.Holds
	}
	return s
}
func (c LinkDisk) Diff() string { return "" }
func (c LinkDisk) Class() Class { return Additive }

// UnlinkDisk lets udev forget the link of a raw disk, whose rule is gone.
type UnlinkDisk struct {
	Link   string `json:"link"`
	Device string `json:"device"` // another stable link of the disk, or its node
}

func (c UnlinkDisk) ID() string { return "unlink:" + c.Link }
func (c UnlinkDisk) Summary() string {
	return "forget the link " + c.Link + "; " + c.Device + " stays as it is"
}
func (c UnlinkDisk) Diff() string { return "" }
func (c UnlinkDisk) Class() Class { return Reversible }
