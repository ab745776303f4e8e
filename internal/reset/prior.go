// Package reset gives the host back: it plans the inverse of what the journal
// says was done, newest first, from what the host is now. What somebody has
// changed since is left as it is, and told.
package reset

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/rpmspec"
)

// Prior is what was there right before a change, as far as the change itself
// doesn't tell. It goes into the journal, so no secret may be in it.
type Prior struct {
	Missing   []string             `json:"missing,omitempty"` // directories above a file that did not exist, deepest last
	File      *host.Text           `json:"file,omitempty"`
	New       bool                 `json:"new,omitempty"` // a user's file of keys did not exist
	Units     map[string]host.Unit `json:"units,omitempty"`
	Value     string               `json:"value,omitempty"`     // of a sysctl
	Installed map[string]string    `json:"installed,omitempty"` // packages
	There     []string             `json:"there,omitempty"`     // kubelet's and the network plugin's files
	Network   *host.ClusterNetwork `json:"network,omitempty"`
	Owner     *host.NetworkOwner   `json:"owner,omitempty"` // what configured an interface
}

// Before observes what a change is about to replace.
func Before(ctx context.Context, v host.View, c change.Change) (json.RawMessage, error) {
	var p Prior
	err := p.observe(ctx, v, c)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(p)
	if string(b) == "{}" {
		return nil, err
	}
	return b, err
}

func (p *Prior) observe(ctx context.Context, v host.View, c change.Change) (err error) {
	file := func(path string) error {
		t, err := host.ReadText(v, path)
		p.File = &t
		return err
	}
	units := func(names ...string) error {
		p.Units, err = v.Units(ctx, names)
		return err
	}
	switch c := c.(type) {
	case change.WriteFile:
		if unit := waits(c.Path); unit != "" {
			if err := units(unit); err != nil {
				return err
			}
		}
		return p.missing(v, c.Path)
	case change.AuthorizeKeys:
		info, err := v.Stat(c.Path())
		if err != nil {
			return err
		}
		p.New = !info.Exists
		return p.missing(v, c.Path())
	case change.RunHook:
		return p.missing(v, c.Marker)
	case change.InstallArchive:
		return p.missing(v, c.Marker)
	case change.SetHostname:
		return file("/etc/hostname")
	case change.ImportKeys:
		if err := errors.Join(file(c.StoreAs), p.missing(v, c.StoreAs)); err != nil {
			return err
		}
		p.Installed, err = v.Installed(ctx, []string{pubkeys})
	case change.InstallPackages:
		p.Installed, err = v.Installed(ctx, rpmspec.Names(slices.Concat(c.Packages, c.Optional, c.Remove)))
	case change.MaskUnit:
		return units(c.Unit)
	case change.SetUnit:
		return units(c.Unit)
	case change.Mount:
		return errors.Join(units(c.Unit), p.missing(v, c.Target+"/x"))
	case change.SetInterface:
		o, err := v.NetworkOwner(ctx, c.Interface)
		p.Owner = &o
		return errors.Join(err, p.missing(v, c.Path))
	case change.SetSysctl:
		p.Value, err = sysctl(v, c.Key)
	case change.Join:
		if p.There, err = there(v); err != nil {
			return err
		}
		n, err := v.ClusterNetwork(ctx)
		p.Network = &n
		return errors.Join(err, units(kubeletUnit), p.missing(v, host.KubeletConf), p.missing(v, "/etc/kubernetes/pki/ca.crt"))
	}
	return err
}

// missing notes the directories above a file that don't exist.
func (p *Prior) missing(v host.View, file string) error {
	for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
		info, err := v.Stat(dir)
		if err != nil {
			return err
		}
		if info.Exists {
			break
		}
		if !slices.Contains(p.Missing, dir) {
			p.Missing = append(p.Missing, dir)
		}
	}
	slices.Sort(p.Missing)
	return nil
}

// sysctl is a parameter's value, or empty when the kernel doesn't have it.
func sysctl(v host.View, key string) (string, error) {
	file, ok := host.SysctlPath(key)
	if !ok {
		return "", nil
	}
	b, err := v.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return host.SysctlValue(string(b)), err
}

// unitDirectory holds the administrator's units and drop-ins.
const unitDirectory = "/etc/systemd/system/"

// unitOf is the unit that a file describes or is a drop-in of; empty for other
// files.
func unitOf(file string) string {
	rest, ok := strings.CutPrefix(file, unitDirectory)
	if !ok {
		return ""
	}
	name, _, dropIn := strings.Cut(rest, "/")
	if dropIn {
		name = strings.TrimSuffix(name, ".d")
	}
	return name
}

// waits is the service whose drop-in a file is; empty for other files.
func waits(file string) string {
	if unit := unitOf(file); unit != "" && strings.Contains(strings.TrimPrefix(file, unitDirectory), "/") {
		return unit
	}
	return ""
}
