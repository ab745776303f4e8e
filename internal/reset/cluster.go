package reset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/join/mint"
)

const (
	kubeletUnit = "kubelet.service"
	kubeletDir  = "/var/lib/kubelet"
	cniDir      = "/etc/cni/net.d"
)

// joinFiles are what kubeadm join writes.
var joinFiles = []string{host.KubeletConf, "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt"}

// kubeletState is what kubelet and kubeadm keep in kubelet's directory; other
// names there are the administrator's.
var kubeletState = []string{"actuated_pods_state", "allocated_pods_state", "checkpoints", "config.yaml", "cpu_manager_state", "device-plugins",
	"dra_manager_state", "instance-config.yaml", "kubeadm-flags.env", "memory_manager_state", "pki", "plugins", "plugins_registry",
	"pod-resources", "pod_status_manager_state", "pods", "usernamespaces"}

// cluster is what makes this host a node.
type cluster struct {
	node    host.Node
	kubelet host.Unit
	pods    []string
	silent  string // why the runtime can't be asked for pods
	volumes []string
	state   []string // of kubelet, since the join
	plugin  []string // files of the network plugin's, since the join
	network host.ClusterNetwork
	empty   []string
}

// there lists which of a node's files exist.
func there(v host.View) ([]string, error) {
	var out []string
	for _, p := range joinFiles {
		info, err := v.Stat(p)
		if err != nil {
			return nil, err
		}
		if info.Exists {
			out = append(out, p)
		}
	}
	for _, dir := range []string{kubeletDir, cniDir} {
		names, err := v.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, n := range names {
			if dir == cniDir || slices.Contains(kubeletState, n) {
				out = append(out, path.Join(dir, n))
			}
		}
	}
	return out, nil
}

// cluster observes what a join and the time since have brought.
func (o observer) cluster(d Deed, c change.Join) (err error) {
	_, prior, _ := first[change.Join](d)
	k := &o.f.Cluster
	*k = cluster{}
	if k.node, err = o.v.Node(o.ctx, ""); err != nil {
		return err
	}
	units, err := o.v.Units(o.ctx, []string{kubeletUnit})
	if err != nil {
		return err
	}
	k.kubelet = units[kubeletUnit]
	if k.pods, err = o.v.Pods(o.ctx, c.Socket); err != nil {
		k.pods, k.silent = nil, err.Error()
	}
	now, err := there(o.v)
	if err != nil {
		return err
	}
	for _, p := range now {
		switch {
		case slices.Contains(prior.There, p):
		case strings.HasPrefix(p, cniDir+"/"):
			k.plugin = append(k.plugin, p)
		default:
			k.state = append(k.state, p)
		}
	}
	if k.network, err = o.v.ClusterNetwork(o.ctx); err != nil {
		return err
	}
	if prior.Network != nil {
		k.network = k.network.Without(*prior.Network)
	}
	if k.empty, err = emptied(o.v, d.made(), now...); err != nil {
		return err
	}
	k.volumes, err = o.volumes()
	return err
}

// volumes are the mounts below kubelet's directory that kubelet made: those that
// no unit of anybody's asks for. Deepest first.
func (o observer) volumes() ([]string, error) {
	mounts, err := o.v.Mounts()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range mounts {
		if !strings.HasPrefix(m.Target, kubeletDir+"/") {
			continue
		}
		name := unit.UnitNamePathEscape(m.Target) + ".mount"
		u, err := o.v.Units(o.ctx, []string{name})
		if err != nil {
			return nil, err
		}
		if f := u[name].FragmentPath; f == "" || strings.HasPrefix(f, "/run/systemd/transient/") {
			out = append(out, m.Target)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return out, nil
}

// leave takes this host out of its cluster, as kubeadm reset would: kubelet
// first, which would start again what ends, then pods, their volumes, and what
// they leave.
func (p *planner) leave(_ Deed, c change.Join) verdict {
	k := p.f.Cluster
	var v verdict
	if k.node.Joined {
		state := "a node"
		if k.node.Ready {
			state = "a Ready node"
		}
		v.left = append(v.left, fmt.Sprintf("this host is %s of %s, and nodeagent doesn't drain it: before, kubectl drain %s --ignore-daemonsets --delete-emptydir-data; afterwards, kubectl delete node %s", state, k.node.Server, k.node.Name, k.node.Name))
	}
	if s := k.kubelet.ActiveState; s == "active" || s == "activating" || s == "reloading" {
		v.add(0, change.SetUnit{Unit: kubeletUnit, Stop: true, Why: "this host leaves its cluster"})
	}
	if len(k.pods) > 0 {
		v.add(0, change.StopPods{Socket: c.Socket, Pods: k.pods})
	}
	if len(k.volumes) > 0 {
		v.add(0, change.UnmountVolumes{Targets: k.volumes})
	}
	if len(k.state) > 0 {
		if k.silent != "" {
			v.left = append(v.left, "pods can't be stopped, since the runtime can't be asked: "+k.silent)
		}
		v.add(1, change.RemoveState{Paths: k.state, Dirs: k.empty, What: "what kubeadm and kubelet keep of the cluster"})
	}
	if len(k.plugin) > 0 {
		v.add(1, change.RemoveState{Paths: k.plugin, What: "the network plugin's configuration, which came after the join"})
	}
	if !k.network.Empty() {
		v.add(1, change.CleanNetwork(k.network))
	}
	return v
}

// undoToken takes away what a token has left at its source. One in guestinfo
// that no join has used stays there; only its record goes.
func (p *planner) undoToken() verdict {
	var v verdict
	acts, warnings := p.f.Token.Changes(p.f.Joined)
	v.left = warnings
	for _, c := range acts {
		v.add(1, c)
	}
	if p.f.Token.Exists && len(acts) == 0 {
		v.add(1, change.RemoveFile{Path: mint.RecordPath, What: "forget the join token of an earlier run"})
	}
	return v
}
