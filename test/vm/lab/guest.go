package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Guest is a virtual machine on the lab's LAN.
type Guest struct {
	Name     string // also its host name, unless HostName says otherwise
	HostName string
	Addr     string // given by DHCP
	Memory   int    // MiB
	Disks    []*Disk

	// LateLease leaves DHCP silent until Lease is called.
	LateLease bool
	// NetBoot lets the network card's iPXE ask DHCP what to boot.
	NetBoot bool
	// Clock is what the machine's clock says at power-on, such as
	// 2036-12-07T00:00:00 (UTC); empty: the time.
	Clock string
	// Durable makes the system disk keep what the guest has flushed, and only
	// that for sure, when the current is cut; it is slower. Data disks always do.
	Durable bool

	lab     *Lab
	dir     string
	root    string // the image that can't be written, of an immutable guest
	tap     string
	mac     string
	seed    []File
	scsi    []*SCSIDisk
	boots   int
	drops   int
	process *process
	master  *process // the shared ssh connection of this boot
}

// Disk is a data disk of a guest.
type Disk struct {
	Path   string // the image on the lab machine
	Serial string // empty: the guest sees no identity but the slot
}

// NewGuest makes a machine of the flavour, switched off.
func (l *Lab) NewGuest(ctx context.Context, f Flavour, name string) (*Guest, error) {
	assets, ok := l.Assets.Flavours[f.Name]
	if !ok {
		return nil, fmt.Errorf("flavour %s wasn't prepared", f.Name)
	}
	if l.accel == nil {
		l.chooseAccel(ctx)
		l.Log.Printf("guests run with %s", strings.Join(l.accel, " "))
	}
	l.mu.Lock()
	l.guests++
	n := l.guests
	l.mu.Unlock()
	g := &Guest{Name: name, HostName: name, Addr: fmt.Sprintf("192.0.2.%d", 9+n), Memory: 3072,
		lab: l, dir: filepath.Join(l.RunDir, name), tap: fmt.Sprintf("tap%d", n), mac: fmt.Sprintf("52:54:00:00:02:%02x", n)}
	if err := os.MkdirAll(filepath.Join(g.dir, "seed"), 0o755); err != nil {
		return nil, err
	}
	if err := l.addTap(ctx, g.tap); err != nil {
		return nil, err
	}
	backing := filepath.Join(assets, "root.img")
	if f.ReadOnly {
		g.root, backing = backing, filepath.Join(assets, "state.img")
	}
	_, err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", backing, g.systemImage())
	return g, err
}

// systemImage is the guest's own layer over what its flavour can write.
func (g *Guest) systemImage() string { return filepath.Join(g.dir, "root.qcow2") }

// AddDisk attaches a blank disk from the next boot on.
func (g *Guest) AddDisk(gib int, serial string) (*Disk, error) {
	d := &Disk{Path: filepath.Join(g.dir, fmt.Sprintf("disk%d.img", len(g.Disks)+1)), Serial: serial}
	f, err := os.Create(d.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g.Disks = append(g.Disks, d)
	return d, f.Truncate(int64(gib) << 30)
}

// SwapDisks makes the next boot attach the data disks in the opposite order, so
// that every kernel name and by-path link means another disk than before.
func (g *Guest) SwapDisks() { slices.Reverse(g.Disks) }

// Seed puts files into the guest's root before the system of the next boot
// starts, as an installer would have.
func (g *Guest) Seed(files ...File) { g.seed = append(g.seed, files...) }

// Boot switches the machine on. It doesn't wait for anything.
func (g *Guest) Boot(ctx context.Context) error {
	if g.Running() {
		return fmt.Errorf("%s is running", g.Name)
	}
	if !g.LateLease {
		if err := g.Lease(); err != nil {
			return err
		}
	} else {
		os.Remove(filepath.Join(g.lab.leaseDir(), g.Name))
	}
	if err := g.writeSeed(); err != nil {
		return err
	}
	g.boots++
	p, err := g.lab.spawn(g.Name, "qemu-system-x86_64", g.qemuArgs()...)
	g.process = p
	return err
}

// writeSeed writes what the initrd unpacks over the root. Each seed is unpacked
// by one boot only: later ones must find what the guest made of it.
func (g *Guest) writeSeed() error {
	files := g.seed
	if g.boots == 0 {
		files = append([]File{
			{Path: "/etc/hostname", Content: g.HostName + "\n"},
			{Path: "/etc/hosts", Content: "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t" + g.HostName + "\n"},
		}, files...)
	}
	g.seed = nil
	f, err := os.Create(filepath.Join(g.dir, "seed", "seed.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if len(files) == 0 {
		return nil // an empty file is no seed
	}
	return writeTar(f, files)
}

func (g *Guest) qemuArgs() []string {
	args := slices.Concat(g.lab.accel, []string{
		"-name", g.Name, "-machine", "q35", "-smp", "2", "-m", fmt.Sprint(g.Memory),
		"-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:" + g.Console(),
		"-qmp", "unix:" + g.qmpSocket() + ",server=on,wait=off",
		"-device", "virtio-rng-pci",
		"-netdev", "tap,id=net0,ifname=" + g.tap + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net0,addr=0x10,mac=" + g.mac + g.netROM(),
		"-fsdev", "local,id=seed,security_model=none,readonly=on,path=" + filepath.Join(g.dir, "seed"),
		"-device", "virtio-9p-pci,fsdev=seed,mount_tag=labseed,addr=0x11",
		"-drive", "if=none,id=root,format=qcow2,cache=" + g.cache() + ",file=" + g.systemImage(),
		"-device", "virtio-blk-pci,drive=root,addr=0x12",
	})
	if g.Clock != "" {
		args = append(args, "-rtc", "base="+g.Clock)
	}
	if !g.NetBoot {
		args = append(args, "-kernel", g.lab.Assets.Vmlinuz, "-initrd", g.lab.Assets.Initrd, "-append", g.KernelArguments())
	}
	if g.root != "" {
		args = append(args, "-drive", "if=none,id=os,format=raw,readonly=on,file="+g.root, "-device", "virtio-blk-pci,drive=os,addr=0xf")
	}
	for i, d := range g.Disks {
		device := fmt.Sprintf("virtio-blk-pci,drive=d%d,addr=0x%x", i, 0x13+i)
		if d.Serial != "" {
			device += ",serial=" + d.Serial
		}
		// cache=writeback survives kill -9 of qemu: what the guest flushed is in the page cache.
		args = append(args, "-drive", fmt.Sprintf("if=none,id=d%d,format=raw,cache=writeback,discard=unmap,file=%s", i, d.Path),
			"-device", device)
	}
	return append(args, g.scsiArgs()...)
}

// netROM leaves the card the iPXE that qemu gives it, or takes it away. The BIOS
// runs only the ROM that holds both kinds of firmware, which is qemu's default.
func (g *Guest) netROM() string {
	if g.NetBoot {
		return ",bootindex=1"
	}
	return ",romfile="
}

func (g *Guest) cache() string {
	if g.Durable {
		return "writeback"
	}
	return "unsafe"
}

func (g *Guest) rootMode() string {
	if g.root != "" {
		return "ro"
	}
	return "rw"
}

// Console is the file with the serial console's output of the last boot.
func (g *Guest) Console() string {
	return filepath.Join(g.dir, fmt.Sprintf("console-%d.log", g.boots))
}

func (g *Guest) qmpSocket() string { return filepath.Join(g.dir, "qmp") }

// Running says whether the machine is on.
func (g *Guest) Running() bool { return g.process != nil && g.process.alive() == nil }

// WaitSSH waits until a shell can be had.
func (g *Guest) WaitSSH(ctx context.Context, limit time.Duration) error {
	err := WaitFor(ctx, g.Name+" to answer on ssh", limit, func(ctx context.Context) error {
		if err := g.process.alive(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_, err := g.Run(ctx, "true")
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; console: %s", err, g.Console())
	}
	return g.shareSSH(ctx)
}

// PowerOff shuts the system down and waits until the machine is off.
func (g *Guest) PowerOff(ctx context.Context) error {
	// The connection ends with the guest: its error says nothing.
	g.Run(ctx, "systemctl poweroff")
	return g.waitOff(ctx)
}

// Reboot restarts the system; disks, seed and lease are as set for the new boot.
func (g *Guest) Reboot(ctx context.Context) error {
	// With -no-reboot the machine ends where a real one would start anew.
	g.Run(ctx, "systemctl reboot")
	if err := g.waitOff(ctx); err != nil {
		return err
	}
	return g.Boot(ctx)
}

// PowerCut takes the current away.
func (g *Guest) PowerCut() {
	if g.Running() {
		g.process.kill()
	}
	g.dropSSH()
}

// dropSSH ends the shared connection to a boot that is over.
func (g *Guest) dropSSH() {
	if g.master != nil {
		g.master.kill()
		g.master = nil
	}
}

func (g *Guest) waitOff(ctx context.Context) error {
	defer g.dropSSH()
	select {
	case <-g.process.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Minute):
		return errors.New(g.Name + " didn't shut down; console: " + g.Console())
	}
}
