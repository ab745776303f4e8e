package lab

import (
	"context"
	"path/filepath"
)

// ImportImages loads the lab's images into the guest's containerd, for there is
// no registry.
func (g *Guest) ImportImages(ctx context.Context) error {
	for _, name := range []string{"pause.tar", "pod.tar"} {
		remote := "/run/lab-" + name
		if err := g.CopyIn(ctx, File{Path: remote, From: filepath.Join(g.lab.Assets.Images, name)}); err != nil {
			return err
		}
		if _, err := g.Run(ctx, "ctr --namespace k8s.io images import "+remote+" && rm "+remote); err != nil {
			return err
		}
	}
	return nil
}
