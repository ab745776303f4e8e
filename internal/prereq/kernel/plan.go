package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/kernel/sysctld"
)

// Plan loads modules before it sets sysctls: some sysctls come with a module.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	p.Blocked = refusals(spec, f)
	names := modules(spec)
	if c, ok := f.ModulesLoad.Write(modulesPath, "0644", "root:root", modulesFile(names), "load "+strings.Join(names, ", ")+" at every boot"); ok {
		p.Changes = append(p.Changes, c)
	}
	for _, m := range names {
		if !f.Modules[m] {
			p.Changes = append(p.Changes, change.LoadModule{Name: m})
		}
	}
	wanted := sysctls(spec)
	if c, ok := f.SysctlFile.Write(sysctlPath, "0644", "root:root", sysctlFile(spec, wanted), fmt.Sprintf("set %d sysctls at every boot", len(wanted))); ok {
		p.Changes = append(p.Changes, c)
	}
	p.Changes = append(p.Changes, planSysctls(f, wanted)...)
	p.Warnings = append(p.Warnings, warnings(spec, f, wanted)...)
	managers := planManagers(spec, f.Managers)
	p.Changes = append(p.Changes, managers.Changes...)
	p.Notes = append(p.Notes, managers.Notes...)
	return p
}

// planSysctls sets what isn't as wanted now. A key with stars sets what it
// stands for, unless that has a value of its own.
func planSysctls(f Facts, wanted map[string]string) []change.Change {
	var out []change.Change
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		value := host.SysctlValue(wanted[key])
		if !strings.Contains(key, "*") {
			if now, ok := f.Sysctls[key]; !ok || now != value {
				out = append(out, change.SetSysctl{Key: key, Value: value, Before: now})
			}
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(f.Sysctls)) {
			if _, own := wanted[k]; !own && sysctld.Matches(sysctld.Dotted(key), k) && f.Sysctls[k] != value {
				out = append(out, change.SetSysctl{Key: k, Value: value, Before: f.Sysctls[k]})
			}
		}
	}
	return out
}

// refusals are what no change of this step or an earlier one can mend.
func refusals(spec config.Spec, f Facts) []error {
	var out []error
	var missing []string
	for _, m := range modules(spec) {
		if !f.Modules[m] {
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 && f.Kernel != "" && !f.Tree {
		out = append(out, fail.New(fail.Step, "reboot into the installed kernel, then run again",
			"the running kernel %s has no /lib/modules/%s, so %s can't be loaded: it was replaced by an update", f.Kernel, f.Kernel, strings.Join(missing, " and ")))
	}
	for key, value := range spec.Kernel.Sysctls {
		if _, ok := host.SysctlPath(key); !ok {
			out = append(out, fail.New(fail.Usage, "such as net.ipv4.ip_forward", "spec.kernel.sysctls: %q is not a sysctl", key))
		}
		if want, ok := protected[key]; ok && protects(spec) && host.SysctlValue(value) != want {
			out = append(out, fail.New(fail.Usage, "leave it away, or set protectKernelDefaults to false",
				"spec.kernel.sysctls sets %s to %s, but kubelet with protectKernelDefaults runs only with %s", key, value, want))
		}
	}
	slices.SortFunc(out, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return out
}

func warnings(spec config.Spec, f Facts, wanted map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(needed)) {
		if v, ok := spec.Kernel.Sysctls[key]; ok && host.SysctlValue(v) != needed[key] {
			out = append(out, fmt.Sprintf("spec.kernel.sysctls sets %s to %s; pods need %s", key, v, needed[key]))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(f.Later)) {
		last := map[string]string{} // a file's last word counts
		for _, s := range f.Later[file] {
			last[s.Key] = s.Value
		}
		for _, key := range slices.Sorted(maps.Keys(last)) {
			if want := host.SysctlValue(wanted[key]); host.SysctlValue(last[key]) != want {
				when := "which is read after " + sysctlPath
				if file == oldSysctls {
					when = "which sysctl --system reads last"
				}
				out = append(out, fmt.Sprintf("%s, %s, sets %s to %s instead of %s: take that line out", file, when, key, last[key], want))
			}
		}
	}
	for _, i := range f.RouterAdvertisements {
		key := "net.ipv6.conf." + strings.ReplaceAll(i, ".", "/") + ".accept_ra"
		if host.SysctlValue(spec.Kernel.Sysctls[key]) != "2" {
			out = append(out, fmt.Sprintf("%s has its IPv6 default route from router advertisements, which the kernel ignores once it forwards IPv6: add %s: \"2\" to spec.kernel.sysctls", i, key))
		}
	}
	return out
}

func modulesFile(names []string) string {
	return "# Written by nodeagent.\n" + strings.Join(names, "\n") + "\n"
}

func sysctlFile(spec config.Spec, wanted map[string]string) string {
	var b strings.Builder
	b.WriteString("# Written by nodeagent. It is named so that it is read last.\n")
	if spec.Firewall.CNI == "cilium" {
		for _, line := range ciliumPatterns {
			b.WriteString(line + "\n")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		fmt.Fprintf(&b, "%s = %s\n", key, host.SysctlValue(wanted[key]))
	}
	return b.String()
}
