package lab

import (
	"context"
	"path/filepath"
)

// Assets are what Prepare built: paths in the cache.
type Assets struct {
	Bin      string            // Kubernetes, etcd, containerd programs
	Base     string            // the Debian tree below every flavour
	Keys     string            // signing keys, ssh key
	Repos    string            // document root of the lab's web server
	Images   string            // pause.tar and pod.tar
	Flavours map[string]string // by name: rootfs/, root.img and perhaps state.img
	Vmlinuz  string
	Initrd   string

	cacheDir string
}

// SSHKey is the private key that guests accept.
func (a *Assets) SSHKey() string { return filepath.Join(a.Keys, "id") }

// Prepare builds whatever of the lab isn't in the cache yet. It needs the
// network, so it runs before Enter.
func Prepare(ctx context.Context, log *Log, flavours ...Flavour) (*Assets, error) {
	c, err := openCache(log)
	if err != nil {
		return nil, err
	}
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()

	a := &Assets{cacheDir: c.dir, Flavours: map[string]string{}}
	if a.Keys, err = c.keys(ctx); err != nil {
		return nil, err
	}
	if a.Base, err = c.rootfs(ctx, nil); err != nil {
		return nil, err
	}
	if a.Bin, err = c.binaries(ctx); err != nil {
		return nil, err
	}
	if a.Images, err = c.images(ctx); err != nil {
		return nil, err
	}
	if a.Repos, err = c.repos(ctx, a.Base, a.Bin, a.Keys); err != nil {
		return nil, err
	}
	for _, f := range flavours {
		if a.Flavours[f.Name], err = c.flavour(ctx, f, a.Base, a.Bin, a.Repos, a.Keys); err != nil {
			return nil, err
		}
	}
	a.Vmlinuz, a.Initrd, err = kernel(filepath.Join(a.Base, "rootfs"))
	return a, err
}
