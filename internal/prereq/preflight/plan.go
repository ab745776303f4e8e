package preflight

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
)

const (
	leastFree = 1 << 30 // below this an installation can't end well
	fewFree   = 5 << 30
	leastMem  = 1700 << 20 // kubeadm's own limit for control planes; less starves pods
)

// notBefore is older than any release this program can join: an earlier clock
// makes every certificate "not yet valid".
var notBefore = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// shared are DMI UUIDs that vendors left in whole series of boards.
var shared = []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc"}

// Plan changes nothing: it warns and blocks, everything at once.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	warn := func(format string, a ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, a...)) }
	block := func(hint, format string, a ...any) {
		p.Blocked = append(p.Blocked, fail.New(fail.Step, hint, format, a...))
	}
	minor := Minor(spec.Kubernetes.Version)
	if minor < 31 || minor > 37 {
		warn("Kubernetes %s is outside the releases 1.31 to 1.37 that nodeagent knows", spec.Kubernetes.Version)
	}
	s := f.System
	name := spec.Hostname
	if name == "" {
		name = s.Hostname
	}
	checkName(name, warn, block)
	if s.Cgroup == 1 {
		switch {
		case minor >= 35:
			block("add the kernel argument systemd.unified_cgroup_hierarchy=1 (grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1) and reboot, or use Kubernetes 1.34",
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
	if f.Etc.ReadOnly {
		block("remount it read-write; nodeagent keeps the kubelet's files there", "/etc is on a read-only filesystem")
	}
	if f.Var.ReadOnly {
		block("remount it read-write", "/var/lib is on a read-only filesystem")
	}
	if s.Now.Before(notBefore) {
		block("start chronyd (or another NTP client) and run again", "the clock says %s: every certificate would be \"not yet valid\"", s.Now.Format(time.DateOnly))
	}
	switch free := f.Var.FreeBytes; {
	case f.Var.Type == "":
	case free < leastFree:
		block("free at least 5 GiB", "/var/lib has only %s left", change.Size(int64(free)))
	case free < fewFree:
		warn("/var/lib has only %s left; images need more unless /var/lib/containerd gets a disk of its own", change.Size(int64(free)))
	}
	if f.KubeletPort && !f.KubeletRuns && !f.Joined {
		block("see who it is: ss -ltnp 'sport = :10250'", "something else listens on port 10250, which the kubelet needs")
	}
	if s.MemoryBytes > 0 && s.MemoryBytes < leastMem {
		warn("the host has only %s of memory", change.Size(s.MemoryBytes))
	}
	if s.MachineID == "" || s.MachineID == "uninitialized" {
		warn("/etc/machine-id is empty: this host has no identity of its own yet")
	}
	for _, id := range shared {
		if s.UUID == id {
			warn("the DMI product UUID %s is one that many machines share; some storage and network plugins take them for one node", id)
		}
	}
	return p
}

func checkName(name string, warn func(string, ...any), block func(string, string, ...any)) {
	lower := strings.ToLower(name)
	suggestion := strings.Trim(regexp.MustCompile(`[^a-z0-9.-]+`).ReplaceAllString(lower, "-"), "-.")
	switch {
	case name == "" || lower == "localhost" || strings.HasPrefix(lower, "localhost."):
		block("set spec.hostname, or let DHCP give a name before this runs", "the host has no name of its own: it is %q", name)
	case !nodeName.MatchString(lower) || len(lower) > 253:
		block("set spec.hostname: "+suggestion, "host name %q can't be a node name: lower-case letters, digits, dashes and dots only", name)
	case lower != name:
		warn("the node will be called %s: node names are in lower case", lower)
	}
}

// Minor is the minor number of a release: 35 of v1.35.4; 0 if there is none.
func Minor(version string) int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

func kernelVersion(release string) [2]int {
	var v [2]int
	if n, _ := fmt.Sscanf(release, "%d.%d", &v[0], &v[1]); n != 2 {
		return [2]int{}
	}
	return v
}
