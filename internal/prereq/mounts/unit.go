package mounts

import (
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/disk"
)

// unitText is the mount unit (systemd.mount(5)) of a mount. remote says that it
// needs the network, which systemd must know of bind mounts, too: ordered before
// local-fs.target, they would wait for a network that waits for them.
//
// The targets want it and don't require it: the boot goes on without it, so
// that ssh comes up.
func unitText(m config.Mount, remote bool) string {
	options := slices.Clone(m.Options)
	if remote && !slices.Contains(options, "_netdev") {
		options = append(options, "_netdev")
	}
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(disk.Header)
	line("[Unit]")
	line("Description=", disk.Specifiers(m.Where), " from the configuration")
	line("\n[Mount]")
	line("What=", disk.Specifiers(m.What))
	line("Where=", disk.Specifiers(m.Where))
	line("Type=", m.Type)
	if len(options) > 0 {
		line("Options=", disk.Specifiers(strings.Join(options, ",")))
	}
	line("\n[Install]")
	if remote {
		// remote-fs.target is a unit that can be disabled, and is on some images.
		line("WantedBy=remote-fs.target multi-user.target")
	} else {
		line("WantedBy=local-fs.target")
	}
	return b.String()
}

// service is one that uses directories which may lie on a mount.
type service struct {
	unit string
	uses []string
}

var services = []service{
	{"kubelet.service", []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/etc/kubernetes", "/etc/cni", "/opt/cni"}},
	{"containerd.service", []string{"/var/lib/containerd", "/etc/containerd", "/etc/cni", "/opt/cni"}},
}

// dropIn is where a service learns which mounts it waits for; that of disks is
// another one.
func (s service) dropIn() string { return unitDir + s.unit + ".d/10-nodeagent-other-mounts.conf" }

// text lets the service start only with the mounts that lie on or above its own
// directories, or below them. kubelet, whose pods may use any directory of the
// host, comes after all others too, but starts without them: an NFS server that
// is down must not take nodes down. It is empty when nothing is to wait for.
func (s service) text(mounts []config.Mount) string {
	var needs, after []string
	for _, m := range mounts {
		switch {
		case slices.ContainsFunc(s.uses, func(dir string) bool { return below(m.Where, dir) || below(dir, m.Where) }):
			needs = append(needs, m.Where)
		case s.unit == "kubelet.service":
			after = append(after, disk.MountUnit(m.Where))
		}
	}
	if len(needs)+len(after) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(disk.Header + "[Unit]\n")
	for _, name := range after {
		b.WriteString("After=" + disk.Specifiers(name) + "\n")
	}
	for _, p := range needs {
		b.WriteString("RequiresMountsFor=" + disk.Quoted(disk.Specifiers(p)) + "\n")
	}
	return b.String()
}
