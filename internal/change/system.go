package change

import (
	"fmt"
	"strings"
)

// SetHostname sets the static and the kernel's host name.
type SetHostname struct {
	Name   string `json:"name"`
	Before string `json:"before"`
}

func (c SetHostname) ID() string { return "hostname" }
func (c SetHostname) Summary() string {
	if c.Before == "" {
		return "set host name " + c.Name
	}
	return fmt.Sprintf("set host name %s (was %s)", c.Name, c.Before)
}
func (c SetHostname) Diff() string { return "" }
func (c SetHostname) Class() Class { return Reversible }

// SwapOff stops using one swap area now.
type SwapOff struct {
	Area string `json:"area"`           // device or file as in /proc/swaps
	Unit string `json:"unit"`           // its systemd unit
	From string `json:"from,omitempty"` // what turns it on at boot, for people
}

func (c SwapOff) ID() string { return "swapoff:" + c.Area }
func (c SwapOff) Summary() string {
	from := ""
	if c.From != "" && c.From != c.Unit {
		from = ", from " + c.From
	}
	return "swap off " + c.Area + " (" + c.Unit + from + ")"
}
func (c SwapOff) Diff() string { return "" }
func (c SwapOff) Class() Class { return Reversible }

// MaskUnit stops a unit and keeps it from starting ever again.
type MaskUnit struct {
	Unit string `json:"unit"`
	Why  string `json:"why"`
}

func (c MaskUnit) ID() string      { return "mask:" + c.Unit }
func (c MaskUnit) Summary() string { return fmt.Sprintf("mask %s: %s", c.Unit, c.Why) }
func (c MaskUnit) Diff() string    { return "" }
func (c MaskUnit) Class() Class    { return Reversible }

// SetUnit brings a unit to a state. The systemd manager is reloaded first when
// Reload is set.
type SetUnit struct {
	Unit    string `json:"unit"`
	Reload  bool   `json:"reload,omitempty"`
	Enable  bool   `json:"enable,omitempty"`
	Start   bool   `json:"start,omitempty"`
	Restart bool   `json:"restart,omitempty"` // restarts it when it runs, starts it otherwise
	Disable bool   `json:"disable,omitempty"` // disables and stops it
	Stop    bool   `json:"stop,omitempty"`    // stops it
	OffBoot bool   `json:"offBoot,omitempty"` // disables it and lets it run
	Socket  string `json:"socket,omitempty"`  // CRI socket that must answer afterwards
	Why     string `json:"why,omitempty"`
}

func (c SetUnit) ID() string { return "unit:" + c.Unit }
func (c SetUnit) Summary() string {
	var do []string
	for _, w := range []struct {
		on bool
		is string
	}{{c.Reload, "reload the manager"}, {c.Enable, "enable"}, {c.Start, "start"}, {c.Restart, "restart"}, {c.Disable, "disable and stop"}, {c.OffBoot, "disable"}, {c.Stop, "stop"}} {
		if w.on {
			do = append(do, w.is)
		}
	}
	s := strings.Join(do, ", ") + " " + c.Unit
	if c.Why != "" {
		s += ": " + c.Why
	}
	return s
}
func (c SetUnit) Diff() string { return "" }
func (c SetUnit) Class() Class { return Reversible }

// LoadModule loads a kernel module now.
type LoadModule struct {
	Name string `json:"name"`
}

func (c LoadModule) ID() string      { return "module:" + c.Name }
func (c LoadModule) Summary() string { return "load kernel module " + c.Name }
func (c LoadModule) Diff() string    { return "" }
func (c LoadModule) Class() Class    { return Additive }

// SetSysctl sets a kernel parameter now and checks the effective value.
type SetSysctl struct {
	Key    string `json:"key"` // dotted
	Value  string `json:"value"`
	Before string `json:"before"`
}

func (c SetSysctl) ID() string { return "sysctl:" + c.Key }
func (c SetSysctl) Summary() string {
	if c.Before == "" { // it comes with a module that is loaded first
		return fmt.Sprintf("set %s = %s", c.Key, c.Value)
	}
	return fmt.Sprintf("set %s = %s (was %s)", c.Key, c.Value, c.Before)
}
func (c SetSysctl) Diff() string { return "" }
func (c SetSysctl) Class() Class { return Reversible }

// UpdateTrust makes the bundle of the certificate authorities that the host
// trusts anew from its store, with the distribution's own program.
type UpdateTrust struct {
	Program string `json:"program"` // update-ca-trust, update-ca-certificates, rehash_ca_certificates.sh
	Bundle  string `json:"bundle"`
	Why     string `json:"why,omitempty"`
}

func (c UpdateTrust) ID() string { return "trust:" + c.Bundle }
func (c UpdateTrust) Summary() string {
	s := "make " + c.Bundle + " anew with " + c.Program
	if c.Why != "" {
		s += " " + c.Why
	}
	return s
}
func (c UpdateTrust) Diff() string { return "" }
func (c UpdateTrust) Class() Class { return Reversible }
