package main

import (
	"time"

	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
)

// timed asks for NTP servers as well.
func timed(spec config.Spec) config.Spec {
	spec.Time = config.Time{Servers: []string{"ntp1.example", "ntp2.example"}, SyncTimeout: config.Duration{Duration: 5 * time.Minute, Set: true}}
	return spec
}

func withChrony() *hosttest.World { return hosttest.Rocky9().Chronyd(hosttest.RockyChrony) }

func withTimesyncd() *hosttest.World { return withRepository().TimesyncdRuns() }

// withChronyDirectory has SUSE's layout.
func withChronyDirectory() *hosttest.World {
	w := hosttest.Alauda().Chronyd("driftfile /var/lib/chrony/drift\nrtcsync\ninclude /etc/chrony.d/*.conf\n")
	w.Files["/etc/chrony.d/pool.conf"] = hosttest.File{Content: "pool 2.opensuse.pool.ntp.org iburst\n"}
	return w
}
