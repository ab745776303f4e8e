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
	"nodeagent/internal/prereq/cloudinit"
)

// Facts is what was observed.
type Facts struct {
	Hostname string `json:"hostname"`
	// Static and Kernel are its parts, when a name is asked for: what is in
	// /etc/hostname and what the kernel says now.
	Static string `json:"static,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// CloudInit is what it will write again at boot.
	CloudInit cloudinit.Settings `json:"cloudInit,omitzero"`
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
	f.CloudInit, err = cloudinit.Read(v)
	return f, err
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
	for _, path := range f.CloudInit.Unread {
		p.Warnings = append(p.Warnings, path+" is no YAML: whether cloud-init keeps the host's name isn't known")
	}
	if f.CloudInit.Hostname {
		p.Warnings = append(p.Warnings, "cloud-init writes /etc/hostname again at every boot: give it this name in its user-data, or preserve_hostname: true")
	}
	return p
}
