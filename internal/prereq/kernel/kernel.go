// Package kernel plans the modules and sysctls that Kubernetes needs, now and
// after every boot, and that no network manager touches a plugin's interfaces.
// It observes and plans; it writes nothing.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/kernel/sysctld"
)

// Files of this step. The sysctl file's name sorts after hardening files at 50-
// and after 99-sysctl.conf, which is /etc/sysctl.conf on many hosts; what still
// sorts after it and contradicts is told.
const (
	modulesPath = "/etc/modules-load.d/nodeagent.conf"
	sysctlName  = "99-zz-nodeagent.conf"
	sysctlPath  = "/etc/sysctl.d/" + sysctlName
	oldSysctls  = "/etc/sysctl.conf"
)

// Facts is what was observed.
type Facts struct {
	Kernel string `json:"kernel"`
	// Tree is whether the running kernel's modules are on disk.
	Tree        bool              `json:"tree"`
	Modules     map[string]bool   `json:"modules"` // wanted ones: loaded or built in
	ModulesLoad host.Text         `json:"modulesLoad"`
	Sysctls     map[string]string `json:"sysctls"` // effective values of wanted keys; absent when the kernel has none
	SysctlFile  host.Text         `json:"sysctlFile"`
	// Later are settings in files that are read after ours, by file.
	Later map[string][]sysctld.Setting `json:"later,omitempty"`
	// RouterAdvertisements are interfaces on which the kernel itself takes IPv6
	// routes, and stops to when it forwards.
	RouterAdvertisements []string `json:"routerAdvertisements,omitempty"`
	Managers             Managers `json:"managers"`
}

// Observe reads what the plan needs; no program is started.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Modules: map[string]bool{}, Sysctls: map[string]string{}, Later: map[string][]sysctld.Setting{}}
	s, err := v.System()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	f.Kernel = s.Kernel
	if err := f.observeModules(v, modules(spec)); err != nil {
		return f, err
	}
	if err := f.observeSysctls(v, spec); err != nil {
		return f, err
	}
	f.Managers, err = observeManagers(ctx, v)
	return f, err
}

func (f *Facts) observeModules(v host.View, names []string) error {
	loaded := map[string]bool{}
	text, err := optional(v, "/proc/modules")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, " "); ok {
			loaded[moduleName(name)] = true
		}
	}
	tree := "/lib/modules/" + f.Kernel
	info, err := v.Stat(tree)
	if err != nil {
		return err
	}
	f.Tree = f.Kernel != "" && info.Exists
	if f.Tree {
		if text, err = optional(v, tree+"/modules.builtin"); err != nil {
			return err
		}
		for line := range strings.Lines(text) { // kernel/fs/overlayfs/overlay.ko
			file := path.Base(strings.TrimSpace(line))
			name, _, _ := strings.Cut(file, ".ko")
			loaded[moduleName(name)] = true
		}
	}
	for _, name := range names {
		present := loaded[moduleName(name)]
		// A module that is built in shows there when the list above is missing.
		for _, sign := range append([]string{"/sys/module/" + moduleName(name)}, signs[name]...) {
			if !present {
				info, err := v.Stat(sign)
				if err != nil {
					return err
				}
				present = info.Exists
			}
		}
		f.Modules[name] = present
	}
	if f.ModulesLoad, err = host.ReadText(v, modulesPath); err != nil {
		return err
	}
	return nil
}

// signs are what exists only when a module is in the kernel.
var signs = map[string][]string{"br_netfilter": {"/proc/sys/net/bridge/bridge-nf-call-iptables"}}

// moduleName is the kernel's spelling: it takes dashes for underscores.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

func (f *Facts) observeSysctls(v host.View, spec config.Spec) error {
	wanted := sysctls(spec)
	for pattern := range wanted {
		for _, key := range expand(v, pattern) {
			file, ok := host.SysctlPath(key)
			if !ok {
				continue
			}
			b, err := v.ReadFile(file)
			switch {
			case err == nil:
				f.Sysctls[key] = host.SysctlValue(string(b))
			case !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("reading sysctl %s: %w", key, err)
			}
		}
	}
	var err error
	if f.SysctlFile, err = host.ReadText(v, sysctlPath); err != nil {
		return err
	}
	if err := f.observeLater(v, wanted); err != nil {
		return err
	}
	if _, v6 := wanted[forwarding6]; v6 {
		return f.observeAdvertisements(v)
	}
	return nil
}

// expand lists the sysctls that a key with stars stands for now.
func expand(v host.View, key string) []string {
	if !strings.Contains(key, "*") {
		return []string{key}
	}
	file, ok := host.SysctlPath(key)
	if !ok {
		return nil
	}
	found := []string{"/"}
	for _, part := range strings.Split(strings.TrimPrefix(file, "/"), "/") {
		var next []string
		for _, dir := range found {
			names := []string{part}
			if strings.Contains(part, "*") {
				names, _ = v.ReadDir(dir) // not there: it stands for nothing
			}
			for _, n := range names {
				if ok, err := path.Match(part, n); ok && err == nil {
					next = append(next, path.Join(dir, n))
				}
			}
		}
		found = next
	}
	var out []string
	for _, f := range found {
		out = append(out, sysctld.Dotted(strings.TrimPrefix(f, "/proc/sys/")))
	}
	return out
}

// observeLater keeps the settings of wanted keys in files that are read after
// ours. sysctl(8) reads /etc/sysctl.conf last of all.
func (f *Facts) observeLater(v host.View, wanted map[string]string) error {
	names := map[string][]string{}
	for _, dir := range sysctld.Dirs() {
		list, err := v.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		names[dir] = list
	}
	for _, file := range append(sysctld.After(sysctlName, names), oldSysctls) {
		t, err := host.ReadText(v, file)
		if err != nil {
			return err
		}
		for _, s := range sysctld.Parse(t.Content) {
			for key := range wanted {
				if sysctld.Matches(s.Key, sysctld.Dotted(key)) {
					f.Later[file] = append(f.Later[file], sysctld.Setting{Key: key, Value: s.Value})
				}
			}
		}
	}
	return nil
}

func (f *Facts) observeAdvertisements(v host.View) error {
	const dir = "/proc/sys/net/ipv6/conf"
	names, err := v.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	network, err := v.Network()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return err
	}
	for _, n := range names {
		for _, d := range network.Defaults {
			if d.Interface != n || d.Family != "ipv6" {
				continue
			}
			accept, err := optional(v, path.Join(dir, n, "accept_ra"))
			if err != nil {
				return err
			}
			if strings.TrimSpace(accept) == "1" {
				f.RouterAdvertisements = append(f.RouterAdvertisements, n)
			}
		}
	}
	return nil
}

// optional reads a file that may be missing.
func optional(v host.View, path string) (string, error) {
	b, err := v.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}
