package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/kubelet/nodename"
	"nodeagent/internal/kubelet/release"
	"nodeagent/internal/prereq/distro"
)

const (
	leastFree = 1 << 30 // below this an installation can't end well
	fewFree   = 5 << 30
	leastMem  = 1700 << 20 // kubeadm's own limit for control planes; less starves pods
)

// notBefore is older than any release this program can join: an earlier clock
// makes every certificate "not yet valid".
var notBefore = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// shared are DMI UUIDs that vendors left in whole series of boards, besides
// those of one digit only.
var shared = []string{"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009", "01020304-0506-0708-090a-0b0c0d0e0f10",
	"12345678-1234-5678-90ab-cddeefaabbcc", "4c4c4544-0000-2010-8020-80c04f202020"}

// Plan changes nothing: it warns and blocks, everything at once.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	warn := func(format string, a ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, a...)) }
	block := func(hint, format string, a ...any) {
		p.Blocked = append(p.Blocked, fail.New(fail.Step, hint, format, a...))
	}
	minor, _ := release.Minor(spec.Kubernetes.Version)
	if minor < 31 || minor > 37 {
		warn("Kubernetes %s is outside the releases 1.31 to 1.37 that nodeagent knows", spec.Kubernetes.Version)
	}
	s := f.System
	name := spec.Hostname
	if name == "" {
		name = s.Hostname
	}
	if name != "" || f.Live { // an image gets its name when it boots
		checkName(name, warn, block)
	}
	if s.Cgroup == 1 {
		demands, set := spec.Kubelet.Config["failCgroupV1"].(bool)
		switch {
		case minor >= 35 && (demands || !set):
			block(unified(f.Family)+" and reboot, or use Kubernetes 1.34",
				"this host boots with cgroup v1, and the kubelet of %s refuses that", spec.Kubernetes.Version)
		default:
			warn("this host boots with cgroup v1; Kubernetes 1.35 and later refuse that")
		}
	}
	if v := kernelVersion(s.Kernel); v != [2]int{} && (v[0] < 4 || v[0] == 4 && v[1] < 19) && (minor == 32 || minor == 33) {
		block("use Kubernetes 1.31 or 1.34, or a kernel of 4.19 or later", "kubeadm %s refuses kernel %s: it wants 4.19 or later", spec.Kubernetes.Version, s.Kernel)
	}
	if !f.Live {
		return p
	}
	if !s.Root {
		block("run it with sudo", "nodeagent doesn't run as root, so what it sees is incomplete and it can change nothing")
	}
	if !f.Systemd {
		block("nodeagent needs a host that systemd manages", "systemd isn't running here (no /run/systemd/system)")
	}
	if s.Arch != "x86_64" && s.Arch != "aarch64" {
		block("workers are x86_64 or aarch64", "there are no packages for machine type %s", s.Arch)
	}
	switch f.Root.Type {
	case "rootfs", "ramfs", "tmpfs":
		block("boot from a disk, or give the live image an overlay on one", "the root filesystem is %s: containers can't pivot_root there, and nothing would outlive a reboot", f.Root.Type)
	}
	for _, x := range []host.Filesystem{f.Usr, f.Etc, f.Var} {
		if x.Sandboxed {
			block("take ProtectSystem= and ReadOnlyPaths= out of the unit that starts nodeagent: it writes to /etc, /usr and /var",
				"%s is read-only for nodeagent and not for the host: the unit that runs it is sandboxed", x.Target)
			return p
		}
	}
	if f.Etc.ReadOnly {
		block("remount it read-write; nodeagent keeps the kubelet's files there", "/etc is on a read-only filesystem")
	}
	if f.Var.ReadOnly {
		block("remount it read-write", "/var/lib is on a read-only filesystem")
	}
	switch off := s.Now.Before(notBefore) || s.Now.After(notBefore.AddDate(50, 0, 0)); {
	case off && spec.Time.SyncTimeout.Duration > 0:
		warn("the clock says %s: nothing is fetched before it is synchronised (spec.time)", s.Now.Format(time.DateOnly))
	case off:
		block("start chronyd (or another NTP client) and run again", "the clock says %s: no certificate would be valid then", s.Now.Format(time.DateOnly))
	}
	switch free := f.Var.FreeBytes; {
	case f.Var.Type == "":
	case free < leastFree:
		block("free at least 5 GiB", "/var/lib has only %s left", change.Size(int64(free)))
	case free < fewFree:
		warn("/var/lib has only %s left; images need more unless /var/lib/containerd gets a disk of its own", change.Size(int64(free)))
	}
	if f.KubeletPort && !f.KubeletRuns && !f.Joined {
		if f.Listener != "" {
			block("stop it, or have it listen elsewhere", "%s listens on port 10250, which the kubelet needs", f.Listener)
		} else {
			block("see who it is: ss -ltnp 'sport = :10250'", "something else listens on port 10250, which the kubelet needs")
		}
	}
	if s.MemoryBytes > 0 && s.MemoryBytes < leastMem {
		warn("the host has only %s of memory", change.Size(s.MemoryBytes))
	}
	switch id := s.MachineID; {
	case id == "" || id == "uninitialized":
		warn("/etc/machine-id is empty: this host has no identity of its own yet")
	case strings.Trim(id, "0123456789abcdef") != "" || len(id) != 32 || strings.Trim(id, id[:1]) == "":
		warn("/etc/machine-id is %q, which can't be one of its own: make one with systemd-machine-id-setup", id)
	}
	if u := s.UUID; slices.Contains(shared, u) || u != "" && strings.Trim(u, u[:1]+"-") == "" {
		warn("the DMI product UUID %s is one that many machines share; some storage and network plugins take them for one node", u)
	}
	return p
}

// unified is how a host is made to boot with cgroup v2, by the tool that its
// family keeps kernel arguments with.
func unified(family distro.Family) string {
	const argument = "systemd.unified_cgroup_hierarchy=1"
	switch family {
	case distro.EL:
		return "add the kernel argument " + argument + " (grubby --update-kernel=ALL --args=" + argument + ")"
	case distro.Photon:
		return "in photon_cmdline of /boot/photon.cfg add " + argument + " and take systemd.legacy_systemd_cgroup_controller=yes out"
	}
	return "add the kernel argument " + argument
}

func checkName(name string, warn func(string, ...any), block func(string, string, ...any)) {
	lower := strings.ToLower(name)
	near := ""
	if n := nodename.Suggest(name); n != "" {
		near = ": " + n
	}
	switch {
	case nodename.None(name):
		block("set spec.hostname, or let DHCP give a name before this runs", "the host has no name of its own: it is %q", name)
	case !nodename.Valid(lower):
		block("set spec.hostname"+near, "host name %q can't be a node name: lower-case letters, digits, dashes and dots only", name)
	case len(lower) > nodename.Longest:
		block("set spec.hostname to a shorter one", "host name %s has %d characters; a node's has %d at most", name, len(lower), nodename.Longest)
	case lower != name:
		warn("the node will be called %s: node names are in lower case", lower)
	}
}

func kernelVersion(release string) [2]int {
	var v [2]int
	if n, _ := fmt.Sscanf(release, "%d.%d", &v[0], &v[1]); n != 2 {
		return [2]int{}
	}
	return v
}
