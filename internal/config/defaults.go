package config

import (
	"strings"
	"time"
)

// Default values that a stock host fits.
const (
	DefaultSocket  = "unix:///run/containerd/containerd.sock"
	DefaultVersion = "v1.35.4" // what `plan` assumes when there is no configuration at all
)

// Default is the configuration `nodeagent plan` uses on a host without one.
func Default() NodeConfig {
	c := NodeConfig{APIVersion: APIVersion, Kind: Kind}
	c.Spec.Kubernetes.Version = DefaultVersion
	c.fillDefaults()
	return c
}

// fillDefaults makes every optional choice explicit, so that planners never
// ask whether something was given.
func (c *NodeConfig) fillDefaults() {
	s := &c.Spec
	if v := s.Kubernetes.Version; v != "" && !strings.HasPrefix(v, "v") {
		s.Kubernetes.Version = "v" + v
	}
	str(&s.Packages.Manager, "auto")
	yes(&s.Packages.Lock)
	for i := range s.Packages.Repositories {
		r := &s.Packages.Repositories[i]
		str(&r.Name, r.ID)
		yes(&r.GPGCheck)
	}
	str(&s.Runtime.Source, "auto")
	str(&s.Runtime.Socket, DefaultSocket)
	for i := range s.Runtime.Archives {
		str(&s.Runtime.Archives[i].MaxSize, "2GiB")
	}
	str(&s.Swap.Mode, "disable")
	for i := range s.Disks {
		d := &s.Disks[i]
		if d.Raw() {
			continue
		}
		str(&d.Filesystem.Type, "xfs")
		if d.Select.Label != "" {
			str(&d.Filesystem.Label, d.Select.Label)
		}
		str(&d.Filesystem.Label, d.Name)
	}
	str(&s.Firewall.Manager, "auto")
	str(&s.Firewall.CNI, "none")
	for i := range s.Files {
		str(&s.Files[i].Owner, "root:root")
		str(&s.Files[i].Permissions, "0644")
		if p := s.Files[i].Permissions; len(p) == 3 {
			s.Files[i].Permissions = "0" + p
		}
	}
	str(&s.Network.DefaultRoute.Family, "any")
	span(&s.Network.DefaultRoute.Timeout, 10*time.Minute)
	if len(s.Time.Servers) > 0 {
		span(&s.Time.SyncTimeout, 5*time.Minute)
	}
	if m := s.Join.Token.Kubeconfig; m != nil {
		span(&m.TTL, 20*time.Minute)
	}
	span(&s.Join.Timeout, 10*time.Minute)
	span(&s.Join.WaitReady, 10*time.Minute)
}

func str(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func yes(b **bool) {
	if *b == nil {
		t := true
		*b = &t
	}
}

func span(d *Duration, value time.Duration) {
	if !d.Set {
		*d = Duration{Duration: value, Set: true}
	}
}
