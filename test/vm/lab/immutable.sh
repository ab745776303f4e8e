#!/bin/sh
# Runs in the initrd, after the root is mounted: puts what can be written of an
# immutable host over its read-only root.
if [ "$1" = prereqs ]; then
	exit 0
fi
[ -e "$rootmnt/usr/lib/lab/immutable" ] || exit 0
modprobe overlay
mkdir -p /run/state
tries=0
until mount -t ext4 -o noatime /dev/disk/by-label/state /run/state; do
	tries=$((tries + 1))
	[ $tries -lt 20 ] || exit 1
	sleep 1
done
for d in var root home opt srv; do
	mount -o bind "/run/state/$d" "$rootmnt/$d"
done
mount -o bind /run/state/usr-local "$rootmnt/usr/local"
mount -t overlay -o "lowerdir=$rootmnt/etc,upperdir=/run/state/etc-upper,workdir=/run/state/etc-work" overlay "$rootmnt/etc"
