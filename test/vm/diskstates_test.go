package vm_test

import "nodeagent/test/vm/lab"

// state is what a guest's kernel makes of a disk, or what the disk itself is.
type state struct {
	name     string // the disk's serial, and the label that is asked for
	disk     lab.SCSIDisk
	mib      int    // 0: stateMiB
	prepare  string // in the guest; $D is the disk, $NAME its name
	disks    string // YAML of spec.disks; empty: the disk by its serial, ext4
	code     int    // 0: refused
	evidence string
	always   bool
}

// quiet makes an ext4 that the kernel writes nothing to by itself.
const quiet = `mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 `

// stopped makes a RAID member of the disk and stops the array.
func stopped(metadata string) string {
	return `mdadm --create /dev/md90 --run --assume-clean --metadata=` + metadata + ` --level=1 --raid-devices=2 $D missing && udevadm settle && mdadm --stop /dev/md90`
}

// blankOf asks for a blank disk of exactly one size.
func blankOf(name, size string) string {
	return "{name: " + name + ", select: {blank: {minSize: " + size + ", maxSize: " + size + "}}, filesystem: {type: ext4}, mountPath: /srv/" + name + "}"
}

var states = []state{
	{name: "lvm-pv", prepare: `pvcreate -qq -y $D`, evidence: "LVM2_member"},
	{name: "lvm-active", prepare: `vgcreate -qq -y lab $D && lvcreate -qq -y -n data -L 16M lab`, evidence: "LVM2_member", always: true},
	{name: "md-0.90", prepare: stopped("0.90"), evidence: "linux_raid_member"},
	{name: "md-1.0", prepare: stopped("1.0"), evidence: "linux_raid_member"},
	{name: "md-1.1", prepare: stopped("1.1"), evidence: "linux_raid_member"},
	{name: "md-1.2", prepare: stopped("1.2"), evidence: "linux_raid_member", always: true},
	{name: "md-active", prepare: `mdadm --create /dev/md91 --run --assume-clean --level=1 --raid-devices=2 $D missing`, evidence: "md91 is on it", always: true},
	{name: "dm-holder", prepare: `dmsetup create held --table "0 2048 linear $D 0"`, evidence: "is on it"},
	{name: "multipath-member", prepare: `modprobe -a dm-multipath dm-service-time && dmsetup create mpatha --uuid mpath-lab --table "0 $(blockdev --getsz $D) multipath 0 0 1 1 service-time 0 1 1 $(lsblk -dno MAJ:MIN $D) 1"`, evidence: "is on it"},
	{name: "two-paths", disk: lab.SCSIDisk{WWN: 0x5000c50015ea71aa, Shared: true}, evidence: "has the same WWN: they are two paths to one disk"},
	{name: "mounted", prepare: quiet + `-L other $D && mkdir -p /mnt/m && mount $D /mnt/m`, evidence: "it is mounted on /mnt/m", always: true},
	{name: "mounted-same", prepare: quiet + `-L $NAME $D && mkdir -p /mnt/s && mount $D /mnt/s`, evidence: "it is mounted on /mnt/s, not on /srv/mounted-same"},
	{name: "other-namespace", prepare: quiet + `-L other $D && udevadm settle && { setsid unshare --mount sh -c "mount $D /mnt && exec sleep infinity" </dev/null >/dev/null 2>&1 & } && until ! python3 -c "import os; os.open('$D', os.O_RDONLY|os.O_EXCL)" 2>/dev/null; do sleep 0.1; done && ! findmnt $D`, evidence: "can't be opened exclusively", always: true},
	{name: "open-exclusively", prepare: `{ setsid python3 -c "import os,time; os.open('$D', os.O_RDONLY|os.O_EXCL); open('/run/lab-open','w').close(); time.sleep(1e6)" </dev/null >/dev/null 2>&1 & } && until [ -e /run/lab-open ]; do sleep 0.1; done`, evidence: "can't be opened exclusively", always: true},
	{name: "swap-on", prepare: `mkswap -q $D && swapon $D`, evidence: "it is in use as swap"},
	{name: "read-only", disk: lab.SCSIDisk{ReadOnly: true}, evidence: "it is read-only", always: true},
	{name: "set-read-only", prepare: `blockdev --setro $D`, evidence: "it is read-only"},
	{name: "removable", disk: lab.SCSIDisk{Removable: true}, evidence: "it is removable"},
	{name: "too-small", mib: 8, evidence: "it is too small for ext4"},
	{name: "bad-start", disk: lab.SCSIDisk{BadSectors: []int64{0}}, evidence: "it can't be read"},
	{name: "bad-middle", disk: lab.SCSIDisk{BadSectors: []int64{66000}}, evidence: "it can't be read", always: true},
	{name: "bad-end", disk: lab.SCSIDisk{BadSectors: []int64{stateMiB<<11 - 1}}, evidence: "it can't be read"},
	{name: "dm-error", prepare: `dmsetup create broken --table "0 131072 error"`, evidence: "it can't be read",
		disks: "{name: dm-error, select: {path: /dev/disk/by-id/dm-name-broken}, filesystem: {type: ext4}, mountPath: /srv/dm-error}"},
	{name: "dm-blank", prepare: `dmsetup create zeros --table "0 131072 linear $D 0"`, evidence: "only whole disks and partitions are formatted",
		disks: "{name: dm-blank, select: {path: /dev/disk/by-id/dm-name-zeros}, filesystem: {type: ext4}, mountPath: /srv/dm-blank}"},
	{name: "zram", prepare: `modprobe zram && echo 41M >/sys/block/zram0/disksize`, evidence: "it has no link below /dev/disk/by-id or by-path", disks: blankOf("zram", "41MiB")},
	{name: "loop", prepare: `truncate -s 43M /var/loop.img && losetup --find /var/loop.img`, code: failed, evidence: "there is no other whole disk of that size", disks: blankOf("loop", "43MiB")},
	{name: "keep-blank", evidence: "it is blank, but keep says that it holds data",
		disks: "{name: keep-blank, select: {serial: keep-blank}, filesystem: {type: ext4}, mountPath: /srv/keep-blank, keep: true}"},
	{name: "partition-vfat", prepare: `printf 'label: gpt\nname=lab-part\n' | sfdisk -q $D && udevadm settle && mkfs.vfat /dev/disk/by-partlabel/lab-part`, evidence: "vfat",
		disks: "{name: partition-vfat, select: {partLabel: lab-part}, filesystem: {type: ext4}, mountPath: /srv/partition-vfat}"},
	{name: "partition-below-disk", prepare: `printf 'label: gpt\nname=lab-blank\n' | sfdisk -q $D`, evidence: "gpt partition table"},
	{name: "one-label", prepare: quiet + `-L one-label $D`, evidence: "label one-label is on 2 devices", always: true},
	{name: "one-label-too", prepare: quiet + `-L one-label $D`, evidence: "label one-label is on 2 devices",
		disks: "{name: one-label-too, select: {blank: {}}, filesystem: {type: ext4, label: one-label}, mountPath: /srv/one-label-too}", always: true},
	{name: "label-is-away", evidence: "but label label-elsewhere is on", always: true,
		disks: "{name: label-is-away, select: {serial: label-is-away}, filesystem: {type: ext4, label: label-elsewhere}, mountPath: /srv/label-is-away}"},
	{name: "label-elsewhere", prepare: quiet + `-L label-elsewhere $D`, evidence: "but label label-elsewhere is on",
		disks: "{name: label-elsewhere, select: {serial: label-is-away}, filesystem: {type: ext4, label: label-elsewhere}, mountPath: /srv/label-is-away}", always: true},
}
