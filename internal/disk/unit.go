package disk

import (
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"nodeagent/internal/config"
	"nodeagent/internal/disk/label"
	"nodeagent/internal/host"
)

// Header marks the files that are ours as a whole.
const Header = "# Written by nodeagent from its configuration; changes made here are lost.\n"

// Ours tells whether nodeagent wrote a file.
func Ours(t host.Text) bool { return t.Exists && strings.HasPrefix(t.Content, Header) }

// unitText is the mount unit of a disk (systemd.mount(5)).
//
// local-fs.target wants it and waits for it, but doesn't require it: what
// starts after local-fs.target finds the disk mounted, and when the disk is
// missing the boot goes on after the device's time-out (90 s) instead of
// ending in emergency mode, so that ssh comes up. kubelet and containerd
// require it by their drop-ins and stay down.
func unitText(d config.Disk) string {
	what := "/dev/disk/by-label/" + label.Link(d.Filesystem.Label)
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	b.WriteString(Header)
	line("[Unit]")
	line("Description=Data disk ", Specifiers(d.Name))
	if !slices.Contains(d.MountOptions, "nofail") {
		line("Before=local-fs.target")
	}
	if d.Filesystem.Type == "ext4" {
		// xfs has nothing to check before a mount: fsck.xfs(8).
		fsck := "systemd-fsck@" + Specifiers(unit.UnitNamePathEscape(what)) + ".service"
		line("Requires=", fsck)
		line("After=", fsck)
	}
	line("\n[Mount]")
	line("What=", Specifiers(what))
	line("Where=", Specifiers(d.MountPath))
	line("Type=", d.Filesystem.Type)
	if len(d.MountOptions) > 0 {
		line("Options=", Specifiers(strings.Join(d.MountOptions, ",")))
	}
	line("\n[Install]")
	line("WantedBy=local-fs.target")
	return b.String()
}

// Specifiers keeps a percent sign from being one: systemd.unit(5).
func Specifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// dropInText keeps a service from starting without its mounts, and stops it
// when one of them goes.
func dropInText(paths []string) string {
	var b strings.Builder
	b.WriteString(Header + "[Unit]\n")
	for _, p := range paths {
		b.WriteString("RequiresMountsFor=" + Quoted(Specifiers(p)) + "\n")
	}
	return b.String()
}

// Quoted protects a path in a list: systemd.syntax(7).
func Quoted(s string) string {
	if !strings.ContainsAny(s, " \t\"'\\") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// needs returns the mount paths a service must not start without. kubelet
// needs all: a volume from the host must not land beside its disk. containerd
// needs those that hold its own data, or hold what holds it.
func needs(service string, disks []config.Disk) []string {
	var out []string
	for _, d := range parentsFirst(disks) {
		const root = "/var/lib/containerd"
		if service == "kubelet.service" || below(d.MountPath, root) || below(root, d.MountPath) {
			out = append(out, d.MountPath)
		}
	}
	return out
}

// unitSetting returns the last value of a setting in a unit file.
func unitSetting(text, key string) string {
	value := ""
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(k) == key {
			value = strings.ReplaceAll(strings.TrimSpace(v), "%%", "%")
		}
	}
	return value
}
