package packages

import (
	"strconv"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/kubelet/release"
	"nodeagent/internal/prereq/distro"
	"nodeagent/internal/prereq/rpmspec"
	"nodeagent/internal/prereq/runtime"
)

// kubernetes are the packages that must not drift from the configured release.
var kubernetes = []string{"kubelet", "kubeadm", "kubectl"}

// want is what a host shall have.
type want struct {
	required []string
	// optional are asked for in the transaction that installs required ones, and
	// left out when no repository has them. They alone cause no transaction, or
	// a host that can't have them would never be done.
	optional []string
}

// wanted lists the packages, as arguments for the package manager.
func wanted(spec config.Spec, f Facts, m manager) want {
	version := strings.TrimPrefix(spec.Kubernetes.Version, "v")
	family := distro.Classify(f.Evidence).Family
	var w want
	// The release field differs by repository, so any will do (kubelet-1.28.3-0
	// matches nothing).
	w.require("kubelet-"+version+"-*", "kubeadm-"+version+"-*", m.names.iptables)
	w.optional = []string{m.names.criTools, m.names.socat, m.names.ethtool}
	// kubeadm's preflight makes a missing conntrack an error before 1.33.
	if minor, _ := release.Minor(version); minor < 33 {
		w.require(m.names.conntrack)
	} else {
		w.optional = append(w.optional, m.names.conntrack)
	}
	switch runtime.Source(spec.Runtime, f.Runtime) {
	case runtime.FromPackage:
		w.require(runtime.Packages(spec.Runtime, family)...)
	case runtime.Preinstalled:
		// Photon's containerd comes without the shim that starts containers.
		if family == distro.Photon && f.Runtime.Binary != "" && !f.Runtime.Shim {
			w.require("containerd-extras")
		}
	}
	if f.SELinux != "" && f.SELinux != "disabled" {
		w.require(m.names.selinux)
	}
	for _, d := range spec.Disks {
		switch {
		case d.MountPath == "":
		case d.Filesystem.Type == "xfs":
			w.require(m.names.xfs)
		case d.Filesystem.Type == "ext4":
			w.require(m.names.ext4)
		}
	}
	// EL 10 moved br_netfilter and other modules Kubernetes needs out of the base
	// kernel. Without this very release dnf would bring a newer kernel's.
	if family == distro.EL && f.Evidence.Release.Major() >= 10 && f.Kernel != "" && !f.Bridge {
		w.require("kernel-modules-extra-" + f.Kernel)
	}
	w.require(spec.Packages.Install...)
	w.drop()
	return w
}

// require adds packages, each once; a name the distribution hasn't is empty.
func (w *want) require(specs ...string) {
	for _, s := range specs {
		if s != "" {
			w.required = append(w.required, s)
		}
	}
}

// drop takes out what is named twice. A version that the user names wins over
// the bare name.
func (w *want) drop() {
	versioned := map[string]bool{}
	for _, s := range w.required {
		if n := rpmspec.Name(s); n != s {
			versioned[n] = true
		}
	}
	seen := map[string]bool{}
	keep := func(list []string) []string {
		var out []string
		for _, s := range list {
			if s == "" || seen[s] || versioned[s] {
				continue
			}
			seen[s] = true
			out = append(out, s)
		}
		return out
	}
	w.required, w.optional = keep(w.required), keep(w.optional)
}

// missing are the arguments that what is installed doesn't satisfy.
func missing(specs []string, installed map[string]string) []string {
	var out []string
	for _, s := range specs {
		if !rpmspec.Satisfied(s, installed) {
			out = append(out, s)
		}
	}
	return out
}

// numbers are the first three numbers of a version.
func numbers(version string) [3]int {
	var out [3]int
	version, _, _ = strings.Cut(version, "-")
	for i, s := range strings.SplitN(version, ".", 4) {
		if i == 3 {
			break
		}
		out[i], _ = strconv.Atoi(s)
	}
	return out
}

// older tells whether version a comes before version b.
func older(a, b string) bool {
	x, y := numbers(a), numbers(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}
