// Package kubelet is the step that settles how kubelet will run on this node:
// the patch kubeadm lays over the cluster's configuration, the flags, and the
// unit. On a node that has joined it also mends what differs from that.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Files of this step.
const (
	PatchDirectory = "/etc/kubernetes/patches"
	PatchPath      = PatchDirectory + "/kubeletconfiguration0+strategic.json"
	ConfigPath     = "/var/lib/kubelet/config.yaml"       // written by kubeadm join
	FlagsPath      = "/var/lib/kubelet/kubeadm-flags.env" // written by kubeadm join, overwriting
	sysconfigPath  = "/etc/sysconfig/kubelet"
	defaultPath    = "/etc/default/kubelet"
	unitName       = "kubelet.service"

	// patchSum remembers which patch is ours, so that somebody else's is never
	// overwritten.
	patchSum = "/var/lib/nodeagent/kubelet-patch.sha256"
	// restartNote stands while kubelet still has to be restarted for something
	// that was written.
	restartNote = "/var/lib/nodeagent/kubelet-restart"

	flagsVariable = "KUBELET_KUBEADM_ARGS"
	extraVariable = "KUBELET_EXTRA_ARGS"

	systemdResolv = "/run/systemd/resolve/resolv.conf"
	etcResolv     = "/etc/resolv.conf"
	clusterCA     = "/etc/kubernetes/pki/ca.crt" // written by kubeadm join
)

// Facts is what was observed.
type Facts struct {
	Joined       bool      `json:"joined"`
	Unit         host.Unit `json:"unit"`
	PatchDirLink string    `json:"patchDirLink,omitempty"` // target, when the directory is a link
	OtherPatches []string  `json:"otherPatches,omitempty"` // patches of kubelet's configuration that aren't ours by name
	Patch        host.Text `json:"patch"`
	PatchSum     host.Text `json:"patchSum"`
	Config       host.Text `json:"config"` // on a joined node
	Flags        host.Text `json:"flags"`  // on a joined node
	Sysconfig    host.Text `json:"sysconfig"`
	Default      host.Text `json:"default"`
	Restart      host.Text `json:"restart"`
	Systemd      Resolver  `json:"systemdResolved"`
	Etc          Resolver  `json:"resolvConf"`
	Route        bool      `json:"route"` // a default route is there, so name servers would be known
	// Missing are files that the configuration names for kubelet and that don't
	// exist, by the field that names them.
	Missing map[string]string `json:"missing,omitempty"`
	Swap    bool              `json:"swap"` // swap is in use
}

// Resolver is a resolv.conf.
type Resolver struct {
	Exists  bool     `json:"exists"`
	Link    string   `json:"link,omitempty"` // its target, when it is a symbolic link
	Servers []string `json:"servers,omitempty"`
}

// real tells whether a pod could use one of its servers.
func (r Resolver) real() bool {
	for _, s := range r.Servers {
		s, _, _ = strings.Cut(s, "%")
		if a, err := netip.ParseAddr(s); err == nil && !a.IsLoopback() && !a.IsUnspecified() {
			return true
		}
	}
	return false
}

// Observe reads kubelet's files and unit.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Missing: map[string]string{}}
	node, err := v.Node(ctx, "")
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.Joined = node.Joined
	units, err := v.Units(ctx, []string{unitName})
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.Unit = units[unitName]
	texts := []struct {
		path string
		to   *host.Text
		when bool
	}{{PatchPath, &f.Patch, true}, {patchSum, &f.PatchSum, true}, {sysconfigPath, &f.Sysconfig, true}, {defaultPath, &f.Default, true},
		{restartNote, &f.Restart, true}, {ConfigPath, &f.Config, f.Joined}, {FlagsPath, &f.Flags, f.Joined}}
	for _, t := range texts {
		if !t.when {
			continue
		}
		if *t.to, err = host.ReadText(v, t.path); err != nil {
			return f, err
		}
	}
	if err := f.observePatches(v); err != nil {
		return f, err
	}
	for path, to := range map[string]*Resolver{systemdResolv: &f.Systemd, etcResolv: &f.Etc} {
		if *to, err = resolver(v, path); err != nil {
			return f, err
		}
	}
	if net, err := v.Network(); err == nil {
		f.Route = len(net.Defaults) > 0
	} else if !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	for field, path := range namedFiles(spec.Kubelet.Config) {
		info, err := v.Stat(path)
		if err != nil {
			return f, err
		}
		if !info.Exists {
			f.Missing[field] = path
		}
	}
	swaps, err := v.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without swap, or a tree of files
		err = nil
	}
	f.Swap = strings.Count(strings.TrimSpace(string(swaps)), "\n") > 0 // the first line is a heading
	return f, err
}

func (f *Facts) observePatches(v host.View) error {
	dir, err := v.Stat(PatchDirectory)
	if err != nil || !dir.Exists {
		return err
	}
	f.PatchDirLink = dir.Link
	names, err := v.ReadDir(PatchDirectory)
	if err != nil {
		return fmt.Errorf("reading %s: %w", PatchDirectory, err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "kubeletconfiguration") && PatchDirectory+"/"+n != PatchPath {
			f.OtherPatches = append(f.OtherPatches, n)
		}
	}
	return nil
}

func resolver(v host.View, path string) (Resolver, error) {
	t, err := host.ReadText(v, path)
	return Resolver{t.Exists, t.Link, servers(t.Content)}, err
}

// servers lists the name servers of a resolv.conf (resolv.conf(5)).
func servers(content string) []string {
	var out []string
	for line := range strings.Lines(content) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "nameserver" {
			out = append(out, f[1])
		}
	}
	return out
}

// namedFiles are the files that a fragment names and kubelet can't start
// without. The cluster's CA isn't among them: kubeadm join writes it.
func namedFiles(config map[string]any) map[string]string {
	out := map[string]string{}
	for _, field := range []string{"tlsCertFile", "tlsPrivateKeyFile"} {
		if s, ok := config[field].(string); ok && s != "" {
			out[field] = s
		}
	}
	authentication, _ := config["authentication"].(map[string]any)
	x509, _ := authentication["x509"].(map[string]any)
	if s, ok := x509["clientCAFile"].(string); ok && s != "" && s != clusterCA {
		out["authentication.x509.clientCAFile"] = s
	}
	return out
}
