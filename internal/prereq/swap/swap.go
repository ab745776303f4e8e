package swap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// zramEtc overrides the vendor's zram-generator.conf; an empty file there
// means no device (zram-generator.conf(5)).
const zramEtc = "/etc/systemd/zram-generator.conf"

var zramVendor = []string{"/run/systemd/zram-generator.conf", "/usr/local/lib/systemd/zram-generator.conf", "/usr/lib/systemd/zram-generator.conf"}

// Facts is what was observed.
type Facts struct {
	Areas   []Area               `json:"areas,omitempty"`
	Fstab   host.Text            `json:"fstab"`
	Units   map[string]host.Unit `json:"units,omitempty"`
	ZramEtc host.Text            `json:"zramEtc"`
	Zram    []string             `json:"zram,omitempty"` // vendor files that make zram devices
}

// Observe reads /proc/swaps, fstab, the swap units and zram-generator's files.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	if spec.Swap.Mode == "keep" {
		return f, nil
	}
	b, err := v.ReadFile("/proc/swaps")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f.Areas = active(string(b))
	if f.Fstab, err = host.ReadText(v, "/etc/fstab"); err != nil {
		return f, err
	}
	if f.Units, err = v.SwapUnits(ctx); err != nil {
		return f, err
	}
	if f.ZramEtc, err = host.ReadText(v, zramEtc); err != nil {
		return f, err
	}
	for _, path := range zramVendor {
		t, err := host.ReadText(v, path)
		if err != nil {
			return f, err
		}
		if makesZram(t.Content) {
			f.Zram = append(f.Zram, path)
		}
	}
	return f, nil
}

// makesZram tells whether a zram-generator.conf has a section for a device.
func makesZram(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "[zram") {
			return true
		}
	}
	return false
}

// Plan takes away what brings swap back at boot first and turns the areas off
// last, so that a run cut off in between is finished by the next.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if spec.Swap.Mode == "keep" {
		if on, _ := spec.Kubelet.Config["failSwapOn"].(bool); on || spec.Kubelet.Config["failSwapOn"] == nil {
			p.Warnings = append(p.Warnings, "swap is kept, and the kubelet won't start with swap on unless kubelet.config has failSwapOn: false")
		}
		return p
	}
	reload := false
	if text, n := disable(f.Fstab.Content); n > 0 {
		if c, ok := f.Fstab.Keep("/etc/fstab", text, fmt.Sprintf("disable %d swap entry(ies) in /etc/fstab", n)); ok {
			p.Changes = append(p.Changes, c)
			reload = true
		}
	}
	if makesZram(f.ZramEtc.Content) || len(f.Zram) > 0 && !f.ZramEtc.Exists {
		if c, ok := f.ZramEtc.Write(zramEtc, "0644", "root:root", "", "no zram swap: empty "+zramEtc); ok {
			p.Changes = append(p.Changes, c)
			reload = true
		}
	}
	names := make([]string, 0, len(f.Units))
	for n := range f.Units {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		u := f.Units[n]
		if u.LoadState != "loaded" {
			continue
		}
		switch made := u.FragmentPath; {
		case made == "": // made from /proc/swaps: gone when the area is off
		case strings.HasPrefix(made, "/run/systemd/generator"):
			switch {
			case u.SourcePath == "/etc/fstab", strings.HasPrefix(u.What, "/dev/zram"):
				reload = true // what it is made from is taken away above
			default: // systemd-gpt-auto-generator(8): the partition's type asks for it
				p.Changes = append(p.Changes, change.MaskUnit{Unit: n, Why: "a generator makes it from the partition table, nothing in fstab does"})
			}
		case u.UnitFileState == "enabled" || u.UnitFileState == "enabled-runtime":
			p.Changes = append(p.Changes, change.SetUnit{Unit: n, Disable: true, Why: "swap"})
		case u.UnitFileState == "static":
			p.Changes = append(p.Changes, change.MaskUnit{Unit: n, Why: "something pulls it in at boot"})
		}
	}
	for _, a := range f.Areas {
		p.Changes = append(p.Changes, change.SwapOff{Area: a.Name, Unit: unitOf(a.Name)})
	}
	if reload {
		p.Changes = append(p.Changes, change.SetUnit{Unit: "swap.target", Reload: true, Why: "forget the generated swap units"})
	}
	return p
}
