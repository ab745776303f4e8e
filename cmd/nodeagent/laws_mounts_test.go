package main

import (
	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

// withExports is a Rocky host that can mount NFS, and has a directory to bind.
func withExports() *hosttest.World {
	w := hosttest.Rocky9()
	w.Files["/usr/sbin/mount.nfs4"] = hosttest.File{Mode: "0755"}
	w.Files["/home/shared/readme"] = hosttest.File{Content: "theirs\n"}
	return w
}

// mounting asks for one mount of each sort: in memory, bound from the host,
// bound from a data disk, over the network, and bound from the network.
func mounting(spec config.Spec) config.Spec {
	spec.Mounts = []config.Mount{
		{What: "/srv/nfs", Where: "/srv/v-images", Type: "none", Options: []string{"bind", "ro"}},
		{What: "server.example:/export", Where: "/srv/nfs", Type: "nfs4", Options: []string{"hard", "nfsvers=4.2"}},
		{What: "tmpfs", Where: "/srv/scratch", Type: "tmpfs", Options: []string{"size=50%", "mode=1777"}},
		{What: "/home/shared", Where: "/srv/shared", Type: "none", Options: []string{"bind"}},
		{What: "/var/lib/kubelet/logs", Where: "/var/log/pods", Type: "none", Options: []string{"bind"}},
	}
	return spec
}
