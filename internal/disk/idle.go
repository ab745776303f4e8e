package disk

import (
	"regexp"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
)

// index are the files that containerd makes below its root when it starts, and
// which describe nothing as long as there is no other file: the metadata store
// and the stores of snapshotters (containerd's docs/ops.md). An image that ships
// a running containerd has them before anybody could mount a disk there.
var index = regexp.MustCompile(`^/var/lib/containerd/io\.containerd\.(metadata\.v1\.bolt/meta|snapshotter\.v1\.[a-z0-9]+/metadata)\.db$`)

// stopIdle stops a containerd that runs without holding anything, before its
// directory is mounted over: it would go on writing to files that nobody sees.
// The runtime step starts it on the disk.
func stopIdle(d config.Disk, c choice, f Facts) (change.SetUnit, bool) {
	const service = "containerd.service"
	if f.Targets[d.MountPath].Index == 0 || f.mounted(d, c.device) {
		return change.SetUnit{}, false
	}
	switch f.Units[service].ActiveState {
	case "active", "activating", "reloading":
		return change.SetUnit{Unit: service, Stop: true, Why: "it holds nothing yet, and its directory goes to disk " + d.Name}, true
	}
	return change.SetUnit{}, false
}
