package disk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

const gib = 1 << 30

// blankDisk is a provably blank whole disk in a slot.
func blankDisk(name string, slot int) host.BlockDevice {
	return host.BlockDevice{Name: name, Path: "/dev/" + name, Device: fmt.Sprintf("253:%d", 16*slot), Type: "disk", Size: 100 * gib,
		ByPath: []string{fmt.Sprintf("/dev/disk/by-path/pci-0000:00:%02x.0", slot)}, Probed: true}
}

// holding is that disk with a filesystem on it.
func holding(x host.BlockDevice, fstype, label string) host.BlockDevice {
	x.FSType, x.Label, x.FSUUID, x.NonZero, x.Signatures = fstype, label, "11111111-2222-3333-4444-555555555555", true, []string{fstype + "@0x0"}
	return x
}

func systemDisk() []host.BlockDevice {
	return []host.BlockDevice{
		{Name: "vda", Path: "/dev/vda", Device: "253:0", Type: "disk", Size: 40 * gib, PTType: "gpt", Children: []string{"vda1"}, Serial: "SYS", ByPath: []string{"/dev/disk/by-path/pci-0000:00:01.0"}},
		{Name: "vda1", Path: "/dev/vda1", Device: "253:1", Type: "part", Size: 40 * gib, Parent: "vda", FSType: "xfs", Mounts: []string{"/"}},
	}
}

func facts(devices ...host.BlockDevice) Facts {
	return Facts{Observed: true, MachineID: "4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b", SELinux: "disabled", Devices: append(systemDisk(), devices...),
		Targets: map[string]Target{}, Files: map[string]host.Text{}, Units: map[string]host.Unit{}}
}

// kubeletDisk is the usual disk with a selector of its own.
func kubeletDisk(s config.DiskSelect) config.Disk {
	return config.Disk{Name: "kubelet", Select: s, Filesystem: config.Filesystem{Type: "xfs", Label: "kubelet"}, MountPath: "/var/lib/kubelet"}
}

func anyBlank() config.DiskSelect { return config.DiskSelect{Blank: &config.Blank{MinSize: "90GiB"}} }

func plan(f Facts, disks ...config.Disk) change.Plan { return Plan(config.Spec{Disks: disks}, f) }

// ids is the plan as text: one id a line, and what blocks.
func ids(p change.Plan) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	for _, err := range p.Blocked {
		out = append(out, fmt.Sprintf("blocked %d: %v", fail.KindOf(err), err))
	}
	return strings.Join(out, "\n")
}

// formats is the device that each label is to be made on.
func formats(p change.Plan) map[string]string {
	out := map[string]string{}
	for _, c := range p.Changes {
		if m, ok := c.(change.MakeFilesystem); ok {
			out[m.Label] = m.Device
		}
	}
	return out
}

// refused requires that nothing is changed, with exit code 4 and this evidence.
func refused(t *testing.T, p change.Plan, evidence ...string) {
	t.Helper()
	require.NotEmpty(t, p.Blocked, ids(p))
	for _, c := range p.Changes {
		require.NotContains(t, []string{"MakeFilesystem", "Mount"}, change.Kind(c), c.ID())
	}
	for _, err := range p.Blocked {
		require.Equal(t, fail.Safety, fail.KindOf(err), err.Error())
		require.NotEmpty(t, fail.HintOf(err))
	}
	for _, e := range evidence {
		require.Contains(t, ids(p)+fail.HintOf(p.Blocked[0]), e)
	}
}

const rest = `
file:/etc/systemd/system/var-lib-kubelet.mount
file:/etc/systemd/system/kubelet.service.d/10-nodeagent-mounts.conf
mount:/var/lib/kubelet`

func TestABlankDiskIsFormattedMountedAndAwaited(t *testing.T) {
	p := plan(facts(blankDisk("vdb", 4)), kubeletDisk(anyBlank()))
	require.Equal(t, "mkfs:/dev/disk/by-path/pci-0000:00:04.0"+rest, ids(p))
	require.Equal(t, change.MakeFilesystem{Disk: "kubelet", Device: "/dev/disk/by-path/pci-0000:00:04.0", Size: 100 * gib, Type: "xfs", Label: "kubelet",
		UUID: fsUUID("4c1b7a1e0d3f4e6f9a5b2c8d7e6f5a4b", kubeletDisk(anyBlank()))}, p.Changes[0])
}

func TestD1AFilesystemOfTheWantedTypeAndLabelIsAdopted(t *testing.T) {
	x := holding(blankDisk("sdc", 4), "xfs", "DB")
	x.Serial = "S1"
	d := config.Disk{Name: "db", Select: config.DiskSelect{Serial: "S1"}, Filesystem: config.Filesystem{Type: "xfs", Label: "DB"}, MountPath: "/srv/db"}
	p := plan(facts(x), d)
	require.Empty(t, p.Blocked)
	require.Equal(t, "file:/etc/systemd/system/srv-db.mount\nfile:/etc/systemd/system/kubelet.service.d/10-nodeagent-mounts.conf\nmount:/srv/db", ids(p))
}

func TestAMountedDiskWithItsUnitEnabledNeedsNothing(t *testing.T) {
	f, d := settledFacts(t)
	require.True(t, plan(f, d).Empty(), ids(plan(f, d)))
}

// settledFacts is a host on which everything is as asked.
func settledFacts(t *testing.T) (Facts, config.Disk) {
	t.Helper()
	d := kubeletDisk(anyBlank())
	x := holding(blankDisk("vdc", 5), "xfs", "kubelet")
	x.Mounts, x.Probed, x.NonZero, x.Signatures = []string{"/var/lib/kubelet"}, false, false, nil
	f := facts(blankDisk("vdb", 4), x)
	f.Mounts = []host.Mount{{Source: "/dev/vdc", Target: "/var/lib/kubelet", Type: "xfs", Root: "/", Device: "253:80"}}
	for _, c := range plan(f, d).Changes {
		if w, ok := c.(change.WriteFile); ok {
			f.Files[w.Path] = host.Text{Exists: true, Mode: w.Mode, Owner: w.Owner, Content: w.Content}
		}
	}
	f.Units["var-lib-kubelet.mount"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	return f, d
}

func TestD2APartitionOnADiskIsNamedInTheRefusal(t *testing.T) {
	x := blankDisk("vdb", 4)
	x.Serial, x.PTType, x.Children, x.NonZero = "S1", "gpt", []string{"vdb1"}, true
	p1 := host.BlockDevice{Name: "vdb1", Path: "/dev/vdb1", Type: "part", Parent: "vdb", Size: 99 * gib}
	refused(t, plan(facts(x, p1), kubeletDisk(config.DiskSelect{Serial: "S1"})), "vdb1 is on it", "gpt partition table")
	refused(t, plan(facts(x, p1), kubeletDisk(anyBlank())), "vdb1 is on it")
}

func TestD3BlankMissingAndUnreadableAreToldApart(t *testing.T) {
	d := kubeletDisk(config.DiskSelect{Path: "/dev/disk/by-path/pci-0000:00:04.0"})
	require.Equal(t, "mkfs:/dev/disk/by-path/pci-0000:00:04.0"+rest, ids(plan(facts(blankDisk("vdb", 4)), d)))

	missing := plan(facts(), d)
	require.Len(t, missing.Blocked, 1)
	require.Equal(t, fail.Step, fail.KindOf(missing.Blocked[0]))
	require.Contains(t, missing.Blocked[0].Error(), "no device has path /dev/disk/by-path/pci-0000:00:04.0")

	broken := blankDisk("vdb", 4)
	broken.Unreadable = "reading the end: input/output error"
	refused(t, plan(facts(broken), d), "can't be read", "input/output error")
}

func TestD5TwoDevicesWithOneLabelAreBothListed(t *testing.T) {
	a, b := holding(blankDisk("vdb", 4), "xfs", "kubelet"), holding(blankDisk("vdc", 5), "ext4", "kubelet")
	for _, s := range []config.DiskSelect{{Label: "kubelet"}, anyBlank(), {Path: a.ByPath[0]}} {
		refused(t, plan(facts(a, b), kubeletDisk(s)), "label kubelet is on 2 devices", "vdb", "vdc")
	}
}

func TestTheLabelOnAnotherDeviceIsRefusedNamingBoth(t *testing.T) {
	a, b := blankDisk("vdb", 4), holding(blankDisk("vdc", 5), "xfs", "kubelet")
	refused(t, plan(facts(a, b), kubeletDisk(config.DiskSelect{Path: a.ByPath[0]})), "00:04.0", "label kubelet is on /dev/disk/by-path/pci-0000:00:05.0")
}

func TestD7AKernelNameIsRefusedAndStableNamesOffered(t *testing.T) {
	x := blankDisk("nvme1n1", 4)
	x.ByID = []string{"/dev/disk/by-id/nvme-eui.0025385b11b2"}
	refused(t, plan(facts(x), kubeletDisk(config.DiskSelect{Path: "/dev/nvme1n1"})), "changes between boots", x.ByID[0], x.ByPath[0])
}

func TestD8AnFstabEntryForAnotherDeviceIsRefusedWithItsLine(t *testing.T) {
	f := facts(holding(blankDisk("vdb", 4), "xfs", "kubelet"))
	f.Fstab = host.Text{Exists: true, Content: "# theirs\nUUID=0f1e / xfs defaults 0 0\n/dev/vdz\t/var/lib/kubelet\text4\tdefaults,comment=cloudconfig\t0\t2"}
	refused(t, plan(f, kubeletDisk(anyBlank())), "line 3 of /etc/fstab", "cloud-init", "/dev/vdz")
}

func TestD8AnFstabEntryForTheSameDeviceIsAdopted(t *testing.T) {
	x := holding(blankDisk("vdb", 4), "xfs", "kubelet")
	x.PartUUID, x.ByID = "ABCD-01", []string{"/dev/disk/by-id/virtio-kubelet"}
	for _, source := range []string{"LABEL=kubelet", `LABEL="kubelet"`, "UUID=" + x.FSUUID, "PARTUUID=abcd-01", x.ByPath[0], x.ByID[0], "/dev/disk/by-label/kubelet", "/dev/vdb"} {
		f := facts(x)
		f.Fstab = host.Text{Exists: true, Content: source + " /var/lib/kubelet/ xfs defaults,nofail 0 2\n"}
		p := plan(f, kubeletDisk(anyBlank()))
		require.Equal(t, "file:/etc/systemd/system/kubelet.service.d/10-nodeagent-mounts.conf\nmount:/var/lib/kubelet", ids(p), source)
		require.True(t, p.Changes[1].(change.Mount).Foreign)
		require.Equal(t, source == "/dev/vdb", len(p.Warnings) > 0, source)
	}
}

func TestAnFstabEntryForTheFutureLabelOfABlankDiskIsAdopted(t *testing.T) {
	f := facts(blankDisk("vdb", 4))
	f.Fstab = host.Text{Exists: true, Content: "LABEL=kubelet /var/lib/kubelet xfs defaults 0 2\n"}
	require.Equal(t, "mkfs:/dev/disk/by-path/pci-0000:00:04.0\nfile:/etc/systemd/system/kubelet.service.d/10-nodeagent-mounts.conf\nmount:/var/lib/kubelet", ids(plan(f, kubeletDisk(anyBlank()))))
}

func TestTwoFstabEntriesForOneTargetAreRefused(t *testing.T) {
	f := facts(holding(blankDisk("vdb", 4), "xfs", "kubelet"))
	f.Fstab = host.Text{Exists: true, Content: "LABEL=kubelet /var/lib/kubelet xfs\nLABEL=kubelet /var/lib/kubelet xfs\n"}
	refused(t, plan(f, kubeletDisk(anyBlank())), "lines 1 and 2")
}

func TestAMountUnitOfSomebodyElseIsAdoptedOrRefusedByItsDevice(t *testing.T) {
	f := facts(holding(blankDisk("vdb", 4), "xfs", "kubelet"))
	path := "/etc/systemd/system/var-lib-kubelet.mount"
	f.Files[path] = host.Text{Exists: true, Content: "[Mount]\nWhat=/dev/disk/by-label/kubelet\nWhere=/var/lib/kubelet\nType=xfs\n"}
	p := plan(f, kubeletDisk(anyBlank()))
	require.Empty(t, p.Blocked)
	require.NotContains(t, ids(p), path)
	f.Files[path] = host.Text{Exists: true, Content: "[Mount]\nWhat=/dev/vdz\nWhere=/var/lib/kubelet\n"}
	refused(t, plan(f, kubeletDisk(anyBlank())), path, "/dev/vdz")
}

func TestD9AChangedUnitThatSystemdHasNotReadIsReadBeforeTheMount(t *testing.T) {
	f, d := settledFacts(t)
	u := f.Units["var-lib-kubelet.mount"]
	u.NeedsReload = true
	f.Units["var-lib-kubelet.mount"] = u
	require.Equal(t, "mount:/var/lib/kubelet", ids(plan(f, d)), "that reloads the manager first")
}

func TestD10ADiskThatKubeadmResetUnmountedIsMountedAgain(t *testing.T) {
	f, d := settledFacts(t)
	f.Mounts = nil
	f.Devices[3].Mounts = nil
	require.Equal(t, "mount:/var/lib/kubelet", ids(plan(f, d)))
}

func TestD11AnotherTypeOrLabelIsRefusedOnItsSignature(t *testing.T) {
	for _, x := range []host.BlockDevice{holding(blankDisk("vdb", 4), "vfat", "kubelet"), holding(blankDisk("vdb", 4), "ext4", "precious"), holding(blankDisk("vdb", 4), "xfs", ""), holding(blankDisk("vdb", 4), "xfs", "other")} {
		p := plan(facts(x), kubeletDisk(config.DiskSelect{Path: x.ByPath[0]}))
		refused(t, p, x.FSType, `wanted is xfs labelled "kubelet"`)
		if x.Label != "" {
			require.Contains(t, ids(p), x.Label)
		}
	}
}

func TestD12BlankDisksAreAssignedInByPathOrderAndLaterFoundByLabel(t *testing.T) {
	disks := []config.Disk{kubeletDisk(anyBlank()),
		{Name: "containerd", Select: anyBlank(), Filesystem: config.Filesystem{Type: "xfs", Label: "containerd"}, MountPath: "/var/lib/containerd"},
		{Name: "cpaas", Select: anyBlank(), Filesystem: config.Filesystem{Type: "ext4", Label: "cpaas"}, MountPath: "/var/cpaas"}}
	first := plan(facts(blankDisk("vdd", 4), blankDisk("vdb", 5), blankDisk("vdc", 6)), disks...)
	require.Empty(t, first.Blocked)
	made := formats(first)
	require.Equal(t, map[string]string{"kubelet": "/dev/disk/by-path/pci-0000:00:04.0", "containerd": "/dev/disk/by-path/pci-0000:00:05.0", "cpaas": "/dev/disk/by-path/pci-0000:00:06.0"}, made)

	// The next boot names and places them otherwise.
	again := plan(facts(holding(blankDisk("vdb", 4), "ext4", "cpaas"), holding(blankDisk("vdc", 5), "xfs", "kubelet"), holding(blankDisk("vdd", 6), "xfs", "containerd")), disks...)
	require.Empty(t, again.Blocked)
	require.NotContains(t, ids(again), "mkfs")

	// One formatted, then killed: the others keep theirs.
	half := plan(facts(holding(blankDisk("vdd", 4), "xfs", "kubelet"), blankDisk("vdb", 5), blankDisk("vdc", 6)), disks...)
	require.Equal(t, map[string]string{"containerd": made["containerd"], "cpaas": made["cpaas"]}, formats(half))
}

func TestABlankSelectorTakesNoDiskThatAnotherOneNames(t *testing.T) {
	other := config.Disk{Name: "data", Select: config.DiskSelect{Path: "/dev/disk/by-path/pci-0000:00:04.0"}, Filesystem: config.Filesystem{Type: "ext4", Label: "data"}, MountPath: "/data"}
	p := plan(facts(blankDisk("vdb", 4), blankDisk("vdc", 5)), kubeletDisk(anyBlank()), other)
	require.Empty(t, p.Blocked)
	require.Equal(t, map[string]string{"data": "/dev/disk/by-path/pci-0000:00:04.0", "kubelet": "/dev/disk/by-path/pci-0000:00:05.0"}, formats(p))
}

func TestWhatIsNotProvablyBlankIsNeverFormatted(t *testing.T) {
	for name, spoil := range map[string]func(*host.BlockDevice){
		"a partition table":                            func(x *host.BlockDevice) { x.PTType = "gpt" },
		"a signature that only wipefs knows":           func(x *host.BlockDevice) { x.Signatures = []string{"ceph_bluestore@0x0"} },
		"a swap signature":                             func(x *host.BlockDevice) { x.FSType = "swap" },
		"a member of LVM":                              func(x *host.BlockDevice) { x.FSType = "LVM2_member" },
		"a stale member of RAID":                       func(x *host.BlockDevice) { x.FSType = "linux_raid_member" },
		"a path of multipath":                          func(x *host.BlockDevice) { x.FSType = "mpath_member" },
		"contradicting signatures":                     func(x *host.BlockDevice) { x.Ambivalent = true },
		"bytes that no tool knows":                     func(x *host.BlockDevice) { x.NonZero = true },
		"a holder":                                     func(x *host.BlockDevice) { x.Children = []string{"dm-0"} },
		"a mount":                                      func(x *host.BlockDevice) { x.Mounts = []string{"/mnt"} },
		"swap in use":                                  func(x *host.BlockDevice) { x.Swap = true },
		"an exclusive user in another mount namespace": func(x *host.BlockDevice) { x.Busy = "in use" },
		"an unreadable end":                            func(x *host.BlockDevice) { x.Unreadable = "EIO" },
		"a device that was not probed":                 func(x *host.BlockDevice) { x.Probed = false },
		"a read-only device":                           func(x *host.BlockDevice) { x.ReadOnly = true },
		"a removable device":                           func(x *host.BlockDevice) { x.Removable = true },
		"a device without a stable link":               func(x *host.BlockDevice) { x.ByPath = nil },
		"a device too small for the filesystem":        func(x *host.BlockDevice) { x.Size = 100 << 20 },
		"LVM":                                          func(x *host.BlockDevice) { x.Type = "lvm" },
	} {
		t.Run(name, func(t *testing.T) {
			x := blankDisk("vdb", 4)
			x.Serial = "S1"
			spoil(&x)
			for _, s := range []config.DiskSelect{{Serial: "S1"}, {Path: "/dev/disk/by-path/pci-0000:00:04.0"}, {Blank: &config.Blank{}}} {
				p := plan(facts(x), kubeletDisk(s))
				require.NotEmpty(t, p.Blocked)
				require.NotContains(t, ids(p), "mkfs:")
				require.NotContains(t, ids(p), "mount:")
			}
		})
	}
}

func TestTheSystemDiskIsNeverTaken(t *testing.T) {
	refused(t, plan(facts(), kubeletDisk(config.DiskSelect{Serial: "SYS"})), "it holds the running system")
}

func TestTwoPathsToOneDiskAreNotTwoDisks(t *testing.T) {
	a, b := blankDisk("sda", 4), blankDisk("sdb", 5)
	a.WWN, b.WWN = "0x5000c500a1b2c3d4", "0x5000c500a1b2c3d4"
	refused(t, plan(facts(a, b), kubeletDisk(anyBlank())), "two paths to one disk")
	refused(t, plan(facts(a, b), kubeletDisk(config.DiskSelect{WWN: "wwn-0x5000C500A1B2C3D4"})), "is true of 2 devices", "sda", "sdb")
}

func TestKeepAdoptsOrRefusesAndNeverFormats(t *testing.T) {
	for _, s := range []config.DiskSelect{{Path: "/dev/disk/by-path/pci-0000:00:04.0"}, anyBlank(), {Label: "kubelet"}} {
		d := kubeletDisk(s)
		d.Keep = true
		p := plan(facts(blankDisk("vdb", 4)), d)
		require.Len(t, p.Blocked, 1)
		require.NotContains(t, ids(p), "mkfs:")
		require.Empty(t, plan(facts(holding(blankDisk("vdb", 4), "xfs", "kubelet")), d).Blocked)
	}
}

func TestAMissingDiskIsNotReplacedByABlankOne(t *testing.T) {
	f, d := settledFacts(t)
	f.Mounts, f.Devices = nil, facts(blankDisk("vdb", 4)).Devices
	refused(t, plan(f, d), "was set up on this host before", "/etc/systemd/system/var-lib-kubelet.mount")
}

func TestWhatIsMountedElsewhereOrOverTheTargetIsRefused(t *testing.T) {
	x := holding(blankDisk("vdb", 4), "xfs", "kubelet")
	x.Mounts = []string{"/mnt"}
	refused(t, plan(facts(x), kubeletDisk(anyBlank())), "it is mounted on /mnt")

	x.Mounts = nil
	f := facts(x)
	f.Mounts = []host.Mount{{Source: "/dev/vdz", Target: "/var/lib/kubelet", Type: "xfs", Root: "/", Device: "9:9"}}
	refused(t, plan(f, kubeletDisk(anyBlank())), "/dev/vdz", "is mounted on /var/lib/kubelet already")
}

func TestFilesUnderAPreciousMountPointAreNotHidden(t *testing.T) {
	f := facts(blankDisk("vdb", 4))
	f.Targets["/var/lib/kubelet"] = Target{Files: 2, Samples: []string{"/var/lib/kubelet/config.yaml"}}
	refused(t, plan(f, kubeletDisk(anyBlank())), "/var/lib/kubelet/config.yaml")

	f.Targets["/data"] = Target{Files: 1, Samples: []string{"/data/x"}}
	d := kubeletDisk(anyBlank())
	d.MountPath = "/data"
	p := plan(f, d)
	require.Empty(t, p.Blocked)
	require.Contains(t, p.Warnings[0], "/data/x")

	f.Targets["/data"] = Target{Link: "/data -> /srv"}
	refused(t, plan(f, d), "/data -> /srv")
}

func TestAnIdleContainerdIsStoppedBeforeItsDirectoryIsMountedOver(t *testing.T) {
	d := kubeletDisk(anyBlank())
	d.MountPath = "/var/lib/containerd"
	f := facts(blankDisk("vdb", 4))
	f.Targets[d.MountPath] = Target{Index: 2}
	require.NotContains(t, ids(plan(f, d)), "unit:containerd.service", "it doesn't run")

	f.Units["containerd.service"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled"}
	p := plan(f, d)
	require.Empty(t, p.Blocked)
	require.Regexp(t, `unit:containerd\.service\s+mount:/var/lib/containerd`, ids(p))

	f.Targets[d.MountPath] = Target{Index: 2, Files: 1, Samples: []string{"/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0a"}}
	refused(t, plan(f, d), "content.v1.content")
}

func TestOnlyContainerdsOwnIndexCountsForNothing(t *testing.T) {
	const root = "/var/lib/containerd/"
	for path, own := range map[string]bool{
		"io.containerd.metadata.v1.bolt/meta.db":                       true,
		"io.containerd.snapshotter.v1.overlayfs/metadata.db":           true,
		"io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/etc/x":  false,
		"io.containerd.content.v1.content/blobs/sha256/0a":             false,
		"io.containerd.metadata.v1.bolt/meta.db.bak":                   false,
		"other/io.containerd.metadata.v1.bolt/meta.db":                 false,
		"io.containerd.snapshotter.v1.overlayfs/snapshots/metadata.db": false,
	} {
		w := hosttest.Rocky9()
		w.Files[root+path] = hosttest.File{Content: "x"}
		target, err := ObserveTarget(w, "/var/lib/containerd", false)
		require.NoError(t, err)
		want := Target{Files: 1, Samples: []string{root + path}}
		if own {
			want = Target{Index: 1}
		}
		require.Equal(t, want, target)
	}
}

func TestParentsAreMountedBeforeChildren(t *testing.T) {
	child := config.Disk{Name: "pods", Select: anyBlank(), Filesystem: config.Filesystem{Type: "ext4", Label: "pods"}, MountPath: "/var/lib/kubelet/pods"}
	f := facts(blankDisk("vdb", 4), blankDisk("vdc", 5))
	f.SELinux = "enforcing"
	var order []string
	for _, c := range plan(f, child, kubeletDisk(anyBlank())).Changes {
		if k := change.Kind(c); k == "Mount" || k == "Relabel" {
			order = append(order, c.ID())
		}
	}
	require.Equal(t, []string{"mount:/var/lib/kubelet", "relabel:/var/lib/kubelet", "mount:/var/lib/kubelet/pods", "relabel:/var/lib/kubelet/pods"}, order)
}

func TestAMountedFilesystemIsRelabelledOnlyWhenItHasNoLabels(t *testing.T) {
	f, d := settledFacts(t)
	f.SELinux = "enforcing"
	f.Targets[d.MountPath] = Target{SELinux: "system_u:object_r:unlabeled_t:s0"}
	require.Equal(t, "relabel:/var/lib/kubelet", ids(plan(f, d)))
	f.Targets[d.MountPath] = Target{SELinux: "system_u:object_r:container_var_lib_t:s0"}
	require.True(t, plan(f, d).Empty())
}

func TestWithoutALiveHostUnitsArePlannedAndDevicesAreNotKnown(t *testing.T) {
	p := plan(Facts{}, kubeletDisk(anyBlank()))
	require.Empty(t, p.Blocked)
	require.Contains(t, p.Warnings[0], "can't be observed")
	require.Equal(t, "file:/etc/systemd/system/var-lib-kubelet.mount\nfile:/etc/systemd/system/kubelet.service.d/10-nodeagent-mounts.conf", ids(p))
}

func TestAnInterruptedFormatResumesOnlyWithItsIntentOnTheSameDevice(t *testing.T) {
	d := kubeletDisk(anyBlank())
	f := facts(blankDisk("vdb", 4))
	intent := plan(f, d).Changes[0].(change.MakeFilesystem)
	x := holding(blankDisk("vdb", 4), "xfs", "kubelet")
	x.FSUUID, x.Unfinished = intent.UUID, true
	f.Devices[2] = x
	refused(t, plan(f, d), "half-made filesystem", "journal has no unfinished format")

	f.Unfinished = map[string]change.MakeFilesystem{intent.ID(): intent}
	resumed := plan(f, d).Changes[0].(change.MakeFilesystem)
	require.True(t, resumed.Resume)
	resumed.Resume = false
	require.Equal(t, intent, resumed)

	for name, other := range map[string]func(*change.MakeFilesystem){
		"size": func(c *change.MakeFilesystem) { c.Size++ }, "serial": func(c *change.MakeFilesystem) { c.Serial = "other" },
		"wwn": func(c *change.MakeFilesystem) { c.WWN = "other" }, "uuid": func(c *change.MakeFilesystem) { c.UUID = "other" },
	} {
		c := intent
		other(&c)
		f.Unfinished[intent.ID()] = c
		p := plan(f, d)
		require.NotEmpty(t, p.Blocked, name)
		require.NotContains(t, ids(p), "mkfs:", name)
	}

	// ext4 leaves no superblock before its end; our claim on the device counts.
	e := d
	e.Filesystem.Type = "ext4"
	g := facts(blankDisk("vdb", 4))
	intent4 := plan(g, e).Changes[0].(change.MakeFilesystem)
	g.Devices[2].NonZero, g.Devices[2].Claim = true, intent4.UUID
	refused(t, plan(g, e), "a format of nodeagent was cut off on it")
	g.Unfinished = map[string]change.MakeFilesystem{intent4.ID(): intent4}
	require.True(t, plan(g, e).Changes[0].(change.MakeFilesystem).Resume)
	for name, spoil := range map[string]func(*host.BlockDevice){
		"another claim": func(x *host.BlockDevice) { x.Claim = "other" }, "a filesystem": func(x *host.BlockDevice) { x.FSType = "xfs" },
		"a signature": func(x *host.BlockDevice) { x.Signatures = []string{"gpt@0x200"} }, "a table": func(x *host.BlockDevice) { x.PTType = "gpt" },
		"a holder": func(x *host.BlockDevice) { x.Children = []string{"dm-0"} }, "a user": func(x *host.BlockDevice) { x.Busy = "in use" },
	} {
		h := g
		h.Devices = append([]host.BlockDevice{}, g.Devices...)
		spoil(&h.Devices[2])
		p := plan(h, e)
		require.NotEmpty(t, p.Blocked, name)
		require.Empty(t, formats(p), name)
	}

	// A finished one is adopted, whatever the journal lacks.
	f.Unfinished[intent.ID()] = intent
	f.Devices[2].Unfinished = false
	require.NotContains(t, ids(plan(f, d)), "mkfs:")
	// One that left nothing is begun anew, on the same disk.
	f.Devices = append(systemDisk(), blankDisk("vdc", 3), blankDisk("vdb", 4))
	require.Contains(t, ids(plan(f, d)), intent.ID())
}

func TestFactsSurviveJSON(t *testing.T) {
	f, d := settledFacts(t)
	b, err := json.Marshal(f)
	require.NoError(t, err)
	var back Facts
	require.NoError(t, json.Unmarshal(b, &back))
	require.True(t, plan(back, d).Empty())
}

func TestAMessageAboutManyDisksStaysShort(t *testing.T) {
	f := facts()
	for slot := 4; slot < 16; slot++ {
		f.Devices = append(f.Devices, holding(blankDisk(fmt.Sprint("vd", slot), slot), "xfs", "other"))
	}
	s := anyBlank()
	s.Blank.MaxSize = "2TiB"
	refused(t, plan(f, kubeletDisk(s)), "no disk is provably blank and of at least 90GiB and at most 2TiB", "vd11", "; and 4 more")
}
