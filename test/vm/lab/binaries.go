package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Versions of what the lab runs. kubeVersion and containerdVersion are also
// those of test/vm/kube/go.mod.
const (
	kubeVersion       = "1.35.4"
	containerdVersion = "2.2.9"
	crictlVersion     = "1.34.0"
)

// binaries builds the control plane's, the node's and the lab's own programs
// into one directory.
func (c *cache) binaries(ctx context.Context) (string, error) {
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	kube := filepath.Join(src, "kube")
	key, err := fileKeys(filepath.Join(kube, "go.mod"), filepath.Join(kube, "go.sum"), filepath.Join(kube, "etcd", "main.go"))
	if err != nil {
		return "", err
	}
	minor := strings.Split(kubeVersion, ".")[1]
	version := "k8s.io/component-base/version."
	ldflags := fmt.Sprintf("-s -w -X %[1]sgitVersion=v%[2]s -X %[1]sgitMajor=1 -X %[1]sgitMinor=%[3]s -X %[1]sgitTreeState=clean -X github.com/containerd/containerd/v2/version.Version=%[4]s -X sigs.k8s.io/cri-tools/pkg/version.Version=v%[5]s",
		version, kubeVersion, minor, containerdVersion, crictlVersion)
	key = append(key, ldflags, runtime.Version())
	return c.artefact("bin", key, func(dir string) error {
		build := command{dir: kube, env: []string{"CGO_ENABLED=0", "GOBIN=" + dir, "GOWORK=off", "GOFLAGS=-buildvcs=false"}}
		install := func(pkgs ...string) error {
			args := append([]string{"install", "-trimpath", "-ldflags", ldflags}, pkgs...)
			_, err := build.run(ctx, "go", args...)
			return err
		}
		var pkgs []string
		for _, p := range []string{"kubeadm", "kubelet", "kube-apiserver", "kube-controller-manager", "kubectl"} {
			pkgs = append(pkgs, "k8s.io/kubernetes/cmd/"+p)
		}
		for _, p := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
			pkgs = append(pkgs, "github.com/containerd/containerd/v2/cmd/"+p)
		}
		if err := install(append(pkgs, "nodeagent/test/vm/kube/etcd")...); err != nil {
			return err
		}
		// crictl has its own dependencies: by version, outside of any module.
		build.dir = dir
		return install("sigs.k8s.io/cri-tools/cmd/crictl@v" + crictlVersion)
	})
}

// podBinary builds the program inside the lab's container images.
func (c *cache) podBinary(ctx context.Context) (string, error) {
	src, err := sourceDir()
	if err != nil {
		return "", err
	}
	pod := filepath.Join(src, "pod")
	key, err := fileKeys(filepath.Join(pod, "main.go"))
	if err != nil {
		return "", err
	}
	return c.artefact("pod", append(key, runtime.Version()), func(dir string) error {
		build := command{dir: pod, env: []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}}
		_, err := build.run(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "pod"), ".")
		return err
	})
}
