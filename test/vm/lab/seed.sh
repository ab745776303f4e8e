#!/bin/sh
# Runs in the initrd, after the root is mounted: unpacks the lab's seed over it,
# so that systemd finds those files as if they had always been there.
if [ "$1" = prereqs ]; then
	exit 0
fi
modprobe 9pnet_virtio
modprobe 9p
mkdir -p "$rootmnt/mnt"
mount -t 9p -o trans=virtio,version=9p2000.L,ro labseed "$rootmnt/mnt" || exit 0
if [ -s "$rootmnt/mnt/seed.tar" ]; then
	chroot "$rootmnt" /bin/tar -C / --no-overwrite-dir -xpf /mnt/seed.tar
fi
umount "$rootmnt/mnt"
