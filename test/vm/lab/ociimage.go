package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
)

// PauseImage and PodImage are the names of the lab's two container images.
// There is no registry: they are imported into a guest's containerd.
const (
	PauseImage = "registry.lab.test/pause:1"
	PodImage   = "registry.lab.test/pod:1"
)

// images writes pause.tar and pod.tar, both around the one pod program.
func (c *cache) images(ctx context.Context) (string, error) {
	pod, err := c.podBinary(ctx)
	if err != nil {
		return "", err
	}
	return c.artefact("images", []string{pod, PauseImage, PodImage, "v1"}, func(dir string) error {
		for file, name := range map[string]string{"pause.tar": PauseImage, "pod.tar": PodImage} {
			if err := ociArchive(filepath.Join(dir, file), name, filepath.Join(pod, "pod")); err != nil {
				return err
			}
		}
		return nil
	})
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ociArchive writes an OCI image layout, as one tar, whose only layer holds the
// program.
func ociArchive(file, name, program string) error {
	var layer bytes.Buffer
	if err := writeTar(&layer, []File{{Path: "/pod", Mode: 0o755, From: program}}); err != nil {
		return err
	}
	files := []File{{Path: "/oci-layout", Content: `{"imageLayoutVersion":"1.0.0"}`}}
	add := func(mediaType string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		files = append(files, File{Path: "/blobs/sha256/" + digest, Content: string(content)})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
	}
	addJSON := func(mediaType string, v any) (descriptor, error) {
		b, err := json.Marshal(v)
		return add(mediaType, b), err
	}
	layerDesc := add("application/vnd.oci.image.layer.v1.tar", layer.Bytes())
	config, err := addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pod"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerDesc.Digest}},
	})
	if err != nil {
		return err
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := addJSON(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layerDesc},
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	files = append(files, File{Path: "/index.json", Content: string(index)})
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeTar(f, files); err != nil {
		return err
	}
	return f.Close()
}
