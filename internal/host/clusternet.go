package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/iptables"
)

// ClusterNetwork is what kube-proxy, kubelet and network plugins keep in the
// kernel, by name.
type ClusterNetwork struct {
	Chains   []string `json:"chains,omitempty"`   // "nft ipv4 nat KUBE-SERVICES"
	Tables   []string `json:"tables,omitempty"`   // of nftables: "ip kube-proxy"
	Services []string `json:"services,omitempty"` // of IPVS: "TCP 10.96.0.1:443"
	Links    []string `json:"links,omitempty"`
}

// Without is what n has and o has not.
func (n ClusterNetwork) Without(o ClusterNetwork) ClusterNetwork {
	less := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return ClusterNetwork{less(n.Chains, o.Chains), less(n.Tables, o.Tables), less(n.Services, o.Services), less(n.Links, o.Links)}
}

// Empty tells whether there is nothing.
func (n ClusterNetwork) Empty() bool {
	return len(n.Chains)+len(n.Tables)+len(n.Services)+len(n.Links) == 0
}

// clusterLinks are the links that kube-proxy, node-local DNS and network plugins
// make, by their fixed names.
var clusterLinks = []string{"kube-ipvs0", "nodelocaldns", "cni0", "flannel.1", "flannel-v6.1", "flannel-wg", "flannel-wg-v6", "cilium_host", "cilium_net",
	"cilium_vxlan", "cilium_geneve", "cilium_wg0", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali", "kube-bridge", "antrea-gw0", "ovn0"}

// clusterTables are tables of nftables that kube-proxy and the plugins of the CNI
// project make.
var clusterTables = []string{"kube-proxy", "cni_hostport", "cni_plugins_masquerade"}

// ClusterNetwork finds them. Nothing is loaded or made by looking.
func (l *Linux) ClusterNetwork(ctx context.Context) (ClusterNetwork, error) {
	if !l.Live() {
		return ClusterNetwork{}, ErrUnobservable
	}
	return once(l, "cluster network", func() (n ClusterNetwork, err error) {
		saves, err := l.allRules(ctx)
		if err != nil {
			return n, err
		}
		for _, s := range saves {
			for _, c := range iptables.ClusterChains(s.text) {
				n.Chains = append(n.Chains, s.variant+" "+s.family+" "+c)
			}
		}
		if n.Tables, err = l.clusterTables(ctx); err != nil {
			return n, err
		}
		return n, clusterOfKernel(l.text("/proc/net/ip_vs"), &n)
	})
}

// save is what iptables-save prints of all tables of one variant and family.
type save struct{ variant, family, text string }

// allRules are those of every variant that is installed. The legacy programs
// read only tables that the kernel has already.
func (l *Linux) allRules(ctx context.Context) ([]save, error) {
	usual, err := l.usualVariant(ctx)
	if err != nil || usual == "" {
		return nil, err
	}
	var out []save
	for _, variant := range []string{"nft", "legacy"} {
		for _, f := range families {
			if f.enabled != "" {
				if info, err := l.Stat(f.enabled); err != nil || !info.Exists {
					continue // the kernel has no IPv6
				}
			}
			if info, err := l.Stat(f.names); variant == "legacy" && (err != nil || !info.Exists) {
				continue
			}
			name, err := l.variantProgram(f.program, variant, usual, "-save")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			r, err := l.exec(ctx, program{name: name})
			if err != nil {
				return nil, err
			}
			if r.exit != 0 {
				if variant != usual { // a kernel without nf_tables has no rules there
					continue
				}
				return nil, fail.New(fail.Step, "run it by hand", "%s exited with %d: %s", name, r.exit, r.last())
			}
			out = append(out, save{variant, f.name, string(r.stdout)})
		}
	}
	return out, nil
}

func (l *Linux) clusterTables(ctx context.Context) ([]string, error) {
	if _, err := l.LookPath("nft"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r, err := l.must(ctx, program{name: "nft", args: []string{"list", "tables"}})
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(r.stdout)) {
		f := strings.Fields(line) // table FAMILY NAME
		if len(f) == 3 && f[0] == "table" && slices.Contains(clusterTables, f[2]) {
			out = append(out, f[1]+" "+f[2])
		}
	}
	return out, nil
}

// applyCleanNetwork removes each thing by its name. What is gone already is
// fine; nothing is flushed but the chains that are removed.
func (l *Linux) applyCleanNetwork(ctx context.Context, c change.CleanNetwork, _ func(string)) error {
	usual, err := l.usualVariant(ctx)
	if err != nil {
		return err
	}
	saves, err := l.allRules(ctx)
	if err != nil {
		return err
	}
	for _, s := range saves {
		var chains []string
		for _, name := range c.Chains {
			if chain, ok := strings.CutPrefix(name, s.variant+" "+s.family+" "); ok {
				chains = append(chains, chain)
			}
		}
		if input := iptables.DropChains(s.text, chains); input != "" {
			if err := l.restore(ctx, s.family, s.variant, usual, input); err != nil {
				return fmt.Errorf("removing the cluster's chains: %w", err)
			}
		}
	}
	tables, err := l.clusterTables(ctx)
	if err != nil {
		return err
	}
	for _, t := range c.Tables {
		if family, name, _ := strings.Cut(t, " "); slices.Contains(tables, t) {
			if _, err := l.must(ctx, program{name: "nft", args: []string{"delete", "table", family, name}}); err != nil {
				return err
			}
		}
	}
	return removeFromKernel(c)
}
