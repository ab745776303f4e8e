package manifest

import (
	"net/netip"
	"slices"
	"strings"
)

// vsphere makes a machine of every slot of the pool of a VSphereMachineTemplate.
// What the template says of the virtual machine itself is for its provider.
func (c *converter) vsphere(t document, base machine, used map[string]bool) (out []machine) {
	spec := t.at("spec", "template", "spec")
	pool, ok := c.slotPool(t, spec)
	if !ok {
		return nil
	}
	used[pool.where()] = true
	pool.at("spec").only("configs", "releaseDelayHours", "machineNamingStrategy", "datacenter", "clusterRef")
	configs := pool.at("spec", "configs")
	for i, e := range configs.items() {
		e.only("hostname", "datacenter", "failureDomain", "network", "persistentDisks", "ephemeralDisks")
		e.at("network").only("primary", "additional")
		m := base
		m.at, m.name = e, strings.ToLower(e.at("hostname").text())
		if m.name == "" {
			c.bad(e, "", "slot %d has no hostname", i)
			continue
		}
		if p, ok := c.prefix(e.at("network", "primary", "ip")); ok {
			m.nodeIP = p.Addr().String()
		}
		m.noID = "leave it to the cloud provider (cloud-provider: external), which knows the virtual machine's UUID, or write the id itself"
		m.infra = func(d *draft, m *machine) {
			d.head = append(d.head, "Made of "+t.where()+" and "+pool.where()+".")
			lowered(d, e)
			c.slotNIC(d, e.at("network", "primary"), 0)
			for i, n := range e.at("network", "additional").items() {
				c.slotNIC(d, n, i+1)
			}
			c.slotDisks(d, m, e, pool)
		}
		out = append(out, m)
	}
	return out
}

// slotPool is the pool of a template: the one it refers to, or the only one.
func (c *converter) slotPool(t document, spec value) (document, bool) {
	if ref := spec.at("machineConfigPoolRef"); ref.is() {
		return c.refer(ref, "VSphereMachineConfigPool")
	}
	names := map[string]document{}
	for _, d := range c.of("VSphereMachineConfigPool") {
		names[d.name] = d // the last of several states of one pool
	}
	for _, d := range names {
		if len(names) == 1 {
			return d, true
		}
	}
	if len(names) == 0 {
		c.bad(t.value, "give the pool's file too", "no VSphereMachineConfigPool is among the documents")
	} else {
		c.bad(t.value, "name it: machineConfigPoolRef.name; or give the documents of one pool", "which of %d pools its machines take, it doesn't say", len(names))
	}
	return document{}, false
}

// slotState is what a pool that was read from a cluster says of a slot.
func slotState(pool document, name string) (value, bool) {
	for _, s := range pool.at("status", "configStatuses").items() {
		if strings.EqualFold(s.at("hostname").text(), name) {
			return s, true
		}
	}
	return value{}, false
}

// allocated tells whether a slot has been given to a machine, so that its
// persistent disks exist.
func allocated(state value) bool {
	return slices.Contains([]string{"InUse", "Released"}, state.at("state").text())
}

func (c *converter) prefix(v value) (netip.Prefix, bool) {
	if v.text() == "" {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(v.text())
	if err != nil {
		c.bad(v, "such as 192.0.2.21/24", "%q is no address with its prefix length", short(v.text()))
	}
	return p, err == nil
}

func (c *converter) slotNIC(d *draft, v value, i int) {
	v.only("networkName", "ip", "ipv6", "gateway", "ipv6Gateway", "dns", "deviceName")
	v.at("ipv6Gateway").left("let the router announce it, or write it into spec.network by hand", "a second gateway on an interface can't be carried")
	var addresses []string
	for _, key := range []string{"ip", "ipv6"} {
		if p, ok := c.prefix(v.at(key)); ok {
			addresses = append(addresses, p.String())
		}
	}
	if len(addresses) == 0 {
		if v.is() {
			d.remark("Left out: an interface without an address of its own, of network " + v.at("networkName").text() + ".")
		}
		return
	}
	who := fields{}
	if name := v.at("deviceName").text(); name != "" {
		who = fields{{"name", name}}
	}
	c.nic(d, v, i, who, addresses, v.at("gateway").text(), commas(v.at("dns")))
}

// slotDisks carries the disks of a slot: persistent ones first, as the provider
// attaches them.
func (c *converter) slotDisks(d *draft, m *machine, e value, pool document) {
	state, known := slotState(pool, e.at("hostname").text())
	host := e.at("hostname").text()
	taken := map[int]string{7: "the controller"} // 0 is the system's, and the first that is tried is 1
	for _, list := range []string{"persistentDisks", "ephemeralDisks"} {
		for _, x := range e.at(list).items() {
			for _, v := range []value{x, diskState(pool, host, list, x.at("name").text())} {
				if n, ok := v.at("unitNumber").number(); ok {
					taken[n] = x.at("name").text()
				}
			}
		}
	}
	unit := 0
	for _, list := range []string{"persistentDisks", "ephemeralDisks"} {
		for _, x := range e.at(list).items() {
			x.only("name", "sizeGiB", "mountPath", "mountOptions", "fsFormat", "wipeFilesystem", "datastore", "storagePolicy", "unitNumber", "volumePath", "diskUUID")
			seen := diskState(pool, host, list, x.at("name").text())
			if !x.at("unitNumber").is() && !seen.at("unitNumber").is() { // the provider takes the lowest that is free
				for unit++; taken[unit] != ""; unit++ {
				}
			}
			selected, comment := c.slotSelect(x, seen, unit)
			if selected == nil {
				continue
			}
			name, where := x.at("name").text(), x.at("mountPath").text()
			fs := x.at("fsFormat").text()
			if where == "" && fs != "" {
				c.bad(x.at("fsFormat"), "give it a mountPath too, or leave both away for a raw disk", "a filesystem without a mount path can't be carried")
				continue
			}
			if fs == "" && where != "" {
				fs = "ext4" // the provider's default
			}
			entry := diskEntry{name: name, selected: selected, fs: fs, where: where, options: x.at("mountOptions").texts(), wipeOnce: x.at("wipeFilesystem").yes()}
			switch {
			case where == "":
				comment = joined(comment, "Raw: only the link by its name is made, and its content is never touched.")
				if entry.wipeOnce {
					c.bad(x.at("wipeFilesystem"), "leave it out", "a raw disk has no filesystem to empty")
					entry.wipeOnce = false
				}
			case list == "persistentDisks":
				entry.label = c.label(d, where)
				entry.keep = known && allocated(state) && !slices.Contains([]string{"Creating", "Reclaimed"}, seen.at("phase").text())
				if entry.keep {
					comment = joined(comment, "Persistent, and the slot is "+state.at("state").text()+": its data is adopted, and a blank disk is refused.")
				} else {
					comment = joined(comment, "Persistent: data is adopted, and a blank disk formatted. Set keep: true once it holds data.")
				}
				comment = joined(comment, "If the filesystem has another label, write that one here.")
			default:
				entry.label = c.label(d, where)
				comment = joined(comment, "Ephemeral: new and blank with every machine.")
			}
			c.disk(d, m, x, comment, entry)
		}
	}
}

func joined(a, b string) string { return strings.TrimSpace(a + " " + b) }

// diskState is what a pool that was read from a cluster says of a disk.
func diskState(pool document, host, list, name string) value {
	key := map[string]string{"persistentDisks": "persistentDiskStatuses", "ephemeralDisks": "ephemeralDiskStatuses"}[list]
	for _, s := range pool.at("status", key).items() {
		if strings.EqualFold(s.at("hostname").text(), host) && s.at("name").text() == name {
			return s
		}
	}
	return value{c: pool.c, file: pool.file}
}

// slotSelect names a slot's disk: by its identity, by its unit, or, when asked,
// by its place in the slot. It is nil when nothing says which it is.
func (c *converter) slotSelect(x, seen value, unit int) (fields, string) {
	for _, v := range []value{seen, x} { // what is observed is nearer to the truth
		if id := v.at("diskUUID").text(); id != "" {
			return fields{{"diskUUID", id}}, ""
		}
	}
	for _, v := range []value{x, seen} {
		at := v.at("unitNumber")
		if n, ok := at.number(); ok {
			if n < 0 || n > 15 || n == 7 {
				c.bad(at, "0 to 15 without 7, which is the controller's own", "%d is no unit of a disk", n)
				return nil, ""
			}
			return fields{{"scsiUnit", encode(n)}}, ""
		}
	}
	if !c.SCSIOrder {
		c.bad(x, "give the pool as the cluster has it (kubectl get -o yaml), a unitNumber for each disk, or say that the order of the slot is that of the units: --scsi-order",
			"nothing says which device the disk %s is", short(x.at("name").text()))
		return nil, ""
	}
	return fields{{"scsiUnit", encode(unit)}}, "Decided: the SCSI unit by the disk's place in the slot (--scsi-order)."
}
