package main

import (
	"strings"

	"nodeagent/internal/disk"
	"nodeagent/internal/firewall"
	"nodeagent/internal/join"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/join/hooks"
	"nodeagent/internal/join/ready"
	"nodeagent/internal/join/route"
	"nodeagent/internal/kubelet"
	"nodeagent/internal/prereq/clock"
	"nodeagent/internal/prereq/files"
	"nodeagent/internal/prereq/identity"
	"nodeagent/internal/prereq/kernel"
	"nodeagent/internal/prereq/mounts"
	"nodeagent/internal/prereq/packages"
	"nodeagent/internal/prereq/preflight"
	"nodeagent/internal/prereq/runtime"
	"nodeagent/internal/prereq/swap"
	"nodeagent/internal/prereq/trust"
	"nodeagent/internal/run"
)

// steps is what a run does, top to bottom. There is no dependency graph: the
// order is the argument. The clock comes before what is fetched over TLS and
// before files whose age is compared with a daemon's, disks before what is
// written on them, the firewall before what listens, and the token last.
var steps = []run.Step{
	run.NewStep("preflight", preflight.Observe, preflight.Plan),
	run.NewStep("identity", identity.Observe, identity.Plan),
	run.NewStep("time", clock.Observe, clock.Plan),
	run.NewStep("trust", trust.Observe, trust.Plan),
	run.NewStep("packages", packages.Observe, packages.Plan),
	run.NewStep("swap", swap.Observe, swap.Plan),
	run.NewStep("disks", disk.Observe, disk.Plan),
	run.NewStep("mounts", mounts.Observe, mounts.Plan),
	run.NewStep("files", files.Observe, files.Plan),
	run.NewStep("kernel", kernel.Observe, kernel.Plan),
	run.NewStep("firewall", firewall.Observe, firewall.Plan),
	run.NewStep("runtime", runtime.Observe, runtime.Plan),
	run.NewStep("kubelet", kubelet.Observe, kubelet.Plan),
	run.NewStep("route", route.Observe, route.Plan),
	run.NewStep("pre-join", hooks.ObservePre, hooks.PlanPre),
	run.NewStep("token", credential.Observe, credential.Plan),
	run.NewStep("join", join.Observe, join.Plan),
	run.NewStep("post-join", hooks.ObservePost, hooks.PlanPost),
	run.NewStep("ready", ready.Observe, ready.Plan),
}

func stepNames() string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
