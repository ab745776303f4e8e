// Package swap plans that no swap is in use, now and after every boot. It
// observes and plans; it writes nothing.
package swap

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/swap/area"
)

const fstabPath = "/etc/fstab"

// gptSwapType is the partition type that systemd-gpt-auto-generator(8) turns on
// without any configuration.
const gptSwapType = "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"

// Facts is what was observed.
type Facts struct {
	Areas []area.Area `json:"areas,omitempty"` // in use
	Fstab host.Text   `json:"fstab"`
	// Units are .swap units by name, and active services named after swap.
	Units map[string]host.Unit `json:"units,omitempty"`
	Zram  map[string]host.Text `json:"zram,omitempty"` // configuration of zram-generator that counts, by path
	// GPT are partitions that their partition table calls swap. They are looked
	// for only when there is swap to turn off.
	GPT []string `json:"gpt,omitempty"`
	// Links are what the device links of fstab and of units lead to: the kernel
	// lists areas by its own names.
	Links map[string]string `json:"links,omitempty"`
}

// Observe reads every place that swap can come from.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	b, err := v.ReadFile("/proc/swaps")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without swap, or a tree of files
		return f, err
	}
	f.Areas = area.Parse(string(b))
	if spec.Swap.Mode == "keep" {
		return f, nil
	}
	if f.Fstab, err = host.ReadText(v, fstabPath); err != nil {
		return f, err
	}
	if f.Units, err = v.SwapUnits(ctx); err != nil && !errors.Is(err, host.ErrUnobservable) {
		return f, err
	}
	if f.Zram, err = readZram(v); err != nil {
		return f, err
	}
	if _, entries := withoutSwap(f.Fstab.Content); entries > 0 || len(f.Areas) > 0 {
		f.GPT = gptSwap(v)
		f.Links = links(v, f)
	}
	return f, nil
}

// links resolves one link of each device; udev's links are never longer.
func links(v host.View, f Facts) map[string]string {
	devices := fstabDevices(f.Fstab.Content)
	for _, u := range f.Units {
		devices[u.What] = true
	}
	out := map[string]string{}
	for d := range devices {
		info, err := v.Stat(d)
		switch {
		case err != nil || info.Link == "": // a file, or not there now
		case path.IsAbs(info.Link):
			out[d] = path.Clean(info.Link)
		default:
			out[d] = path.Join(path.Dir(d), info.Link)
		}
	}
	return out
}

// gptSwap lists GPT swap partitions from udev's records. Where there are none,
// no generator looks for partitions either.
func gptSwap(v host.View) []string {
	names, _ := v.ReadDir("/sys/class/block") // a container or a tree of files
	var out []string
	for _, n := range names {
		number, err := v.ReadFile(path.Join("/sys/class/block", n, "dev"))
		if err != nil {
			continue
		}
		record, err := v.ReadFile("/run/udev/data/b" + strings.TrimSpace(string(number)))
		if err == nil && isGPTSwap(string(record)) {
			out = append(out, "/dev/"+n)
		}
	}
	return out
}

// isGPTSwap reads a record of udev's database: a property is a line E:KEY=VALUE.
func isGPTSwap(record string) bool {
	gpt, swap := false, false
	for line := range strings.Lines(record) {
		switch strings.TrimSpace(line) {
		case "E:ID_PART_ENTRY_SCHEME=gpt":
			gpt = true
		case "E:ID_PART_ENTRY_TYPE=" + gptSwapType:
			swap = true
		}
	}
	return gpt && swap
}
