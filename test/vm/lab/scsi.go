package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// SCSIDisk is a disk on the guest's SCSI bus, which has room for as many as
// anybody wants and where disks can be added and taken away while the guest
// runs.
type SCSIDisk struct {
	Path       string
	Serial     string
	WWN        uint64
	ReadOnly   bool
	Removable  bool
	Shared     bool    // another disk of the guest has the same image
	BadSectors []int64 // 512-byte sectors at which a read fails
	Late       bool    // not there before Plug
}

// Link is the disk's name in the guest.
func (d *SCSIDisk) Link() string {
	if d.WWN != 0 {
		return fmt.Sprintf("/dev/disk/by-id/wwn-0x%016x", d.WWN)
	}
	return "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_" + d.Serial
}

// AddSCSI attaches a disk from the next boot on. Without a path of its own it
// gets a blank image of that many MiB.
func (g *Guest) AddSCSI(d SCSIDisk, mib int) (*SCSIDisk, error) {
	g.scsi = append(g.scsi, &d)
	if d.Path != "" {
		return &d, nil
	}
	d.Path = filepath.Join(g.dir, "scsi-"+d.Serial+".img")
	if err := os.WriteFile(d.Path, nil, 0o600); err != nil {
		return nil, err
	}
	return &d, os.Truncate(d.Path, int64(mib)<<20)
}

// Plug gives a running guest a disk; Unplug takes it away, as when somebody
// pulls it out: the kernel isn't asked.
func (g *Guest) Plug(ctx context.Context, d *SCSIDisk) error {
	args, id := g.scsiDevice(d)
	if _, err := g.qmp(ctx, "blockdev-add", g.blockdev(d)); err != nil {
		return err
	}
	args["id"] = id
	_, err := g.qmp(ctx, "device_add", args)
	return err
}

// Unplug is the contrary of Plug.
func (g *Guest) Unplug(ctx context.Context, d *SCSIDisk) error {
	_, id := g.scsiDevice(d)
	if _, err := g.qmp(ctx, "device_del", map[string]any{"id": id}); err != nil {
		return err
	}
	// The machine lets go of the image a moment later.
	return WaitFor(ctx, "the image of "+d.Serial+" to be free", 30*time.Second, func(ctx context.Context) error {
		_, err := g.qmp(ctx, "blockdev-del", map[string]any{"node-name": "node-" + id})
		return err
	})
}

// Throttle lets a disk take so many bytes a second; 0 ends that.
func (g *Guest) Throttle(ctx context.Context, d *SCSIDisk, bytes int64) error {
	_, id := g.scsiDevice(d)
	_, err := g.qmp(ctx, "block_set_io_throttle", map[string]any{"id": id, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0})
	return err
}

func (g *Guest) scsiDevice(d *SCSIDisk) (args map[string]any, id string) {
	n := 0
	for i, x := range g.scsi {
		if x == d {
			n = i
		}
	}
	id = fmt.Sprintf("scsi%d", n)
	args = map[string]any{"driver": "scsi-hd", "bus": "scsi.0", "scsi-id": n, "drive": "node-" + id, "id": id, "serial": d.Serial, "removable": d.Removable, "share-rw": d.Shared}
	if d.WWN != 0 {
		args["wwn"] = d.WWN
	}
	return args, id
}

// blockdev is qemu's description of the image behind a disk.
func (g *Guest) blockdev(d *SCSIDisk) map[string]any {
	_, id := g.scsiDevice(d)
	file := map[string]any{"driver": "file", "filename": d.Path, "discard": "unmap"}
	if d.Shared {
		file["locking"] = "off"
	}
	if len(d.BadSectors) > 0 {
		var errors []any
		for _, s := range d.BadSectors {
			errors = append(errors, map[string]any{"event": "read_aio", "iotype": "read", "errno": 5, "sector": s})
		}
		file = map[string]any{"driver": "blkdebug", "image": file, "inject-error": errors}
	}
	return map[string]any{"driver": "raw", "node-name": "node-" + id, "read-only": d.ReadOnly, "file": file}
}

// scsiArgs are the arguments for the disks that are there at the boot.
func (g *Guest) scsiArgs() []string {
	if len(g.scsi) == 0 {
		return nil
	}
	args := []string{"-device", "virtio-scsi-pci,id=scsi,addr=0x0f"}
	for _, d := range g.scsi {
		if !d.Late {
			device, _ := g.scsiDevice(d)
			args = append(args, "-blockdev", jsonText(g.blockdev(d)), "-device", jsonText(device))
		}
	}
	return args
}

// SCSI lists the disks on the bus, in the order of their units.
func (g *Guest) SCSI() []*SCSIDisk { return g.scsi }
