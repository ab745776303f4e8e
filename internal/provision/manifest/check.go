package manifest

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/kubelet/release"
)

// Check tells what the providers' admission would refuse in manifests, and what
// their rollouts would stall on, before anyone applies them. The rules are
// those that the providers' documentation gives for pools and rollouts.
func Check(inputs []Input) (config.Problems, []string) {
	c := &converter{said: map[string]bool{}}
	c.read(inputs)
	if len(c.problems) == 0 {
		c.rules()
	}
	r := c.result(nil)
	return r.Problems, r.Notes
}

func (c *converter) rules() {
	for _, p := range c.of("DCSIpHostnamePool") {
		c.dcsPool(p)
	}
	for _, t := range c.of("DCSMachineTemplate") {
		c.dcsTemplate(t)
	}
	c.slotPools()
	for _, md := range c.of("MachineDeployment") {
		c.rollout(md)
	}
}

// once refuses a value that an earlier entry has, too.
func (c *converter) once(seen map[string]value, what string, v value) {
	s := strings.ToLower(v.text())
	if s == "" {
		return
	}
	if first, ok := seen[s]; ok {
		c.bad(v, "give each machine its own", "the %s %s is that of %s:%d, too", what, short(v.text()), first.file, first.n.Line)
		return
	}
	seen[s] = v
}

func (c *converter) gatewayWithin(v value, p netip.Prefix) {
	if v.text() == "" {
		return
	}
	g, err := netip.ParseAddr(v.text())
	switch {
	case err != nil:
		c.bad(v, "such as 192.0.2.1", "the gateway %q is no address", short(v.text()))
	case !p.Contains(g):
		c.bad(v, "a gateway is a neighbour", "the gateway %s is outside of %s, the network of the address", g, p.Masked())
	case p.Addr() == g:
		c.bad(v, "", "the gateway %s is the machine's own address", g)
	}
}

func (c *converter) dcsPool(p document) {
	ips, names, machines := map[string]value{}, map[string]value{}, map[string]value{}
	entries := p.at("spec", "pool").items()
	if len(entries) == 0 {
		c.bad(p.value, "add an entry for each machine", "the pool %s has no entries", p.name)
	}
	for _, e := range entries {
		for _, key := range []string{"ip", "mask", "hostname", "machineName"} {
			if e.at(key).text() == "" {
				c.bad(e, "", "an entry has no %s", key)
			}
		}
		c.once(ips, "ip", e.at("ip"))
		c.once(names, "hostname", e.at("hostname"))
		c.once(machines, "machineName", e.at("machineName"))
		ip, err := netip.ParseAddr(e.at("ip").text())
		if err != nil {
			if e.at("ip").text() != "" {
				c.bad(e.at("ip"), "such as 192.0.2.21", "%q is no address", short(e.at("ip").text()))
			}
			continue
		}
		n, ok := prefixLength(e.at("mask").text(), ip.String())
		if !ok {
			if e.at("mask").text() != "" {
				c.bad(e.at("mask"), "such as 255.255.255.0", "%q is no mask for %s", short(e.at("mask").text()), ip)
			}
			continue
		}
		c.gatewayWithin(e.at("gateway"), netip.PrefixFrom(ip, n))
	}
}

func (c *converter) dcsTemplate(t document) {
	disks := t.at("spec", "template", "spec", "vmConfig", "dcsMachineDiskSpec")
	paths := map[string]value{}
	for _, x := range disks.items() {
		c.once(paths, "path", x.at("path"))
	}
	for _, where := range []string{"/var/lib/kubelet", "/var/lib/containerd"} {
		if _, ok := paths[where]; !ok {
			at := disks
			if !at.is() {
				at = t.value
			}
			c.bad(at, "add it to dcsMachineDiskSpec with its path", "the template %s has no disk for %s, which the provider requires", t.name, where)
		}
	}
}

// rollout checks a MachineDeployment against what it refers to.
func (c *converter) rollout(md document) {
	spec := md.at("spec", "template", "spec")
	infra := spec.at("infrastructureRef")
	slots, pool, counted := 0, "", false
	kind := infra.at("kind").text()
	switch kind {
	case "DCSMachineTemplate":
		if t, ok := c.refer(infra, kind); ok {
			if p, ok := c.refer(t.at("spec", "template", "spec", "ipHostPoolRef"), "DCSIpHostnamePool"); ok {
				slots, pool, counted = len(p.at("spec", "pool").items()), p.name, true
			}
		}
	case "VSphereMachineTemplate":
		if t, ok := c.refer(infra, kind); ok {
			if p, ok := c.slotPool(t, t.at("spec", "template", "spec")); ok {
				slots, pool, counted = len(p.at("spec", "configs").items()), p.name, true
				c.nics(t, p)
			}
		}
	default:
		c.bad(infra, "what is checked: DCSMachineTemplate, VSphereMachineTemplate", "machines of %q have no rules here", short(kind))
	}
	replicas := md.at("spec", "replicas")
	if n, ok := replicas.number(); ok && counted && n > slots {
		c.bad(replicas, "add entries to the pool before replicas is raised", "%d replicas need more than the %d entries of pool %s", n, slots, pool)
	}
	c.surge(md)
	if b, ok := c.refer(spec.at("bootstrap", "configRef"), "KubeadmConfigTemplate"); ok {
		c.pullPolicy(spec.at("version"), b)
	}
}

// surge wants a rollout that doesn't need a machine more than the pool has.
func (c *converter) surge(md document) {
	s := md.at("spec", "strategy") // v1beta1
	if r := md.at("spec", "rollout", "strategy"); r.is() {
		s = r // v1beta2
	}
	if s.at("type").text() == "OnDelete" {
		return
	}
	surge := s.at("rollingUpdate", "maxSurge")
	switch v := surge.text(); {
	case v == "0" || v == "0%":
	case v == "":
		c.bad(md.at("spec"), "set strategy.rollingUpdate.maxSurge: 0 and maxUnavailable: 1", "maxSurge is not set and defaults to 1: a rollout waits for a machine more than a full pool has")
	default:
		c.bad(surge, "maxSurge: 0 and maxUnavailable: 1", "with maxSurge %s a rollout waits for more machines than a full pool has", short(v))
	}
	if un := s.at("rollingUpdate", "maxUnavailable"); un.text() == "0" {
		c.bad(un, "maxUnavailable: 1", "with maxUnavailable 0 no machine can be replaced without a surge")
	}
}

// pullPolicy holds the kubelet's patch to what the platform wants from 1.35 on.
func (c *converter) pullPolicy(version value, b document) {
	const key = "imagePullCredentialsVerificationPolicy"
	minor, known := release.Minor(version.text())
	if !known {
		return
	}
	var at value
	never := false
	spec := b.at("spec", "template", "spec")
	for _, f := range spec.at("files").items() {
		if !strings.Contains(f.at("path").text(), "/kubeletconfiguration") {
			continue
		}
		plain, _, _, ok := c.content(f)
		if ok && bytes.Contains(plain, []byte(key)) {
			at, never = f, bytes.Contains(plain, []byte("NeverVerify"))
		}
	}
	switch {
	case minor >= 35 && !at.is():
		c.bad(spec, `add "`+key+`": "NeverVerify" to /etc/kubernetes/patches/kubeletconfiguration0+strategic.json`, "%s needs %s in the kubelet's patch, which %s doesn't set", version.text(), key, b.name)
	case minor >= 35 && !never:
		c.bad(at, "NeverVerify", "%s is not NeverVerify, which the platform needs from 1.35 on", key)
	case minor < 35 && at.is():
		c.bad(at, "take it out until 1.35", "kubelet %s doesn't know %s", version.text(), key)
	}
}

// nics wants as many networks in the template as each slot has.
func (c *converter) nics(t, pool document) {
	devices := t.at("spec", "template", "spec", "network", "devices")
	if !devices.is() {
		return
	}
	n := len(devices.items())
	for _, s := range pool.at("spec", "configs").items() {
		if k := 1 + len(s.at("network", "additional").items()); k != n {
			c.bad(s.at("network"), "a second network belongs into every slot, the template and the failure domain", "slot %s has %d networks, and the template %s has %d devices", s.at("hostname").text(), k, t.name, n)
		}
	}
}

// slotPools checks every pool of slots, and what changes between two states of
// one pool.
func (c *converter) slotPools() {
	byName := map[string]document{}
	for _, p := range c.of("VSphereMachineConfigPool") {
		if old, ok := byName[p.name]; ok {
			c.slotChanges(old, p)
		}
		byName[p.name] = p
	}
	for _, p := range c.of("VSphereMachineConfigPool") {
		if byName[p.name].n == p.n { // the last state
			c.slots(p)
		}
	}
}

func (c *converter) slots(p document) {
	ips, names := map[string]value{}, map[string]value{}
	configs := p.at("spec", "configs").items()
	if len(configs) == 0 {
		c.bad(p.value, "add a slot for each machine", "the pool %s has no slots", p.name)
	}
	for i, s := range configs {
		if s.at("hostname").text() == "" {
			c.bad(s, "", "a slot has no hostname")
		}
		c.once(names, "hostname", s.at("hostname"))
		for _, n := range append([]value{s.at("network", "primary")}, s.at("network", "additional").items()...) {
			if ip, ok := c.prefix(n.at("ip")); ok {
				c.once(ips, "ip", n.at("ip"))
				c.gatewayWithin(n.at("gateway"), ip)
			}
		}
		c.requiredDisks(s)
		if i > 0 {
			a, b := diskLists(configs[0]), diskLists(s)
			if a != b {
				c.bad(s, "give all slots of a pool the same lists", "the disks of slot %s (%s) differ from those of slot %s (%s)", s.at("hostname").text(), b, configs[0].at("hostname").text(), a)
			}
		}
		for _, list := range []string{"persistentDisks", "ephemeralDisks"} {
			own := map[string]value{}
			for _, x := range s.at(list).items() {
				c.once(own, "disk name", x.at("name"))
			}
		}
	}
}

// requiredDisks are var-cpaas, and var-lib-kubelet and var-lib-containerd that
// are new with every machine. Pools of before 1.0.17 have no ephemeral disks.
func (c *converter) requiredDisks(s value) {
	persistent, ephemeral := mountPaths(s.at("persistentDisks")), mountPaths(s.at("ephemeralDisks"))
	missing := func(where, list string) {
		c.bad(s, "add it with name, sizeGiB, mountPath and fsFormat", "slot %s has no disk for %s in %s, which the provider requires", s.at("hostname").text(), where, list)
	}
	if !slices.Contains(persistent, "/var/cpaas") {
		missing("/var/cpaas", "persistentDisks")
	}
	if !s.at("ephemeralDisks").is() {
		if slices.Contains(persistent, "/var/lib/containerd") {
			c.note("%s:%d: the pool's layout is that of a provider before 1.0.17; keep it, and add no ephemeralDisks", s.file, s.n.Line)
			return
		}
	}
	for _, where := range []string{"/var/lib/kubelet", "/var/lib/containerd"} {
		if !slices.Contains(ephemeral, where) {
			missing(where, "ephemeralDisks")
		}
	}
}

func mountPaths(disks value) (out []string) {
	for _, x := range disks.items() {
		out = append(out, x.at("mountPath").text())
	}
	return out
}

// diskLists is what has to be the same in all slots of a pool.
func diskLists(s value) string {
	var out []string
	for _, list := range []string{"persistentDisks", "ephemeralDisks"} {
		for _, x := range s.at(list).items() {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %sGiB %s", x.at("name").text(), x.at("sizeGiB").text(), x.at("mountPath").text())))
		}
	}
	return strings.Join(out, ", ")
}

// slotChanges tells what admission refuses of a slot that a machine has or had.
func (c *converter) slotChanges(old, now document) {
	for _, s := range old.at("spec", "configs").items() {
		name := s.at("hostname").text()
		state, known := slotState(old, name)
		if !known || !allocated(state) {
			continue
		}
		is := state.at("state").text()
		i := slices.IndexFunc(now.at("spec", "configs").items(), func(n value) bool { return strings.EqualFold(n.at("hostname").text(), name) })
		if i < 0 {
			c.bad(now.at("spec", "configs"), "keep it until the machine is gone and its disks are reclaimed", "slot %s is %s and can't be removed", name, is)
			continue
		}
		n := now.at("spec", "configs").items()[i]
		for _, key := range []string{"ip", "ipv6"} {
			if a, b := s.at("network", "primary", key).text(), n.at("network", "primary", key).text(); a != b {
				c.bad(n.at("network", "primary"), "plan a new slot", "slot %s is %s, and its %s can't change from %s to %s", name, is, key, orNone(a), orNone(b))
			}
		}
		for _, x := range s.at("persistentDisks").items() {
			disk := x.at("name").text()
			j := slices.IndexFunc(n.at("persistentDisks").items(), func(y value) bool { return y.at("name").text() == disk })
			if j < 0 {
				c.bad(n, "keep it: its data is on it", "slot %s is %s and can't lose the persistent disk %s", name, is, disk)
				continue
			}
			y := n.at("persistentDisks").items()[j]
			for _, key := range []string{"sizeGiB", "mountPath"} {
				if a, b := x.at(key).text(), y.at(key).text(); a != b {
					c.bad(y, "plan a new slot with another geometry", "slot %s is %s, and %s of its disk %s can't change from %s to %s", name, is, key, disk, orNone(a), orNone(b))
				}
			}
		}
		if a, b := len(s.at("persistentDisks").items())+len(s.at("ephemeralDisks").items()), len(n.at("persistentDisks").items())+len(n.at("ephemeralDisks").items()); b > a {
			c.bad(n, "plan a new slot", "slot %s is %s, and no disk is added to it", name, is)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return short(s)
}
