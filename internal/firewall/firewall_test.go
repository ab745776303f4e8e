package firewall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

// spec is a configuration with the defaults filled in.
func spec(edit func(*config.Spec)) config.Spec {
	s := config.Spec{}
	s.Firewall.Manager, s.Firewall.CNI = "auto", "none"
	s.Network.DefaultRoute.Family = "any"
	if edit != nil {
		edit(&s)
	}
	return s
}

// facts is a live host with eth0 in zone public, as a stock Rocky 9 has it.
func facts(edit func(*Facts)) Facts {
	f := Facts{Live: true,
		Firewalld: host.Firewalld{Installed: true, Enabled: true, Running: true, State: "RUNNING", DefaultZone: "public",
			Interfaces: map[string]string{"eth0": "public"}, Permanent: map[string]string{},
			Zones: map[string]host.Zone{
				"public":  {Runtime: host.ZoneSettings{Target: "default", Forward: true, Interfaces: []string{"eth0"}}, Permanent: host.ZoneSettings{Target: "default", Forward: true}},
				"trusted": {Runtime: host.ZoneSettings{Target: "ACCEPT", Forward: true}, Permanent: host.ZoneSettings{Target: "ACCEPT", Forward: true}}}},
		Network: host.Network{Links: []host.Link{{Name: "eth0", State: "up", Card: true}},
			Addresses: []host.Address{{Interface: "eth0", IP: "192.0.2.10", Prefix: 24}},
			Defaults:  []host.Route{{Family: "ipv4", Interface: "eth0", Gateway: "192.0.2.1", Metric: 100}}}}
	if edit != nil {
		edit(&f)
	}
	return f
}

// both sets the same thing in the runtime and the permanent settings of a zone.
func both(f *Facts, zone string, edit func(*host.ZoneSettings)) {
	z := f.Firewalld.Zones[zone]
	edit(&z.Runtime)
	edit(&z.Permanent)
	f.Firewalld.Zones[zone] = z
}

// text is a plan as lines: changes, warnings, refusals.
func text(p change.Plan) string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintln(&b, c.Summary())
	}
	for _, w := range p.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	for _, e := range p.Blocked {
		fmt.Fprintln(&b, "blocked:", e)
	}
	return b.String()
}

var rows = map[string]struct {
	spec  func(*config.Spec)
	facts func(*Facts)
	want  string
}{
	"a worker opens the kubelet's port, permanently and now": {
		want: "allow in zone public permanently: 10250/tcp\n" +
			"allow in zone public now: 10250/tcp\n"},
	"manager none does nothing": {
		spec: func(s *config.Spec) { s.Firewall.Manager = "none" }},
	"a host without a firewall needs nothing": {
		facts: func(f *Facts) { f.Firewalld = host.Firewalld{} }},
	"cilium: its ports and interfaces, forwarding and trusted sources": {
		spec: func(s *config.Spec) {
			s.Firewall.CNI, s.Firewall.Allow, s.Firewall.TrustedSources = "cilium", []string{"30000-32767/tcp", "30000-32767/udp"}, []string{"10.244.0.0/16", "2001:db8:42::/56"}
		},
		facts: func(f *Facts) { both(f, "public", func(z *host.ZoneSettings) { z.Forward = false }) },
		want: "allow in zone public permanently: 4240/tcp 4244/tcp 4245/tcp 4250/tcp 9962-9964/tcp 10250/tcp 30000-32767/tcp 6081/udp 8472/udp 30000-32767/udp 51871/udp, interface cilium+ lxc+, forwarding inside the zone\n" +
			"allow in zone trusted permanently: from 10.244.0.0/16 2001:db8:42::/56\n" +
			"allow in zone public now: 4240/tcp 4244/tcp 4245/tcp 4250/tcp 9962-9964/tcp 10250/tcp 30000-32767/tcp 6081/udp 8472/udp 30000-32767/udp 51871/udp, interface cilium+ lxc+, forwarding inside the zone\n" +
			"allow in zone trusted now: from 10.244.0.0/16 2001:db8:42::/56\n"},
	"calico: IP in IP is a protocol": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "calico" },
		facts: func(f *Facts) {
			z := f.Firewalld.Zones["public"]
			z.Permanent.Protocols = []string{"ipencap"} // Debian's and older names for 4
			f.Firewalld.Zones["public"] = z
		},
		want: "allow in zone public permanently: 179/tcp 5473/tcp 10250/tcp 4789/udp 51820-51821/udp, interface cali+ tunl+ vxlan.calico vxlan-v6.calico wireguard.cali wg-v6.cali\n" +
			"allow in zone public now: 179/tcp 5473/tcp 10250/tcp 4789/udp 51820-51821/udp, protocol 4, interface cali+ tunl+ vxlan.calico vxlan-v6.calico wireguard.cali wg-v6.cali\n"},
	"flannel": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "flannel" },
		want: "allow in zone public permanently: 10250/tcp 8472/udp, interface flannel+ cni0\n" +
			"allow in zone public now: 10250/tcp 8472/udp, interface flannel+ cni0\n"},
	"kube-ovn": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "kube-ovn" },
		want: "allow in zone public permanently: 7471/tcp 10250/tcp 10660-10661/tcp 10665/tcp 4789/udp 6081/udp, interface ovn0\n" +
			"allow in zone public now: 7471/tcp 10250/tcp 10660-10661/tcp 10665/tcp 4789/udp 6081/udp, interface ovn0\n"},
	"F1: firewalld that doesn't run is configured offline and stays stopped": {
		facts: func(f *Facts) {
			f.Firewalld.Running, f.Firewalld.State, f.Firewalld.Interfaces = false, "", map[string]string{}
			f.Firewalld.Zones = map[string]host.Zone{"public": {}, "trusted": {}}
		},
		want: "allow in zone public permanently: 10250/tcp\n" +
			"warning: firewalld is installed but doesn't run: the ports are opened in its permanent configuration, and it stays stopped\n"},
	"F2: a range of firewalld is written with a dash": {
		spec: func(s *config.Spec) { s.Firewall.Allow = []string{"30000-32767/tcp"} },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp"} })
		},
		want: "allow in zone public permanently: 30000-32767/tcp\n" +
			"allow in zone public now: 30000-32767/tcp\n"},
	"F3: a subset of an open range is open": {
		spec: func(s *config.Spec) { s.Firewall.Allow = []string{"1002-1003/tcp"} },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"1000-1010/tcp", "10000-11000/tcp"} })
		}},
	"F4: the run-time zone of the interface counts, not the permanent one": {
		facts: func(f *Facts) {
			f.Firewalld.Interfaces["eth0"], f.Firewalld.Permanent["eth0"] = "external", "internal"
			f.Firewalld.Zones["external"] = f.Firewalld.Zones["public"]
		},
		want: "allow in zone external permanently: 10250/tcp\n" +
			"allow in zone external now: 10250/tcp\n" +
			"warning: eth0 is in zone external now, but in zone internal by the permanent configuration: the ports are opened in external only\n"},
	"F4: of two interfaces the one with node-ip counts": {
		spec: func(s *config.Spec) {
			s.Kubelet.ExtraArgs = []config.Arg{{Name: "node-ip", Value: "198.51.100.7"}}
		},
		facts: func(f *Facts) {
			f.Firewalld.Interfaces["eth1"] = "internal"
			f.Firewalld.Zones["internal"] = f.Firewalld.Zones["public"]
			f.Network.Addresses = append(f.Network.Addresses, host.Address{Interface: "eth1", IP: "198.51.100.7", Prefix: 24})
		},
		want: "allow in zone internal permanently: 10250/tcp\n" +
			"allow in zone internal now: 10250/tcp\n"},
	"only what one of the two configurations lacks is added to it": {
		facts: func(f *Facts) {
			z := f.Firewalld.Zones["public"]
			z.Runtime.Ports = []string{"10250/tcp"}
			f.Firewalld.Zones["public"] = z
		},
		want: "allow in zone public permanently: 10250/tcp\n"},
	"an interface that only falls to the default zone is bound to it, since forwarding is for bound ones": {
		spec:  func(s *config.Spec) { s.Firewall.CNI = "flannel" },
		facts: func(f *Facts) { f.Firewalld.Interfaces = map[string]string{} },
		want: "allow in zone public permanently: 10250/tcp 8472/udp, interface flannel+ cni0 eth0\n" +
			"allow in zone public now: 10250/tcp 8472/udp, interface flannel+ cni0 eth0\n"},
	"an interface that somebody put into trusted stays there": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "flannel" },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp", "8472/udp"} })
			for _, m := range []map[string]string{f.Firewalld.Interfaces, f.Firewalld.Permanent} {
				m["cni0"], m["flannel+"] = "trusted", "public"
			}
		}},
	"an interface that somebody put elsewhere stays there, with a warning": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "flannel" },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp", "8472/udp"} })
			f.Firewalld.Zones["work"] = f.Firewalld.Zones["public"]
			for _, m := range []map[string]string{f.Firewalld.Interfaces, f.Firewalld.Permanent} {
				m["cni0"], m["flannel+"] = "work", "public"
			}
		},
		want: "warning: interface cni0 is in zone work, so what it forwards to and from zone public may be rejected\n"},
	"a node's zone that accepts everything needs no port": {
		facts: func(f *Facts) { f.Firewalld.Interfaces["eth0"] = "trusted" }},
	"a zone that drops needs ICMP for cilium, one by default lets it in": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "cilium" },
		facts: func(f *Facts) {
			for _, p := range presets["cilium"].ports {
				both(f, "public", func(z *host.ZoneSettings) { z.Ports = append(z.Ports, p) })
			}
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = append(z.Ports, kubelet); z.Target = "DROP" })
			for _, i := range presets["cilium"].interfaces {
				f.Firewalld.Interfaces[i], f.Firewalld.Permanent[i] = "public", "public"
			}
		},
		want: "allow in zone public permanently: protocol 1 58\n" +
			"allow in zone public now: protocol 1 58\n"},
	"icmp-block-inversion makes the list of blocks the list of what is let in": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "cilium" },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) {
				z.Ports, z.ICMPBlockInversion = []string{"1-65535/tcp", "1-65535/udp"}, true
			})
			for _, i := range presets["cilium"].interfaces {
				f.Firewalld.Interfaces[i], f.Firewalld.Permanent[i] = "public", "public"
			}
		},
		want: "warning: zone public has icmp-block-inversion on and echo-request isn't in its list, so the network plugin's health checks fail; allow them with: firewall-cmd --zone=public --add-icmp-block=echo-request\n"},
	"with inversion an echo-request in the list is let in": {
		spec: func(s *config.Spec) { s.Firewall.CNI = "cilium" },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) {
				z.Ports, z.ICMPBlockInversion, z.ICMPBlocks = []string{"1-65535/tcp", "1-65535/udp"}, true, []string{"echo-request"}
			})
			for _, i := range presets["cilium"].interfaces {
				f.Firewalld.Interfaces[i], f.Firewalld.Permanent[i] = "public", "public"
			}
		}},
	"a trusted source inside a wider one is trusted": {
		spec: func(s *config.Spec) { s.Firewall.TrustedSources = []string{"10.244.0.0/16", "10.96.0.0/12"} },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp"} })
			both(f, "trusted", func(z *host.ZoneSettings) { z.Sources = []string{"10.240.0.0/12", "aa:bb:cc:dd:ee:ff"} })
		},
		want: "allow in zone trusted permanently: from 10.96.0.0/12\n" +
			"allow in zone trusted now: from 10.96.0.0/12\n"},
	"a source that another zone has isn't taken from it": {
		spec: func(s *config.Spec) { s.Firewall.TrustedSources = []string{"10.244.0.0/16"} },
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp"} })
			f.Firewalld.Zones["work"] = host.Zone{}
			both(f, "work", func(z *host.ZoneSettings) {
				z.Sources, z.Ports = []string{"10.244.0.0/16"}, []string{"1-65535/tcp"}
			})
		},
		want: "blocked: source 10.244.0.0/16 belongs to zone work of firewalld already, and a source has one zone\n"},
	"sources go before interfaces, which is told where it closes a port": {
		facts: func(f *Facts) {
			both(f, "public", func(z *host.ZoneSettings) { z.Ports = []string{"10250/tcp"} })
			f.Firewalld.Zones["work"] = host.Zone{}
			both(f, "work", func(z *host.ZoneSettings) { z.Sources = []string{"192.0.2.0/24"} })
		},
		want: "warning: what comes from 192.0.2.0/24 is judged by zone work, where these stay closed: 10250/tcp\n"},
	"a firewalld that failed to load its configuration isn't added to": {
		facts: func(f *Facts) { f.Firewalld.State = "FAILED" },
		want:  "blocked: firewalld runs but its state is FAILED\n"},
	"before there is an address the only card counts": {
		facts: func(f *Facts) {
			f.Network = host.Network{Links: []host.Link{{Name: "eth0", State: "up", Card: true}}}
			f.Firewalld.Interfaces["eth0"] = "external"
			f.Firewalld.Zones["external"] = f.Firewalld.Zones["public"]
		},
		want: "allow in zone external permanently: 10250/tcp\n" +
			"allow in zone external now: 10250/tcp\n"},
	"before there is an address, two cards in two zones: the default zone, and it is told": {
		facts: func(f *Facts) {
			f.Network = host.Network{Links: []host.Link{{Name: "eth0", Card: true}, {Name: "eth1", Card: true}}}
			f.Firewalld.Interfaces["eth0"] = "external"
		},
		want: "allow in zone public permanently: 10250/tcp\n" +
			"allow in zone public now: 10250/tcp\n" +
			"warning: which interface has the node's address isn't known yet, and the network cards are in zones external, public: the ports are opened in public\n"},
	"manager firewalld without firewalld": {
		spec:  func(s *config.Spec) { s.Firewall.Manager = "firewalld" },
		facts: func(f *Facts) { f.Firewalld = host.Firewalld{} },
		want:  "blocked: firewall.manager is firewalld, and firewalld isn't on this host\n"},
	"manager firewalld that the packages step will install": {
		spec:  func(s *config.Spec) { s.Firewall.Manager, s.Packages.Install = "firewalld", []string{"firewalld"} },
		facts: func(f *Facts) { f.Firewalld = host.Firewalld{} }},
	"manager iptables beside a running firewalld": {
		spec: func(s *config.Spec) { s.Firewall.Manager = "iptables" },
		want: "blocked: firewall.manager is iptables, but firewalld runs and would go on rejecting what iptables accepts\n"},
	"a tree of files with an enabled firewalld is planned as it will run": {
		facts: func(f *Facts) {
			f.Live, f.Network = false, host.Network{}
			f.Firewalld = host.Firewalld{Installed: true, Enabled: true, DefaultZone: "public", Zones: map[string]host.Zone{
				"public": {Permanent: host.ZoneSettings{Target: "default", Ports: []string{"10250/tcp"}}}, "trusted": {}}}
		},
		spec: func(s *config.Spec) { s.Firewall.Allow = []string{"80/tcp"} },
		want: "allow in zone public permanently: 80/tcp\n" +
			"allow in zone public now: 80/tcp\n"},
	"a tree of files with a firewalld that isn't enabled": {
		facts: func(f *Facts) {
			f.Live, f.Network = false, host.Network{}
			f.Firewalld = host.Firewalld{Installed: true, DefaultZone: "public", Zones: map[string]host.Zone{"public": {}, "trusted": {}}}
		},
		want: "allow in zone public permanently: 10250/tcp\n"},
}

func TestWhatIsOpenedByWhatIsThere(t *testing.T) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, r.want, text(Plan(spec(r.spec), facts(r.facts))))
		})
	}
}

func TestSavedFactsGiveTheSamePlan(t *testing.T) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			b, err := json.Marshal(facts(r.facts))
			require.NoError(t, err)
			var again Facts
			require.NoError(t, json.Unmarshal(b, &again))
			require.Equal(t, r.want, text(Plan(spec(r.spec), again)))
		})
	}
}

// A run that is cut off after any change is finished by the next one, and
// then nothing is left.
func TestEveryPlanConvergesFromEveryPointWhereItMayBeCutOff(t *testing.T) {
	ctx := context.Background()
	for name, r := range rows {
		s := spec(r.spec)
		start := facts(r.facts)
		if !start.Live || !Plan(s, start).Empty() && len(Plan(s, start).Blocked) > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			total := len(Plan(s, facts(r.facts)).Changes)
			for cut := 0; cut <= total; cut++ {
				f := facts(r.facts)
				w := hosttest.Rocky9()
				w.Firewall, w.Net = f.Firewalld, f.Network
				for _, c := range Plan(s, f).Changes[:cut] {
					require.NoError(t, w.Apply(ctx, c, nil))
				}
				f, err := Observe(ctx, w, s)
				require.NoError(t, err)
				for _, c := range Plan(s, f).Changes {
					require.NoError(t, w.Apply(ctx, c, nil))
				}
				f, err = Observe(ctx, w, s)
				require.NoError(t, err)
				require.Empty(t, Plan(s, f).Changes, "cut off after %d", cut)
			}
		})
	}
}

func TestChangesOfAPlanHaveDifferentIDsAndSayWhyThisZone(t *testing.T) {
	p := Plan(spec(func(s *config.Spec) { s.Firewall.CNI, s.Firewall.TrustedSources = "cilium", []string{"10.244.0.0/16"} }), facts(nil))
	var ids []string
	for _, c := range p.Changes {
		ids = append(ids, c.ID())
	}
	require.Equal(t, []string{"firewall:public:permanent", "firewall:trusted:permanent", "firewall:public:runtime", "firewall:trusted:runtime"}, ids)
	require.Equal(t, "the zone of eth0, since eth0 is the node's interface: it has the default route", p.Changes[0].Diff())
}

func TestAWorkerNeverOpensThePortsOfAControlPlane(t *testing.T) {
	for cni := range presets {
		w, err := want(spec(func(s *config.Spec) { s.Firewall.CNI = cni }))
		require.NoError(t, err, cni)
		for _, r := range w.ports {
			for _, p := range []uint16{6443, 2379, 2380, 10257, 10259} {
				require.False(t, r.Protocol == "tcp" && r.Low <= p && p <= r.High, "%s opens %s", cni, r)
			}
		}
		require.True(t, slices.ContainsFunc(w.cni.interfaces, func(i string) bool { return len(i) > 0 && len(i) < 16 }) || cni == "none")
	}
}

func TestAnUnreadablePortInSavedFactsIsAUsageError(t *testing.T) {
	p := Plan(spec(func(s *config.Spec) { s.Firewall.Allow = []string{"http"} }), facts(nil))
	require.Len(t, p.Blocked, 1)
	require.Equal(t, fail.Usage, fail.KindOf(p.Blocked[0]))
	require.ErrorContains(t, p.Blocked[0], `"http" has no protocol`)
}

func TestManagerNoneAsksNobody(t *testing.T) {
	f, err := Observe(context.Background(), nobody{}, spec(func(s *config.Spec) { s.Firewall.Manager = "none" }))
	require.NoError(t, err)
	require.Equal(t, Facts{Live: true}, f)
}

// nobody panics when it is asked for anything but whether it is live.
type nobody struct{ host.View }

func (nobody) Live() bool { return true }
