package host

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// zoneDirs hold zones, the administrator's before the package's
// (firewalld.zones(5)).
var zoneDirs = []string{"/etc/firewalld/zones", "/usr/lib/firewalld/zones"}

// firewalldFiles is what the files say of a firewalld that doesn't run.
func (l *Linux) firewalldFiles() (Firewalld, error) {
	enabled := l.firewalldEnabled()
	_, err := l.LookPath("firewalld")
	switch {
	case errors.Is(err, fs.ErrNotExist) && (l.Live() || !enabled):
		return Firewalld{}, nil
	case errors.Is(err, fs.ErrNotExist): // a tree may lack the programs
	case err != nil:
		return Firewalld{}, err
	}
	d := Firewalld{Installed: true, Enabled: enabled, Interfaces: map[string]string{}, Permanent: map[string]string{}, Zones: map[string]Zone{}}
	conf, err := l.ReadFile("/etc/firewalld/firewalld.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	d.DefaultZone = parseDefaultZone(conf)
	for i := len(zoneDirs) - 1; i >= 0; i-- { // so that the administrator's overwrites
		names, err := l.ReadDir(zoneDirs[i])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
		for _, file := range names {
			name, ok := strings.CutSuffix(file, ".xml")
			if !ok {
				continue
			}
			b, err := l.ReadFile(path.Join(zoneDirs[i], file))
			if err != nil {
				return d, err
			}
			s, err := parseZone(b)
			if err != nil {
				return d, fmt.Errorf("%s: %w", path.Join(zoneDirs[i], file), err)
			}
			d.Zones[name] = Zone{Permanent: s}
		}
	}
	for name, z := range d.Zones {
		for _, i := range z.Permanent.Interfaces {
			d.Interfaces[i], d.Permanent[i] = name, name
		}
		if used := len(z.Permanent.Interfaces)+len(z.Permanent.Sources) > 0; !used && name != d.DefaultZone && name != TrustedZone {
			delete(d.Zones, name)
		}
	}
	return d, nil
}

// firewalldEnabled tells whether firewalld starts at boot: the link that its
// [Install] section makes.
func (l *Linux) firewalldEnabled() bool {
	info, err := l.Stat("/etc/systemd/system/multi-user.target.wants/" + firewalldUnit)
	return err == nil && info.Exists
}

// parseDefaultZone reads firewalld.conf(5); without the line it is public.
func parseDefaultZone(conf []byte) string {
	zone := "public"
	for line := range strings.Lines(string(conf)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.TrimSpace(key) == "DefaultZone" && strings.TrimSpace(value) != "" {
			zone = strings.TrimSpace(value)
		}
	}
	return zone
}

// parseZone reads a zone file (firewalld.zone(5)).
func parseZone(b []byte) (ZoneSettings, error) {
	var x struct {
		XMLName    xml.Name `xml:"zone"`
		Target     string   `xml:"target,attr"`
		Interfaces []struct {
			Name string `xml:"name,attr"`
		} `xml:"interface"`
		Sources []struct {
			Address string `xml:"address,attr"`
			MAC     string `xml:"mac,attr"`
			IPSet   string `xml:"ipset,attr"`
		} `xml:"source"`
		Ports []struct {
			Port     string `xml:"port,attr"`
			Protocol string `xml:"protocol,attr"`
		} `xml:"port"`
		Protocols []struct {
			Value string `xml:"value,attr"`
		} `xml:"protocol"`
		ICMPBlocks []struct {
			Name string `xml:"name,attr"`
		} `xml:"icmp-block"`
		Inversion *struct{} `xml:"icmp-block-inversion"`
		Forward   *struct{} `xml:"forward"`
	}
	if err := xml.Unmarshal(b, &x); err != nil {
		return ZoneSettings{}, fmt.Errorf("not a zone: %w", err)
	}
	s := ZoneSettings{Target: x.Target, ICMPBlockInversion: x.Inversion != nil, Forward: x.Forward != nil}
	if s.Target == "" {
		s.Target = "default"
	}
	for _, i := range x.Interfaces {
		s.Interfaces = append(s.Interfaces, i.Name)
	}
	for _, src := range x.Sources {
		switch {
		case src.Address != "":
			s.Sources = append(s.Sources, src.Address)
		case src.MAC != "":
			s.Sources = append(s.Sources, src.MAC)
		case src.IPSet != "":
			s.Sources = append(s.Sources, "ipset:"+src.IPSet)
		}
	}
	for _, p := range x.Ports {
		s.Ports = append(s.Ports, p.Port+"/"+p.Protocol)
	}
	for _, p := range x.Protocols {
		s.Protocols = append(s.Protocols, p.Value)
	}
	for _, b := range x.ICMPBlocks {
		s.ICMPBlocks = append(s.ICMPBlocks, b.Name)
	}
	s.sort()
	return s, nil
}
