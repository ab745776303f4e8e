package lab

import (
	"context"
	"path/filepath"
	"slices"
)

// Rocky9Boot is Rocky9 with what makes a host of a boot artefact: cloud-init,
// and Ignition for the initrd; and with chrony, which a stock host has too.
var Rocky9Boot = bootable(Rocky9)

func bootable(f Flavour) Flavour {
	f.Name += "-boot"
	f.Debs = slices.Concat(f.Debs, []string{"chrony", "cloud-init", "ignition", "eject", "gdisk", "lsb-release", "python3-blinker", "python3-certifi", "python3-cffi-backend",
		"python3-chardet", "python3-charset-normalizer", "python3-configobj", "python3-cryptography", "python3-idna", "python3-jinja2", "python3-json-pointer",
		"python3-jsonpatch", "python3-jwt", "python3-markupsafe", "python3-netifaces", "python3-oauthlib", "python3-pkg-resources", "python3-requests",
		"python3-serial", "python3-urllib3", "python3-yaml"})
	// Two sources besides None, so that a guest without a medium starts no
	// cloud-init; the network belongs to NetworkManager.
	f.Files = slices.Concat(f.Files, []File{{Path: "/etc/cloud/cloud.cfg.d/95-lab.cfg",
		Content: "datasource_list: [NoCloud, ConfigDrive, None]\nnetwork: {config: disabled}\n"},
		// chrony under Enterprise Linux's names.
		{Path: "/etc/chrony.conf", Content: "pool 2.rocky.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\ndriftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n"},
		{Path: "/usr/lib/systemd/system/chronyd.service", Content: `[Unit]
Description=NTP client/server
After=ntpdate.service sntp.service ntpd.service
Conflicts=ntpd.service systemd-timesyncd.service

[Service]
Type=forking
PIDFile=/run/chrony/chronyd.pid
EnvironmentFile=-/etc/sysconfig/chronyd
ExecStart=/usr/sbin/chronyd -u root -f /etc/chrony.conf $OPTIONS

[Install]
WantedBy=multi-user.target
`}})
	f.Remove = slices.Concat(f.Remove, []string{"/lib/systemd/system/chrony.service", "/usr/lib/systemd/system/chrony.service", "/etc/chrony"})
	f.Enable = slices.Concat(f.Enable, []string{"cloud-init-local.service", "cloud-init.service", "cloud-config.service", "cloud-final.service", "chronyd.service"})
	return f
}

// AddNoCloud attaches a medium with user-data for cloud-init, as docs/boot.md
// has it made.
func (g *Guest) AddNoCloud(ctx context.Context, userData []byte) error {
	dir := filepath.Join(g.dir, "cidata")
	for name, content := range map[string]string{"user-data": string(userData), "meta-data": "instance-id: " + g.Name + "\n"} {
		if err := (File{Path: "/" + name, Content: content}).writeBelow(dir); err != nil {
			return err
		}
	}
	medium := filepath.Join(g.dir, "seed.iso")
	_, err := run(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-output", medium, "-volid", "cidata", "-joliet", "-rock",
		filepath.Join(dir, "user-data"), filepath.Join(dir, "meta-data"))
	g.Disks = append(g.Disks, &Disk{Path: medium})
	return err
}

// MAC is the address of the guest's network card.
func (g *Guest) MAC() string { return g.mac }

// KernelFiles are the kernel and the initrd of guests, to be served to a guest
// that boots from the network.
func (l *Lab) KernelFiles() (vmlinuz, initrd string) { return l.Assets.Vmlinuz, l.Assets.Initrd }

// BootScript is where DHCP sends iPXE.
const BootScript = "/boot.ipxe"

// KernelArguments are what every guest's kernel is told.
func (g *Guest) KernelArguments() string {
	return "root=LABEL=root " + g.rootMode() + " console=ttyS0 apparmor=0"
}
