package manifest

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// dcs makes a machine of every entry of the pool that a DCSMachineTemplate
// names.
func (c *converter) dcs(t document, base machine, used map[string]bool) (out []machine) {
	t.at("spec").only("template")
	t.at("spec", "template").only("metadata", "spec")
	spec := t.at("spec", "template", "spec")
	spec.only("vmTemplateName", "location", "resource", "vmConfig", "ipHostPoolRef", "providerID")
	vm := spec.at("vmConfig")
	vm.only("dvSwitchName", "portGroupName", "dcsMachineCpuSpec", "dcsMachineMemorySpec", "dcsMachineDiskSpec")
	pool, ok := c.refer(spec.at("ipHostPoolRef"), "DCSIpHostnamePool")
	if !ok {
		return nil
	}
	used[pool.where()] = true
	pool.at("spec").only("pool")
	for _, e := range pool.at("spec", "pool").items() {
		e.only("ip", "mask", "gateway", "dns", "hostname", "machineName", "persistentDisk")
		m := base
		m.at, m.name, m.alias = e, strings.ToLower(e.at("hostname").text()), e.at("machineName").text()
		if m.name == "" {
			c.bad(e, "", "an entry has no hostname")
			continue
		}
		m.nodeIP = e.at("ip").text()
		if _, err := netip.ParseAddr(m.nodeIP); err != nil {
			c.bad(e.at("ip"), "such as 192.0.2.21", "%q is no address", short(m.nodeIP))
			m.nodeIP = ""
		}
		if m.alias != "" {
			m.providerID = "dcs://" + m.alias
		}
		m.noID = "give the pool's entry a machineName"
		m.infra = func(d *draft, m *machine) {
			d.head = append(d.head, "Made of "+t.where()+" and "+pool.where()+".")
			lowered(d, e)
			c.dcsInterface(d, m, e)
			c.dcsDisks(d, m, vm.at("dcsMachineDiskSpec"), e.at("persistentDisk"))
		}
		out = append(out, m)
	}
	return out
}

// dcsInterface carries the one interface of a pool's entry.
func (c *converter) dcsInterface(d *draft, m *machine, e value) {
	if m.nodeIP == "" {
		return
	}
	n, ok := prefixLength(e.at("mask").text(), m.nodeIP)
	if !ok {
		c.bad(e.at("mask"), "such as 255.255.255.0, or 24", "%q is no mask", short(e.at("mask").text()))
		return
	}
	c.nic(d, e, 0, fields{}, []string{fmt.Sprintf("%s/%d", m.nodeIP, n)}, e.at("gateway").text(), commas(e.at("dns")))
}

// lowered tells that a name of a pool isn't written as it stands there.
func lowered(d *draft, e value) {
	if h := e.at("hostname").text(); h != strings.ToLower(h) {
		d.head = append(d.head, "Decided: the name "+h+" in lower case, as node names are.")
	}
}

// nic writes an interface. Pools don't say how the host calls it.
func (c *converter) nic(d *draft, at value, i int, who fields, addresses []string, gateway string, dns []string) {
	comment := ""
	if len(who) == 0 {
		name := fmt.Sprintf("eth%d", i)
		if i < len(c.Interfaces) {
			name = c.Interfaces[i]
		} else {
			comment = "Decided: no document says how the host calls this interface; --interface does."
		}
		who = fields{{"name", name}}
	}
	d.add(at, comment, append(who, field{"addresses", addresses}, field{"gateway", gateway}, field{"dns", dns}), "spec", "network", "interfaces")
}

// dcsDisks carries the data disks of a template, and those of the pool, which
// outlive their machine. Nothing names them but their sizes; the system's own
// is left out.
func (c *converter) dcsDisks(d *draft, m *machine, disks, persistent value) {
	var all []sized
	for _, x := range disks.items() {
		x.only("quantity", "datastoreClusterName", "datastoreName", "systemVolume", "path", "format")
		if n, ok := x.at("quantity").number(); ok && !x.at("systemVolume").yes() {
			all = append(all, sized{x, n, "node"})
		}
	}
	for _, x := range persistent.items() {
		x.only("slot", "quantityGB", "datastoreClusterName", "datastoreName", "path", "format")
		if n, ok := x.at("quantityGB").number(); ok {
			all = append(all, sized{x, n, "persistent"})
		}
	}
	for _, x := range disks.items() {
		if !x.at("systemVolume").yes() {
			c.dcsDisk(d, m, x, x.at("quantity"), "node", all)
		}
	}
	for _, x := range persistent.items() {
		c.dcsDisk(d, m, x, x.at("quantityGB"), "persistent", all)
	}
}

func (c *converter) dcsDisk(d *draft, m *machine, x, quantity value, sort string, all []sized) {
	where := x.at("path").text()
	n, ok := quantity.number()
	switch {
	case where == "":
		c.bad(x, "give it path and format, or leave it out", "the disk is mounted nowhere, and nothing names it")
		return
	case !ok || n <= 0 || n > maxSize:
		c.bad(cmp.Or(present(quantity), x), "its size in GB", "the disk of %s has no size that can be used", short(where))
		return
	}
	if o, bad := confused(sized{x, n, sort}, all, true); bad && sort == "persistent" {
		c.bad(x, "give it another size than the machine's own disks, or write its select by hand, by serial or path",
			"the disk of %s outlives the machine and has about the size of that of %s, so one may be taken for the other", short(where), short(o.at.at("path").text()))
		return
	}
	comment := "Decided: a blank disk of that size, GB or GiB; once formatted it is found by its label."
	if countSize(all, n) > 1 {
		comment = "Decided: one of the blank disks of that size, in by-path order; once formatted it is found by its label."
	}
	if sort == "persistent" {
		comment = joined(comment, "Persistent: data is adopted, if type and label of the filesystem are these.")
	}
	c.disk(d, m, x, comment, diskEntry{name: diskName(where), selected: blankOf(n, true), fs: x.at("format").text(), label: c.label(d, where), where: where})
}

// maxSize bounds a disk, in GB: no size may overflow.
const maxSize = 1 << 20

func countSize(all []sized, n int) (k int) {
	for _, s := range all {
		if s.size == n {
			k++
		}
	}
	return k
}

// present is a value that has a place, for cmp.Or.
func present(v value) value {
	if v.n == nil {
		return value{}
	}
	return v
}

// commas is a list, or one text with commas or semicolons.
func commas(v value) (out []string) {
	if v.is() && v.n.Kind == seqKind {
		return v.texts()
	}
	return strings.FieldsFunc(v.text(), func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

// prefixLength reads a mask, 255.255.255.0 or 24, for an address.
func prefixLength(mask, ip string) (int, bool) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return 0, false
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(mask, "/")); err == nil {
		return n, n > 0 && n <= addr.BitLen()
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || m.BitLen() != addr.BitLen() {
		return 0, false
	}
	n, ended := 0, false
	for _, b := range m.AsSlice() {
		ones := bits.LeadingZeros8(^b)
		if ended && b != 0 || bits.OnesCount8(b) != ones {
			return 0, false
		}
		ended = ended || ones < 8
		n += ones
	}
	return n, n > 0
}
