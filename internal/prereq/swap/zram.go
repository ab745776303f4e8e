package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"nodeagent/internal/host"
)

// zramDirs are where zram-generator.conf(5) and its drop-ins are looked for,
// strongest first.
var zramDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"}

const zramName = "zram-generator.conf"

// readZram returns the configuration files of zram-generator that count, by
// path. A file hides those of the same name in weaker directories.
func readZram(v host.View) (map[string]host.Text, error) {
	out, seen := map[string]host.Text{}, map[string]bool{}
	for _, dir := range zramDirs {
		names := []string{zramName}
		dropins, err := v.ReadDir(path.Join(dir, zramName+".d"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading %s.d: %w", path.Join(dir, zramName), err)
		}
		for _, n := range dropins {
			if strings.HasSuffix(n, ".conf") {
				names = append(names, zramName+".d/"+n)
			}
		}
		for _, n := range names {
			if seen[n] {
				continue
			}
			t, err := host.ReadText(v, path.Join(dir, n))
			if err != nil {
				return nil, err
			}
			if seen[n] = t.Exists; t.Exists {
				out[path.Join(dir, n)] = t
			}
		}
	}
	return out, nil
}

// zramOverride is the file in /etc that hides a configuration file.
func zramOverride(file string) string {
	for _, dir := range zramDirs {
		if rest, ok := strings.CutPrefix(file, dir+"/"); ok {
			return path.Join(zramDirs[0], rest)
		}
	}
	return file
}

// withoutZramSwap leaves away the sections that make swap: those of a zram
// device that neither has a mount point nor another filesystem. What is before
// the first kept section goes too.
func withoutZramSwap(text string) (edited string, removed int) {
	var kept, section strings.Builder
	device, swap := false, true
	flush := func() {
		switch {
		case device && swap:
			removed++
		case device:
			kept.WriteString(section.String())
		}
		section.Reset()
	}
	for line := range strings.Lines(text) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "[") && strings.HasSuffix(t, "]") {
			flush()
			device, swap = strings.HasPrefix(t, "[zram"), true
		}
		key, value, _ := strings.Cut(t, "=")
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); {
		case key == "mount-point" && value != "", key == "fs-type" && value != "swap" && value != "":
			swap = false
		}
		section.WriteString(line)
	}
	flush()
	if removed == 0 {
		return text, 0
	}
	return kept.String(), removed
}
