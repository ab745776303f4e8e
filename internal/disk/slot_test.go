package disk

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// vmdk is a blank disk in a slot of a VMware SCSI controller.
func vmdk(name string, controller, unit int, uuid string) host.BlockDevice {
	x := blankDisk(name, unit)
	x.ByPath = []string{fmt.Sprintf("/dev/disk/by-path/pci-0000:0%d:00.0-scsi-0:0:%d:0", controller, unit)}
	if uuid != "" {
		x.WWN = "0x" + uuid
		x.ByID = []string{"/dev/disk/by-id/scsi-3" + uuid, "/dev/disk/by-id/wwn-0x" + uuid}
	}
	return x
}

const uuidA, uuidB = "6000c29d1f247b0c9a365d2e8f4b1c70", "6000c29d1f247b0c9a365d2e8f4b1c71"

func TestADiskIsFoundByItsSCSIUnit(t *testing.T) {
	unit := 2
	d := kubeletDisk(config.DiskSelect{SCSIUnit: &unit})
	f := facts(vmdk("sdb", 3, 1, ""), vmdk("sdc", 3, 2, ""), vmdk("sdd", 3, 12, ""))
	require.Equal(t, map[string]string{"kubelet": "/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:2:0"}, formats(plan(f, d)))

	refused(t, plan(facts(vmdk("sdb", 3, 2, ""), vmdk("sdc", 4, 2, "")), d), "scsiUnit 2 is true of 2 devices")
	require.ErrorContains(t, plan(facts(vmdk("sdb", 3, 1, "")), d).Blocked[0], "no device has scsiUnit 2")
}

func TestADiskIsFoundByTheUUIDThatItsHypervisorGivesIt(t *testing.T) {
	for _, spelt := range []string{uuidA, "6000C29d-1f24-7b0c-9a36-5d2e8f4b1c70", "6000C29D 1F247B0C-9A365D2E8F4B1C70"} {
		f := facts(vmdk("sdb", 3, 1, uuidB), vmdk("sdc", 3, 2, uuidA))
		require.Equal(t, map[string]string{"kubelet": "/dev/disk/by-id/wwn-0x" + uuidA}, formats(plan(f, kubeletDisk(config.DiskSelect{DiskUUID: spelt}))), spelt)
	}
	bySerial := vmdk("sdc", 3, 2, "")
	bySerial.Serial = "6000C29d1f247b0c9a365d2e8f4b1c70"
	require.Len(t, formats(plan(facts(bySerial), kubeletDisk(config.DiskSelect{DiskUUID: uuidA}))), 1)
}

func TestThePathsOfAMultipathDeviceAreNotTakenInItsPlace(t *testing.T) {
	a, b := vmdk("sdb", 3, 1, uuidA), vmdk("sdc", 4, 1, uuidA)
	a.Children, b.Children = []string{"dm-0"}, []string{"dm-0"}
	a.FSType, b.FSType = "mpath_member", "mpath_member"
	m := host.BlockDevice{Name: "dm-0", Path: "/dev/dm-0", Type: "mpath", Size: 100 * gib, ByID: []string{"/dev/disk/by-id/dm-uuid-mpath-3" + uuidA}, Probed: true}
	d := kubeletDisk(config.DiskSelect{DiskUUID: uuidA})
	p := plan(facts(a, b, holding(m, "xfs", "kubelet")), d)
	require.Empty(t, p.Blocked)
	require.Empty(t, formats(p))
	require.Contains(t, ids(p), "mount:/var/lib/kubelet")

	refused(t, plan(facts(a, b, m), d), "only whole disks and partitions are formatted, and it is of type mpath")
	a.Children, b.Children = nil, nil
	a.FSType, b.FSType = "", ""
	refused(t, plan(facts(a, b), d), "is true of 2 devices")
}
