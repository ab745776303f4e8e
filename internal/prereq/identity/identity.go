// Package identity gives the host its name when the configuration has one.
package identity

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// Facts is what was observed.
type Facts struct {
	Hostname string `json:"hostname"`
	// Static and Kernel are its parts, when a name is asked for: what is in
	// /etc/hostname and what the kernel says now.
	Static string `json:"static,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// CloudInit is set when cloud-init will write the name again at boot.
	CloudInit bool `json:"cloudInit,omitempty"`
}

// Observe reads the host's name and whether cloud-init owns it.
func Observe(_ context.Context, v host.View, spec config.Spec) (Facts, error) {
	sys, err := v.System()
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Hostname: sys.Hostname}
	if spec.Hostname == "" {
		return f, nil
	}
	static, err := host.ReadText(v, "/etc/hostname")
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(static.Content) { // hostname(5)
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && f.Static == "" {
			f.Static = line
		}
	}
	if v.Live() {
		kernel, err := v.ReadFile("/proc/sys/kernel/hostname")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f.Kernel = strings.TrimSpace(string(kernel))
	}
	if info, err := v.Stat("/etc/cloud/cloud.cfg"); err != nil || !info.Exists {
		return f, err
	}
	if disabled, err := v.Stat("/etc/cloud/cloud-init.disabled"); err != nil || disabled.Exists {
		return f, err
	}
	f.CloudInit = true
	names, _ := v.ReadDir("/etc/cloud/cloud.cfg.d") // absent on some hosts
	paths := []string{"/etc/cloud/cloud.cfg"}
	for _, n := range names {
		if strings.HasSuffix(n, ".cfg") {
			paths = append(paths, "/etc/cloud/cloud.cfg.d/"+n)
		}
	}
	for _, p := range paths {
		t, err := host.ReadText(v, p)
		if err != nil {
			return f, err
		}
		for line := range strings.Lines(t.Content) {
			if k, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && k == "preserve_hostname" {
				f.CloudInit = strings.TrimSpace(value) != "true"
			}
		}
	}
	return f, nil
}

// Plan sets the name when it is given and differs.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if spec.Hostname == "" {
		return p
	}
	want := spec.Hostname
	switch {
	case f.Hostname != want:
		p.Changes = append(p.Changes, change.SetHostname{Name: want, Before: f.Hostname})
	case f.Kernel != "" && f.Kernel != want: // /etc/hostname was written without telling the kernel
		p.Changes = append(p.Changes, change.SetHostname{Name: want, Before: f.Kernel})
	case f.Static != want: // DHCP gave it, and may give another one next time
		p.Changes = append(p.Changes, change.SetHostname{Name: want, Before: f.Static})
	}
	if f.CloudInit {
		p.Warnings = append(p.Warnings, "cloud-init writes /etc/hostname again at every boot: give it this name in its user-data, or preserve_hostname: true")
	}
	return p
}
