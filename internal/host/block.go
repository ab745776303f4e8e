package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/disk/label"
)

// linkDir is where udev keeps the stable names of block devices. It is a
// parameter of what looks there because not every machine that runs the tests
// has udev.
type linkDir string

const diskLinks linkDir = "/dev/disk"

// BlockDevices lists block devices with one call of lsblk, which asks udev's
// database; links, mounts and swap are read from /dev, mountinfo and
// /proc/swaps.
func (l *Linux) BlockDevices(ctx context.Context, settle bool) ([]BlockDevice, error) {
	if !l.Live() {
		return nil, ErrUnobservable
	}
	key := "blockdevices"
	if settle {
		key += " settled"
	}
	return once(l, key, func() ([]BlockDevice, error) {
		if settle {
			if err := l.settle(ctx); err != nil {
				return nil, err
			}
		}
		return l.blockDevices(ctx, diskLinks)
	})
}

// settle waits for udev's queue. systemd removes the file when it is empty, so
// that mostly no program is needed.
func (l *Linux) settle(ctx context.Context) error {
	if _, err := os.Stat("/run/udev/queue"); err != nil {
		return nil
	}
	// Its status says whether the queue emptied in time; either way what is
	// there now is what counts.
	_, err := l.exec(ctx, program{name: "udevadm", args: []string{"settle", "--timeout=10"}, timeout: 20 * time.Second})
	return err
}

func (l *Linux) blockDevices(ctx context.Context, dir linkDir) ([]BlockDevice, error) {
	r, err := l.must(ctx, program{name: "lsblk", args: []string{"--json", "--bytes", "--output", lsblkColumns}, timeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	devices, err := parseLsblk(r.stdout)
	if err != nil {
		return nil, err
	}
	mounts, err := l.Mounts()
	if err != nil {
		return nil, err
	}
	swaps, err := l.ReadFile("/proc/swaps")
	if err != nil {
		return nil, err
	}
	byID, byPath, byCAPV := dir.links("by-id"), dir.links("by-path"), dir.links("by-capv")
	for i := range devices {
		d := &devices[i]
		d.ByID, d.ByPath, d.ByCAPV = byID[d.Name], byPath[d.Name], byCAPV[d.Name]
		d.Mounts = mountedFrom(*d, mounts)
		d.Swap = slices.Contains(swapDevices(swaps), d.Name)
	}
	slices.SortStableFunc(devices, byPathOrder)
	return devices, nil
}

// links returns the sorted links of one kind by the kernel name of the device
// they lead to. A kind that no device has is no directory.
func (dir linkDir) links(kind string) map[string][]string {
	out := map[string][]string{}
	entries, err := os.ReadDir(filepath.Join(string(dir), kind))
	if err != nil {
		return out
	}
	for _, e := range entries {
		link := filepath.Join(string(dir), kind, e.Name())
		if target, err := filepath.EvalSymlinks(link); err == nil {
			out[filepath.Base(target)] = append(out[filepath.Base(target)], link)
		}
	}
	return out
}

// label is the link that udev makes of a filesystem's label.
func (dir linkDir) label(name string) string {
	return filepath.Join(string(dir), "by-label", label.Link(name))
}

// mountedFrom returns where a device is mounted. Some filesystems (btrfs) have
// a device number of their own in mountinfo, so the source counts too.
func mountedFrom(d BlockDevice, mounts []Mount) []string {
	var out []string
	for _, m := range mounts {
		if (m.Device == d.Device || m.Source == d.Path || strings.HasPrefix(m.Source, "/dev/") && realName(m.Source) == d.Name) && !slices.Contains(out, m.Target) {
			out = append(out, m.Target)
		}
	}
	return out
}

// realName is the kernel name behind a path below /dev.
func realName(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return filepath.Base(target)
	}
	return filepath.Base(path)
}

// swapDevices returns the kernel names of the devices in /proc/swaps.
func swapDevices(swaps []byte) []string {
	var out []string
	for line := range strings.Lines(string(swaps)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[0], "/dev/") {
			out = append(out, realName(f[0]))
		}
	}
	return out
}

// byPathOrder sorts by the first by-path link, then by-id, then the kernel
// name; devices without a link come last.
func byPathOrder(a, b BlockDevice) int {
	for _, links := range [][2][]string{{a.ByPath, b.ByPath}, {a.ByID, b.ByID}} {
		x, y := links[0], links[1]
		switch {
		case len(x) > 0 && len(y) > 0:
			return naturally(x[0], y[0])
		case len(x) > 0:
			return -1
		case len(y) > 0:
			return 1
		}
	}
	return naturally(a.Name, b.Name)
}

// naturally compares link names part by part, decimal parts by their value, so
// that scsi-0:0:2:0 comes before scsi-0:0:10:0. PCI's hexadecimal parts have
// one width, for which the order of bytes is that of values.
func naturally(a, b string) int {
	cut := func(r rune) bool { return strings.ContainsRune("-:./", r) }
	x, y := strings.FieldsFunc(a, cut), strings.FieldsFunc(b, cut)
	for i := range min(len(x), len(y)) {
		p, q := x[i], y[i]
		if decimal(p) && decimal(q) {
			p, q = strings.TrimLeft(p, "0"), strings.TrimLeft(q, "0")
			if len(p) != len(q) {
				return len(p) - len(q)
			}
		}
		if c := strings.Compare(p, q); c != 0 {
			return c
		}
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b)
}

func decimal(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
