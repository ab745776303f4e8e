package packages

import (
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/distro"
)

// manager is what planning has to know about a package manager.
type manager struct {
	name string
	// names are the distribution's own names of what Kubernetes needs.
	names names
	// downgrade is the command a person uses to go back.
	downgrade string
	// lock plans how the Kubernetes packages are kept from drifting.
	lock func(spec config.Spec, f Facts, installing []string) lockPlan
}

// names are packages by distribution.
type names struct {
	iptables, conntrack, socat, ethtool, criTools, selinux, xfs, ext4 string
}

// none is the manager of hosts whose packages are part of their image.
const none = "none"

var managers = map[string]manager{
	"dnf": {
		name: "dnf",
		names: names{iptables: "iptables", conntrack: "conntrack-tools", socat: "socat", ethtool: "ethtool", criTools: "cri-tools",
			selinux: "container-selinux", xfs: "xfsprogs", ext4: "e2fsprogs"},
		downgrade: "dnf downgrade --disableexcludes=all", lock: lockDnf,
	},
	"tdnf": {
		name: "tdnf",
		names: names{iptables: "iptables", conntrack: "conntrack-tools", socat: "socat", ethtool: "ethtool", criTools: "cri-tools",
			xfs: "xfsprogs", ext4: "e2fsprogs"},
		downgrade: "tdnf downgrade", lock: lockTdnf,
	},
	none: {name: none},
}

// resolve chooses the package manager: the one asked for, or the one of the
// distribution. On an unsupported distribution it must be asked for.
func resolve(spec config.Spec, f Facts) (manager, error) {
	h := distro.Classify(f.Evidence)
	switch m := spec.Packages.Manager; {
	case m != "" && m != "auto":
		return managers[m], nil
	case h.Family == distro.EL:
		return managers["dnf"], nil
	case h.Family == distro.Photon:
		return managers["tdnf"], nil
	case h.Family == distro.Immutable:
		return managers[none], nil
	}
	return managers[none], fail.New(fail.Usage,
		"nodeagent supports Rocky Linux and its kin, Photon OS and Alauda OS; set packages.manager to dnf, tdnf or none to try it here all the same",
		"%s is not a supported distribution (%s)", f.Evidence.Release.Name(), h.Why)
}
