package config

import (
	"path"
	"slices"
	"strings"
)

// networkTypes are the filesystem types that need the network, each with the
// program that mount(8) needs for it, and the packages that have it.
var networkTypes = map[string]MountHelper{
	"nfs":       {"mount.nfs", []string{"nfs-utils", "nfs-client", "nfs-common"}},
	"nfs4":      {"mount.nfs4", []string{"nfs-utils", "nfs-client", "nfs-common"}},
	"cifs":      {"mount.cifs", []string{"cifs-utils"}},
	"smb3":      {"mount.smb3", []string{"cifs-utils"}},
	"ceph":      {"mount.ceph", []string{"ceph-common"}},
	"glusterfs": {"mount.glusterfs", []string{"glusterfs-fuse", "glusterfs", "glusterfs-client"}},
	"lustre":    {"mount.lustre", []string{"lustre-client"}},
}

// localTypes need no program but mount(8) itself. 9p is here because it mostly
// comes from the hypervisor.
var localTypes = []string{"none", "tmpfs", "hugetlbfs", "virtiofs", "9p"}

// MountHelper is a program that mount(8) calls for a filesystem type.
type MountHelper struct {
	Program  string
	Packages []string // that have it, of RHEL and Photon, SUSE, Debian
}

// Helper is the program that mounts this type; ok is false when the kernel
// alone does.
func (m Mount) Helper() (h MountHelper, ok bool) {
	h, ok = networkTypes[m.Type]
	return h, ok
}

// Bind tells whether the mount shows a directory a second time.
func (m Mount) Bind() bool { return m.Type == "none" }

// network tells whether the mount itself needs the network.
func (m Mount) network() bool {
	_, remote := networkTypes[m.Type]
	return remote || slices.Contains(m.Options, "_netdev") || m.Type == "9p" && slices.ContainsFunc(m.Options, func(o string) bool {
		return strings.HasPrefix(o, "trans=") && o != "trans=virtio"
	})
}

// after tells whether m can be mounted only when other is: it lies on it, or
// shows a directory of it.
func (m Mount) after(other Mount) bool {
	return m.Where != other.Where && within(other.Where, m.Where) || m.Bind() && within(other.Where, m.What)
}

// RemoteMounts are the mount points that need the network, in their own right
// or because they lie on, or show, one that does. Whatever waits for the
// network may not be waited for by local-fs.target, which the network waits for.
func (s Spec) RemoteMounts() map[string]bool {
	remote := map[string]bool{}
	for _, m := range s.Mounts {
		if m.network() {
			remote[m.Where] = true
		}
	}
	for again := true; again; {
		again = false
		for _, m := range s.Mounts {
			if !remote[m.Where] && slices.ContainsFunc(s.Mounts, func(o Mount) bool { return remote[o.Where] && m.after(o) }) {
				remote[m.Where], again = true, true
			}
		}
	}
	return remote
}

// MountsInOrder are the mounts in an order in which each can be mounted. Those
// that wait for each other are left over.
func (s Spec) MountsInOrder() (order, circle []Mount) {
	circle = slices.Clone(s.Mounts)
	for len(circle) > 0 {
		i := slices.IndexFunc(circle, func(m Mount) bool {
			return !slices.ContainsFunc(circle, m.after)
		})
		if i < 0 {
			break
		}
		order = append(order, circle[i])
		circle = slices.Delete(circle, i, i+1)
	}
	return order, circle
}

// within tells whether p is dir or lies below it.
func within(dir, p string) bool {
	dir = path.Clean(dir)
	return dir == p || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
