package vm_test

import (
	"strings"
	"testing"
	"time"

	"nodeagent/test/vm/lab"
)

// swapEverywhere adds swap of other origins to what the flavour has from fstab
// and from an enabled unit: a GPT partition that fstab names by UUID, a unit that
// another one wants, a unit that somebody linked into swap.target, zram, and a
// file that was turned on by hand.
const swapEverywhere = `set -e
disk=/dev/disk/by-id/virtio-gptswap
printf 'label: gpt\ntype=0657FD6D-A4AB-43C4-84E5-0933C84B4F4F\n' | sfdisk --quiet $disk
udevadm settle
mkswap --quiet $disk-part1
udevadm settle
printf 'UUID=%s\tnone\tswap\tpri=3\t0 0' "$(blkid -s UUID -o value $disk-part1)" >>/etc/fstab
fallocate -l 16M /srv/static; chmod 600 /srv/static; mkswap --quiet /srv/static
printf '[Swap]\nWhat=/srv/static\n' >/etc/systemd/system/srv-static.swap
printf '[Unit]\nWants=srv-static.swap\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/lab.service
fallocate -l 16M /srv/linked; chmod 600 /srv/linked; mkswap --quiet /srv/linked
printf '[Swap]\nWhat=/srv/linked\n' >/etc/systemd/system/srv-linked.swap
mkdir -p /etc/systemd/system/swap.target.wants
ln -s /etc/systemd/system/srv-linked.swap /etc/systemd/system/swap.target.wants/
modprobe zram num_devices=1; echo 32M >/sys/block/zram0/disksize; mkswap --quiet /dev/zram0
mkdir -p /usr/lib/systemd/system-generators
printf '[zram0]\nzram-size = 32\n' >/usr/lib/systemd/zram-generator.conf
# A stand-in for zram-generator: the strongest file counts, an empty one makes nothing.
cat >/usr/lib/systemd/system-generators/zram-generator <<'EOF'
#!/bin/sh
for d in /etc/systemd /run/systemd /usr/lib/systemd; do
	[ -e $d/zram-generator.conf ] || continue
	[ -s $d/zram-generator.conf ] || exit 0
	printf '[Unit]\nDescription=Compressed swap\n[Swap]\nWhat=/dev/zram0\n' >"$1/dev-zram0.swap"
	exit 0
done
EOF
chmod +x /usr/lib/systemd/system-generators/zram-generator
systemctl daemon-reload
systemctl enable --now lab.service
systemctl start srv-static.swap srv-linked.swap dev-zram0.swap
swapon $disk-part1
fallocate -l 16M /srv/byhand; chmod 600 /srv/byhand; mkswap --quiet /srv/byhand; swapon /srv/byhand
cat /etc/fstab; cat /proc/swaps; systemctl list-units --all --no-pager '*.swap'`

// TestSwapAndKernel turns off swap of every origin and sets modules and sysctls,
// and looks whether it stays so.
func TestSwapAndKernel(t *testing.T) {
	needWholeMatrix(t)
	l := needLAN(t)
	ctx := t.Context()
	const name = "swaps"
	const flags = "--until kernel --skip preflight --skip packages --skip disks"
	g := newGuest(t, l, lab.Rocky9, name)
	must(g.AddDisk(1, "gptswap"))(t)
	config := lab.NodeConfig{HostName: name, Addr: g.Addr, TokenFile: lab.TokenFile}
	g.Seed(lab.ProductFiles(binary(t), config, "none")...)
	check(t, g.Boot(ctx))
	check(t, g.WaitSSH(ctx, 5*time.Minute))
	t.Log(must(g.Run(ctx, swapEverywhere))(t))
	before := must(g.Run(ctx, "cat /etc/fstab; sha256sum /usr/lib/systemd/zram-generator.conf"))(t)
	areas := []string{"/var/swap.img", "/srv/swapfile", "/srv/static", "/srv/linked", "/dev/zram0", "/srv/byhand", "/dev/vd"}
	swaps := must(g.Run(ctx, "cat /proc/swaps"))(t)
	for _, a := range areas {
		if !strings.Contains(swaps, a) {
			t.Fatalf("%s is not on: %s", a, swaps)
		}
	}

	settled := func(t *testing.T) {
		t.Helper()
		if out := must(g.Run(ctx, "tail -n +2 /proc/swaps"))(t); out != "" {
			t.Errorf("swap is on: %s", out)
		}
		must(g.Run(ctx, `set -e
for m in overlay br_netfilter; do grep "^$m " /proc/modules; done
test "$(cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/bridge/bridge-nf-call-ip6tables /proc/sys/kernel/panic /proc/sys/vm/overcommit_memory | tr '\n' ' ')" = "1 1 1 10 1 "`))(t)
		if out, code := up(t, g, flags); code != converged || lastRunOf(t, g).Changes != 0 {
			t.Errorf("exit %d, %+v: %s", code, lastRunOf(t, g), out)
		}
	}
	step := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}
	step("every area is turned off in one run", func(t *testing.T) {
		out, code := up(t, g, flags)
		if code != converged {
			t.Fatalf("exit %d: %s", code, lastRunOf(t, g).Error)
		}
		if !strings.Contains(out, "/srv/byhand") {
			t.Error("nobody is told that nothing turns on /srv/byhand at boot")
		}
		for _, s := range lastRunOf(t, g).Steps {
			t.Logf("%-9s %5.2f s %s", s.Name, s.Took.Seconds(), strings.Join(s.Changes, "; "))
		}
		settled(t)
	})
	step("nothing but the entries of fstab has changed", func(t *testing.T) {
		after := must(g.Run(ctx, "sed 's/^# disabled by nodeagent: //' /etc/fstab; sha256sum /usr/lib/systemd/zram-generator.conf"))(t)
		if after != before {
			t.Errorf("now:\n%s\nbefore:\n%s", after, before)
		}
		must(g.Run(ctx, "grep -c '^# disabled by nodeagent: ' /etc/fstab | grep -x 2; test ! -s /etc/systemd/zram-generator.conf; test -s /etc/systemd/system/srv-static.swap.nodeagent-saved"))(t)
		t.Log(must(g.Run(ctx, "systemctl list-unit-files --no-pager '*.swap'; NetworkManager --print-config | grep unmanaged"))(t))
	})
	step("it stays so after a reboot", func(t *testing.T) {
		check(t, g.Reboot(ctx))
		check(t, g.WaitSSH(ctx, 5*time.Minute))
		must(g.Run(ctx, "systemctl start swap.target; swapon -a"))(t)
		settled(t)
	})
	step("an interface that appears keeps the reverse path filter that Cilium needs", func(t *testing.T) {
		must(g.Run(ctx, `printf 'net.ipv4.conf.*.rp_filter = 1\n' >/usr/lib/sysctl.d/50-redhat.conf
ip link add lxc1 type veth peer name other1; udevadm settle
test "$(cat /proc/sys/net/ipv4/conf/lxc1/rp_filter)" = 0; test "$(cat /proc/sys/net/ipv4/conf/all/rp_filter)" = 0; ip link del lxc1`))(t)
	})
}
