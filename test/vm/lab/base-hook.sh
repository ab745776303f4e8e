#!/bin/sh
# Runs in mmdebstrap with the new root as $1: a small initrd that takes the lab's
# seed, and the packages that become RPMs.
set -eu
root=$1

# Only what a virtio guest needs to find its root: unpacking a full initrd costs
# an emulated guest several seconds.
sed -i 's/^MODULES=.*/MODULES=list/; s/^COMPRESS=.*/COMPRESS=zstd/' "$root/etc/initramfs-tools/initramfs.conf"
printf '%s\n' virtio_pci virtio_blk virtio_net virtio_scsi sd_mod ext4 overlay 9p 9pnet_virtio >>"$root/etc/initramfs-tools/modules"
install -m 0755 "$LAB_SEED" "$root/etc/initramfs-tools/scripts/init-bottom/lab-seed"
install -m 0755 "$LAB_IGNITION" "$root/etc/initramfs-tools/scripts/init-bottom/lab-ignition"
install -m 0755 "$LAB_IMMUTABLE" "$root/etc/initramfs-tools/scripts/local-bottom/lab-immutable"
chroot "$root" update-initramfs -u

mkdir -p "$root/var/lab-debs/partial"
chroot "$root" apt-get --yes --download-only --no-install-recommends \
	-o Dir::Cache::archives=/var/lab-debs -o APT::Sandbox::User=root install $LAB_DEBS
rmdir "$root/var/lab-debs/partial"
rm -f "$root/var/lab-debs/lock"
