package hosttest

import (
	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// clients are the units that synchronise the clock.
var clients = []string{"chronyd.service", host.Timesyncd}

// RockyChrony is /etc/chrony.conf as EL's package installs it, shortened.
const RockyChrony = `# Use public servers from the pool.ntp.org project.
pool 2.rocky.pool.ntp.org iburst

# Use NTP servers from DHCP.
sourcedir /run/chrony-dhcp

driftfile /var/lib/chrony/drift

# Allow the system clock to be stepped in the first three updates
makestep 1.0 3

rtcsync
`

// Clock is synchronised by whoever runs.
func (w *World) Clock() (host.Clock, error) {
	c := host.Clock{Kernel: w.Synced}
	c.Timesyncd = w.Synced && w.UnitStates[host.Timesyncd].ActiveState == "active"
	return c, nil
}

// waitClock needs a client that runs and a way to its servers.
func (w *World) waitClock(c change.WaitClock) error {
	if w.UnitStates[c.Unit].ActiveState != "active" || len(w.Net.Defaults) == 0 {
		return fail.New(fail.Timeout, "", "the clock was not synchronised within %s", c.Timeout)
	}
	w.Synced = true
	return nil
}

// Chronyd gives a host the client of EL and SUSE; SUSE's main file names no
// servers and includes a directory.
func (w *World) Chronyd(conf string) *World {
	w.Files["/etc/chrony.conf"] = File{Content: conf, Mode: "0640", Owner: "root:chrony"}
	w.UnitStates["chronyd.service"] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/chronyd.service", StartedAt: w.now()}
	return w
}

// TimesyncdRuns gives a host systemd's own client.
func (w *World) TimesyncdRuns() *World {
	w.Files["/etc/systemd/timesyncd.conf"] = File{Content: "[Time]\n#NTP=\n"}
	w.UnitStates[host.Timesyncd] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", FragmentPath: "/usr/lib/systemd/system/" + host.Timesyncd, StartedAt: w.now()}
	return w
}
