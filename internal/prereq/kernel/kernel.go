// Package kernel loads modules, sets sysctls, and keeps network managers off
// the network plugin's interfaces; now and after every boot.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// Our files. The sysctl file sorts after 99-sysctl.conf, which is
// /etc/sysctl.conf on many hosts, and after hardening files at 50-.
const (
	modulesFile = "/etc/modules-load.d/nodeagent.conf"
	sysctlDir   = "/etc/sysctl.d"
	sysctlName  = "99-zz-nodeagent.conf"
	nmFile      = "/etc/NetworkManager/conf.d/99-nodeagent-cni.conf"
)

// unmanaged keeps NetworkManager off the interfaces of network plugins
// (NetworkManager.conf(5), keyfile.unmanaged-devices).
const unmanaged = `# Written by nodeagent: these belong to the cluster's network plugin.
[keyfile]
unmanaged-devices=interface-name:cali*;interface-name:tunl*;interface-name:vxlan.calico;interface-name:cilium*;interface-name:lxc*;interface-name:flannel*;interface-name:cni*;interface-name:ovn0
`

// cloudSetup rewrites ip rules so that traffic between host and pods is lost.
var cloudSetup = []string{"nm-cloud-setup.timer", "nm-cloud-setup.service"}

// Facts is what was observed.
type Facts struct {
	Kernel     string               `json:"kernel"`
	NoModules  bool                 `json:"noModules,omitempty"` // /lib/modules/KERNEL is gone
	Loaded     map[string]bool      `json:"loaded"`              // of the wanted modules: loaded or built in
	Modules    host.Text            `json:"modulesFile"`
	Values     map[string]string    `json:"values"` // effective, of the wanted sysctls that exist
	Sysctls    host.Text            `json:"sysctlFile"`
	Overridden map[string]string    `json:"overridden,omitempty"` // key → later file that sets another value
	Units      map[string]host.Unit `json:"units,omitempty"`
	NM         host.Text            `json:"networkManagerFile"`
}

// modules are those wanted: kubeadm's two and the configuration's.
func modules(spec config.Spec) []string {
	out := []string{"overlay", "br_netfilter"}
	for _, m := range spec.Kernel.Modules {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// Observe reads what is loaded, set, and written; it starts no program.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Loaded: map[string]bool{}, Values: map[string]string{}, Overridden: map[string]string{}}
	sys, err := v.System()
	if err != nil {
		return f, err
	}
	f.Kernel = sys.Kernel
	if err := f.observeModules(v, modules(spec)); err != nil {
		return f, err
	}
	for _, t := range []struct {
		path string
		to   *host.Text
	}{{modulesFile, &f.Modules}, {path.Join(sysctlDir, sysctlName), &f.Sysctls}, {nmFile, &f.NM}} {
		if *t.to, err = host.ReadText(v, t.path); err != nil {
			return f, err
		}
	}
	want := wanted(spec)
	for k := range want {
		if b, err := v.ReadFile(host.SysctlPath(k)); err == nil {
			f.Values[k] = normal(string(b))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if f.Overridden, err = later(v, want); err != nil {
		return f, err
	}
	f.Units, err = v.Units(ctx, append([]string{"NetworkManager.service"}, cloudSetup...))
	if errors.Is(err, host.ErrUnobservable) {
		err = nil
	}
	return f, err
}

func (f *Facts) observeModules(v host.View, wanted []string) error {
	loaded, err := v.ReadFile("/proc/modules")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(loaded)) {
		name, _, _ := strings.Cut(line, " ")
		have[name] = true
	}
	dir := "/lib/modules/" + f.Kernel
	builtin, err := v.ReadFile(dir + "/modules.builtin")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(builtin)) {
		name := strings.TrimSpace(path.Base(line))
		name, _, _ = strings.Cut(name, ".ko")
		have[strings.ReplaceAll(name, "-", "_")] = true
	}
	for _, m := range wanted {
		norm := strings.ReplaceAll(m, "-", "_")
		info, err := v.Stat("/sys/module/" + norm)
		if err != nil {
			return err
		}
		f.Loaded[m] = have[norm] || info.Exists
	}
	info, err := v.Stat(dir)
	f.NoModules = f.Kernel != "" && !info.Exists
	return err
}

// later finds the files that systemd-sysctl reads after ours and that set a
// wanted key to another value.
func later(v host.View, want map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for _, dir := range []string{"/usr/lib/sysctl.d", "/run/sysctl.d", sysctlDir} {
		names, err := v.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, n := range names {
			if n <= sysctlName || !strings.HasSuffix(n, ".conf") {
				continue
			}
			t, err := host.ReadText(v, path.Join(dir, n))
			if err != nil {
				return nil, err
			}
			for k, value := range assignments(t.Content) {
				if w, ok := want[k]; ok && normal(w) != value {
					out[k] = path.Join(dir, n)
				}
			}
		}
	}
	return out, nil
}

// Plan loads first, since br_netfilter brings the bridge sysctls.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	var missing []string
	for _, m := range modules(spec) {
		if !f.Loaded[m] {
			missing = append(missing, m)
			p.Changes = append(p.Changes, change.LoadModule{Name: m})
		}
	}
	if f.NoModules && len(missing) > 0 {
		p.Changes = nil
		p.Blocked = append(p.Blocked, fail.New(fail.Step, "reboot into the kernel that is installed, then run again",
			"module %s can't be loaded: the running kernel %s has no /lib/modules/%s any more (it was replaced)", strings.Join(missing, ", "), f.Kernel, f.Kernel))
		return p
	}
	text := "# Written by nodeagent\n" + strings.Join(modules(spec), "\n") + "\n"
	if c, ok := f.Modules.Write(modulesFile, "0644", "root:root", text, ""); ok {
		p.Changes = append(p.Changes, c)
	}
	want := wanted(spec)
	if c, ok := f.Sysctls.Write(path.Join(sysctlDir, sysctlName), "0644", "root:root", dropIn(want), ""); ok {
		p.Changes = append(p.Changes, c)
	}
	for _, k := range keys(want) {
		if now, ok := f.Values[k]; !ok || now != normal(want[k]) {
			p.Changes = append(p.Changes, change.SetSysctl{Key: k, Value: want[k], Before: now})
		}
		if file, ok := f.Overridden[k]; ok {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s sets %s to another value and is read after %s at boot: remove that line", file, k, sysctlName))
		}
	}
	if f.Units["NetworkManager.service"].LoadState == "loaded" && spec.Firewall.CNI != "none" {
		if c, ok := f.NM.Write(nmFile, "0644", "root:root", unmanaged, "keep NetworkManager off the network plugin's interfaces"); ok {
			c.Reload = "NetworkManager.service"
			p.Changes = append(p.Changes, c)
		}
	}
	for _, n := range cloudSetup {
		if u := f.Units[n]; u.LoadState == "loaded" && (u.UnitFileState == "enabled" || u.ActiveState == "active" && strings.HasSuffix(n, ".timer")) {
			p.Changes = append(p.Changes, change.SetUnit{Unit: n, Disable: true, Why: "it rewrites ip rules, and traffic between host and pods is lost"})
		}
	}
	return p
}
