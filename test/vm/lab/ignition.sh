#!/bin/sh
# Runs in the initrd, after the lab's seed: where that has put an Ignition config,
# Ignition makes the root what it says, before the system starts from it.
if [ "$1" = prereqs ]; then
	echo lab-seed
	exit 0
fi
[ -e "$rootmnt/etc/lab/config.ign" ] || exit 0
for d in dev proc sys run; do
	mount -o bind "/$d" "$rootmnt/$d"
done
for stage in fetch-offline fetch disks mount files umount; do
	IGNITION_CONFIG_FILE=/etc/lab/config.ign chroot "$rootmnt" /usr/lib/dracut/modules.d/30ignition/ignition \
		--platform=file --stage=$stage --root=/ --config-cache=/run/ignition.json --log-to-stdout >/dev/console 2>&1 ||
		echo "Ignition failed in stage $stage" >/dev/console
done
for d in dev proc sys run; do
	umount "$rootmnt/$d"
done
