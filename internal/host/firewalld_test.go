package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// zonePublic is a zone file as firewalld 1.3 writes it after the
// administrator's changes.
const zonePublic = `<?xml version="1.0" encoding="utf-8"?>
<zone>
  <short>Public</short>
  <description>For use in public areas. You do not trust the other computers &amp; networks.</description>
  <interface name="eth0"/>
  <interface name="cali+"/>
  <source address="192.0.2.0/24"/>
  <source mac="aa:bb:cc:dd:ee:ff"/>
  <source ipset="nodes"/>
  <service name="ssh"/>
  <port port="30000-32767" protocol="tcp"/>
  <port port="10250" protocol="tcp"/>
  <protocol value="4"/>
  <icmp-block-inversion/>
  <icmp-block name="echo-request"/>
  <rule family="ipv4"><port port="1" protocol="tcp"/><accept/></rule>
  <forward/>
</zone>
`

// zoneTrusted is the package's own file.
const zoneTrusted = `<?xml version="1.0" encoding="utf-8"?>
<zone target="ACCEPT">
  <short>Trusted</short>
  <description>All network connections are accepted.</description>
  <forward/>
</zone>
`

func TestZoneFilesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want ZoneSettings
	}{
		"an administrator's zone": {zonePublic, ZoneSettings{Target: "default", Forward: true, ICMPBlockInversion: true, ICMPBlocks: []string{"echo-request"},
			Ports: []string{"10250/tcp", "30000-32767/tcp"}, Protocols: []string{"4"}, Interfaces: []string{"cali+", "eth0"},
			Sources: []string{"192.0.2.0/24", "aa:bb:cc:dd:ee:ff", "ipset:nodes"}}},
		"the package's trusted zone": {zoneTrusted, ZoneSettings{Target: "ACCEPT", Forward: true}},
		"an old zone without forward": {`<zone target="%%REJECT%%"><port protocol="udp" port="8472"/></zone>`,
			ZoneSettings{Target: "%%REJECT%%", Ports: []string{"8472/udp"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseZone([]byte(c.file))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for _, bad := range []string{"", "<service/>", "<zone>", "zone"} {
		_, err := parseZone([]byte(bad))
		require.ErrorContains(t, err, "not a zone", bad)
	}
}

func FuzzParseZone(f *testing.F) {
	f.Add([]byte(zonePublic))
	f.Add([]byte(zoneTrusted))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseZone(b); err == nil && s.Target == "" {
			t.Fatal("a zone has a target")
		}
	})
}

func TestTheDefaultZoneIsReadFromTheConfiguration(t *testing.T) {
	for conf, want := range map[string]string{
		"":                                    "public",
		"# DefaultZone=drop\nLockdown=no\n":   "public",
		"DefaultZone=internal\n":              "internal",
		" DefaultZone = work \r\nX=y":         "work",
		"DefaultZone=\n":                      "public",
		"DefaultZone=home\nDefaultZone=block": "block",
	} {
		require.Equal(t, want, parseDefaultZone([]byte(conf)), "%q", conf)
	}
}

// tree writes files below a new root; a path that ends in a bin directory's
// program is executable.
func tree(t *testing.T, files map[string]string) *Linux {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o755))
	}
	return At(root)
}

func TestTheFilesOfAFirewalldThatDoesNotRun(t *testing.T) {
	l := tree(t, map[string]string{
		"/usr/sbin/firewalld":                                           "#!/bin/sh\n",
		"/etc/firewalld/firewalld.conf":                                 "DefaultZone=internal\n",
		"/usr/lib/firewalld/zones/public.xml":                           "<zone/>",
		"/usr/lib/firewalld/zones/internal.xml":                         "<zone/>",
		"/usr/lib/firewalld/zones/trusted.xml":                          zoneTrusted,
		"/usr/lib/firewalld/zones/dmz.xml":                              "<zone/>",
		"/etc/firewalld/zones/public.xml":                               zonePublic,
		"/etc/firewalld/zones/public.xml.old":                           "not xml",
		"/etc/systemd/system/multi-user.target.wants/firewalld.service": "",
	})
	d, err := l.Firewalld(context.Background())
	require.NoError(t, err)
	public, err := parseZone([]byte(zonePublic))
	require.NoError(t, err)
	require.Equal(t, Firewalld{Installed: true, Enabled: true, DefaultZone: "internal",
		Interfaces: map[string]string{"eth0": "public", "cali+": "public"},
		Permanent:  map[string]string{"eth0": "public", "cali+": "public"},
		Zones: map[string]Zone{
			"internal": {Permanent: ZoneSettings{Target: "default"}},
			"public":   {Permanent: public},
			"trusted":  {Permanent: ZoneSettings{Target: "ACCEPT", Forward: true}},
		}}, d)
}

func TestABrokenZoneFileIsAnErrorWithItsName(t *testing.T) {
	_, err := tree(t, map[string]string{"/usr/sbin/firewalld": "", "/etc/firewalld/zones/work.xml": "<zone"}).Firewalld(context.Background())
	require.ErrorContains(t, err, "/etc/firewalld/zones/work.xml: not a zone")
}

func TestWithoutFirewalldThereIsNothing(t *testing.T) {
	d, err := tree(t, nil).Firewalld(context.Background())
	require.NoError(t, err)
	require.Equal(t, Firewalld{}, d)
}

func TestATreeWithoutProgramsTellsByItsUnit(t *testing.T) {
	d, err := tree(t, map[string]string{"/etc/systemd/system/multi-user.target.wants/firewalld.service": ""}).Firewalld(context.Background())
	require.NoError(t, err)
	require.True(t, d.Installed && d.Enabled)
	require.Equal(t, "public", d.DefaultZone)
}

func TestTheZoneOfAnInterface(t *testing.T) {
	f := Firewalld{DefaultZone: "public", Interfaces: map[string]string{"eth0": "external", "lxc+": "trusted"}}
	for name, want := range map[string]string{"eth0": "external", "eth1": "public", "lxc12ab": "trusted", "": "public"} {
		zone, bound := f.ZoneOf(name)
		require.Equal(t, want, zone, name)
		require.Equal(t, want != "public", bound, name)
	}
}

func TestWhatFirewalldRefusesHasAHintAndWhatIsThereIsSuccess(t *testing.T) {
	says := func(s string) error {
		return dbus.Error{Name: "org.fedoraproject.FirewallD1.Exception", Body: []any{s}}
	}
	c := change.AllowPorts{Zone: "public"}
	require.NoError(t, added(nil, "10250/tcp", c))
	require.NoError(t, added(says("ALREADY_ENABLED: '10250:tcp' already in 'public'"), "10250/tcp", c))
	require.NoError(t, added(says("ZONE_ALREADY_SET: 'cni0' already bound to 'public'"), "interface cni0", c))
	for message, hint := range map[string]string{
		"ZONE_CONFLICT: '10.244.0.0/16' already bound to 'work'": "another zone",
		"ACCESS_DENIED: lockdown is enabled":                     "locked down",
		"PANIC_MODE: panic mode enabled":                         "panic-off",
		"COMMAND_FAILED: 'python-nftables' failed":               "journalctl -u firewalld",
	} {
		err := added(says(message), "10250/tcp", c)
		require.EqualError(t, err, "firewalld refuses 10250/tcp in zone public: "+message)
		require.Contains(t, fail.HintOf(err), hint)
		require.True(t, errors.As(err, new(dbus.Error)))
	}
}

func TestAnUnknownFirewallIsAnError(t *testing.T) {
	err := New().applyAllowPorts(context.Background(), change.AllowPorts{Backend: "ufw", Zone: "x"}, nil)
	require.ErrorContains(t, err, `there is no firewall "ufw"`)
}
