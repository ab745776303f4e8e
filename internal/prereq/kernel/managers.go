package kernel

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

const (
	nmPath       = "/etc/NetworkManager/conf.d/99-nodeagent-cni.conf"
	networkdPath = "/etc/systemd/networkd.conf.d/90-nodeagent.conf"
	nmUnit       = "NetworkManager.service"
	networkdUnit = "systemd-networkd.service"
)

// cloudSetup are the units of nm-cloud-setup(8), whose routing table loses
// traffic between host and pods.
var cloudSetup = []string{"nm-cloud-setup.timer", "nm-cloud-setup.service"}

// pluginInterfaces are what network plugins make: Calico, Cilium, flannel and
// plugins on bridges, Kube-OVN, and kube-proxy's own.
var pluginInterfaces = []string{"cali*", "tunl*", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali",
	"cilium*", "lxc*", "flannel*", "cni*", "ovn0", "kube-ipvs0"}

// Managers is what manages the host's network.
type Managers struct {
	Units        map[string]host.Unit `json:"units,omitempty"`
	NM           host.Text            `json:"networkManagerFile"`
	Networkd     host.Text            `json:"networkdFile"`
	NetworkdTime int64                `json:"networkdFileChanged,omitempty"` // µs since the epoch
	// Systemd is its release, as its shared library's name has it; 0 when that
	// can't be told.
	Systemd int `json:"systemd,omitempty"`
}

// keepsForeign is the first release of systemd whose networkd deletes routes
// and rules of others, and has a setting against it (systemd's NEWS, 248).
const keepsForeign = 248

func observeManagers(ctx context.Context, v host.View) (Managers, error) {
	var m Managers
	var err error
	if m.Units, err = v.Units(ctx, append([]string{nmUnit, networkdUnit}, cloudSetup...)); err != nil && !errors.Is(err, host.ErrUnobservable) {
		return m, err
	}
	if m.NM, err = host.ReadText(v, nmPath); err != nil {
		return m, err
	}
	if m.Networkd, err = host.ReadText(v, networkdPath); err != nil {
		return m, err
	}
	info, err := v.Stat(networkdPath)
	m.NetworkdTime = info.Modified
	if err != nil {
		return m, err
	}
	names, err := v.ReadDir("/usr/lib/systemd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	m.Systemd = systemdRelease(names)
	return m, nil
}

// systemdRelease is 252 of libsystemd-shared-252-46.el9.so.
func systemdRelease(names []string) int {
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, "libsystemd-shared-"); ok {
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
			if r, err := strconv.Atoi(digits); err == nil {
				return r
			}
		}
	}
	return 0
}

// planManagers keeps the network managers that are there from what a plugin
// makes.
func planManagers(spec config.Spec, m Managers) change.Plan {
	var p change.Plan
	for _, name := range cloudSetup {
		u := m.Units[name]
		if u.LoadState == "loaded" && (strings.HasPrefix(u.UnitFileState, "enabled") || u.ActiveState == "active") {
			p.Changes = append(p.Changes, change.SetUnit{Unit: name, Disable: true, Why: "its routing rules lose traffic between host and pods"})
		}
	}
	if spec.Firewall.CNI == "none" {
		return p
	}
	if m.Units[nmUnit].LoadState == "loaded" {
		if c, writes := m.NM.Write(nmPath, "0644", "root:root", nmFile(), "keep NetworkManager off the interfaces of network plugins"); writes {
			c.Reload = nmUnit // it drops no connection for that
			p.Changes = append(p.Changes, c)
		}
	}
	if u := m.Units[networkdUnit]; (m.Systemd == 0 || m.Systemd >= keepsForeign) && u.LoadState == "loaded" && (u.ActiveState == "active" || strings.HasPrefix(u.UnitFileState, "enabled")) {
		c, writes := m.Networkd.Write(networkdPath, "0644", "root:root", networkdFile, "keep systemd-networkd from deleting routes of network plugins")
		if writes {
			p.Changes = append(p.Changes, c)
		}
		if u.ActiveState == "active" && (writes || u.StartedAt > 0 && u.StartedAt < m.NetworkdTime) {
			p.Notes = append(p.Notes, "systemd-networkd reads "+networkdPath+" when it starts next, at the next boot at the latest; it isn't restarted for it, since that could cut this host off")
		}
	}
	return p
}

// nmFile is for NetworkManager.conf(5): += adds to what other files list.
func nmFile() string {
	var list []string
	for _, i := range pluginInterfaces {
		list = append(list, "interface-name:"+i)
	}
	return "# Written by nodeagent: network plugins manage these interfaces themselves.\n[keyfile]\nunmanaged-devices+=" + strings.Join(list, ";") + "\n"
}

// networkdFile is for networkd.conf(5); release 248 knows the first key only and
// skips the other.
const networkdFile = `# Written by nodeagent: routes and rules of network plugins stay.
[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
`
