package swap

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/swap/area"
)

// Plan turns swap off. What keeps it off after a reboot comes first, so that a
// run which can't turn it off now, or is cut off, has not been for nothing.
func Plan(spec config.Spec, f Facts) change.Plan {
	if spec.Swap.Mode == "keep" {
		return keep(spec, f)
	}
	var p change.Plan
	add := func(c change.Change) { p.Changes = append(p.Changes, c) }
	edited, entries := withoutSwap(f.Fstab.Content)
	if c, ok := f.Fstab.Keep(fstabPath, edited, fmt.Sprintf("disable %s in %s", count(entries, "swap entry", "swap entries"), fstabPath)); ok && entries > 0 {
		add(c)
	}
	zram := zramFiles(f)
	for _, c := range zram {
		add(c)
	}
	p.Changes = append(p.Changes, planUnits(f, entries)...)
	for _, a := range f.Areas {
		from := origin(f, a)
		add(change.SwapOff{Area: a.Path, Unit: unitName(a.Path), From: from})
		if from == "" {
			p.Warnings = append(p.Warnings, fmt.Sprintf("nothing that nodeagent knows of turns on swap %s at boot%s: if it is on again after a reboot, look for what runs swapon", a.Path, suspects(f)))
		}
	}
	if stale(f) || len(zram) > 0 {
		add(change.SetUnit{Unit: "swap.target", Reload: true, Why: "so that systemd forgets swap that is configured no more"})
	}
	return p
}

// keep leaves swap alone. kubelet refuses to start beside swap unless told.
func keep(spec config.Spec, f Facts) change.Plan {
	if on, set := spec.Kubelet.Config["failSwapOn"].(bool); set && !on || len(f.Areas) == 0 {
		return change.Plan{}
	}
	return change.Plan{Warnings: []string{"swap.mode is keep and swap is on: kubelet starts only with spec.kubelet.config.failSwapOn: false"}}
}

// zramFiles hide zram-generator's configuration by files in /etc; the vendor's
// stay.
func zramFiles(f Facts) []change.WriteFile {
	var out []change.WriteFile
	for _, file := range slices.Sorted(maps.Keys(f.Zram)) {
		edited, removed := withoutZramSwap(f.Zram[file].Content)
		if removed == 0 {
			continue
		}
		before, to := host.Text{}, zramOverride(file)
		if to == file {
			before = f.Zram[file]
		}
		if c, ok := before.Keep(to, edited, "keep zram-generator from making swap: "+to); ok {
			out = append(out, c)
		}
	}
	return out
}

// planUnits keeps units from coming back. Those that come from fstab alone go
// with its entries.
func planUnits(f Facts, entries int) []change.Change {
	out := map[string]change.Change{}
	for name, u := range f.Units {
		if c, ok := planUnit(f, name, u); ok {
			out[name] = c
		}
	}
	for _, device := range gptAuto(f, entries) {
		name := unitName(device)
		if _, there := out[name]; !there && f.Units[name].LoadState != "masked" {
			out[name] = change.MaskUnit{Unit: name, Why: "systemd-gpt-auto-generator turns on what the partition table calls swap"}
		}
	}
	var list []change.Change
	for _, name := range slices.Sorted(maps.Keys(out)) {
		list = append(list, out[name])
	}
	return list
}

// planUnit decides over one unit; ok is false when it stays off by itself or
// goes with what it is made from. A unit that is enabled is disabled, as an
// administrator would do it; what can't be disabled is masked.
func planUnit(f Facts, name string, u host.Unit) (c change.Change, ok bool) {
	if !strings.HasSuffix(name, ".swap") || u.LoadState == "masked" || u.FragmentPath == "" {
		return nil, false
	}
	if strings.HasPrefix(u.FragmentPath, "/run/systemd/transient/") || u.UnitFileState == "disabled" {
		return nil, false
	}
	if !generated(u) {
		if strings.HasPrefix(u.UnitFileState, "enabled") {
			return change.SetUnit{Unit: name, Disable: true, Why: "it turns on swap at boot"}, true
		}
		if u.UnitFileState == "static" && len(u.WantedBy) == 0 && u.ActiveState != "active" {
			return nil, false // as after it was disabled: nothing pulls it in
		}
		return change.MaskUnit{Unit: name, Why: u.FragmentPath + " can't be disabled: it is " + u.UnitFileState}, true
	}
	switch {
	case forgotten(f, u):
		return nil, false
	case strings.HasPrefix(u.FragmentPath, lateGenerators):
		return change.MaskUnit{Unit: name, Why: "systemd-gpt-auto-generator makes it from the partition table"}, true
	case u.SourcePath != "":
		return change.MaskUnit{Unit: name, Why: "a generator makes it from " + u.SourcePath}, true
	}
	return change.MaskUnit{Unit: name, Why: "a generator makes it at every boot"}, true
}

// Where generators put units; systemd-gpt-auto-generator uses the late one.
const (
	generators     = "/run/systemd/generator"
	lateGenerators = "/run/systemd/generator.late/"
)

func generated(u host.Unit) bool { return strings.HasPrefix(u.FragmentPath, generators) }

// forgotten tells whether a generated unit is made no more once systemd reads
// its configuration again.
func forgotten(f Facts, u host.Unit) bool {
	return !strings.HasPrefix(u.FragmentPath, lateGenerators) && (fromFstab(f, u) || isZram(u.What) && len(f.Zram) > 0)
}

// stale tells whether systemd still holds units of a configuration that goes or
// has gone.
func stale(f Facts) bool {
	for name, u := range f.Units {
		if strings.HasSuffix(name, ".swap") && u.LoadState != "masked" && generated(u) && forgotten(f, u) {
			return true
		}
	}
	return false
}

func fromFstab(f Facts, u host.Unit) bool {
	return u.SourcePath == fstabPath || u.SourcePath == "" && fstabDevices(f.Fstab.Content)[u.What]
}

func isZram(device string) bool { return strings.HasPrefix(device, "/dev/zram") }

// unitName is the swap unit of a device or file (systemd.swap(5)).
func unitName(device string) string { return unit.UnitNamePathEscape(device) + ".swap" }

// origin says for people what turned an area on; empty when nothing known did.
func origin(f Facts, a area.Area) string {
	for d := range fstabDevices(f.Fstab.Content) {
		if f.real(d) == a.Path {
			return fstabPath
		}
	}
	for _, n := range slices.Sorted(maps.Keys(f.Units)) {
		u := f.Units[n]
		if f.real(u.What) != a.Path || u.FragmentPath == "" || !strings.HasSuffix(n, ".swap") {
			continue
		}
		switch {
		case fromFstab(f, u):
			return fstabPath
		case isZram(a.Path) && generated(u):
			return "zram-generator"
		case strings.HasPrefix(u.FragmentPath, lateGenerators):
			return "systemd-gpt-auto-generator"
		}
		return n
	}
	switch {
	case isZram(a.Path) && len(f.Zram) > 0:
		return "zram-generator"
	case slices.Contains(f.GPT, a.Path), isPartition(a):
		return "systemd-gpt-auto-generator"
	}
	return ""
}

// real is the kernel's name of a device.
func (f Facts) real(device string) string {
	if to, ok := f.Links[device]; ok {
		return to
	}
	return device
}

// partition matches kernel names of partitions of plain disks.
var partition = regexp.MustCompile(`^/dev/(?:[hsv]d[a-z]+|xvd[a-z]+|(?:nvme|mmcblk)[0-9n]+p)[0-9]+$`)

// isPartition tells whether an area lies on a partition of a plain disk.
func isPartition(a area.Area) bool { return a.Kind == "partition" && partition.MatchString(a.Path) }

// gptAuto are the partitions that systemd-gpt-auto-generator(8) turns on at the
// next boot: it does so only when fstab has no swap entry left.
func gptAuto(f Facts, entries int) []string {
	var out []string
	if entries > 0 {
		out = append(out, f.GPT...)
	}
	for _, a := range f.Areas {
		if origin(f, a) == "systemd-gpt-auto-generator" {
			out = append(out, a.Path)
		}
	}
	return out
}

// suspects names active services that look as if they made swap.
func suspects(f Facts) string {
	var names []string
	for n, u := range f.Units {
		if strings.HasSuffix(n, ".service") && u.ActiveState == "active" && !strings.HasPrefix(n, "systemd-zram-setup@") {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ", but " + strings.Join(names, " and ") + " may"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
