package manifest

import (
	"slices"
	"strconv"
	"strings"
)

// arg is one kubelet flag and where it stands.
type arg struct {
	name, value string
	at          value
}

// kubeletArgs reads kubeletExtraArgs: a map until kubeadm's v1beta3, a list of
// name and value since v1beta4.
func kubeletArgs(v value) (out []arg) {
	if v.is() && v.n.Kind == seqKind {
		for _, item := range v.items() {
			item.only("name", "value")
			out = append(out, arg{item.at("name").text(), item.at("value").text(), item})
		}
		return out
	}
	for _, p := range v.pairs() {
		out = append(out, arg{p.key, p.text(), p.value})
	}
	return out
}

// flags carries kubelet's flags, each to its own home.
func (c *converter) flags(d *draft, m *machine, args []arg) {
	for _, a := range args {
		if a.name == "" {
			c.bad(a.at, "", "has no name")
			continue
		}
		v, ok := c.render(m, a.at, a.value)
		if !ok {
			continue
		}
		c.flag(d, m, a, v)
	}
}

func (c *converter) flag(d *draft, m *machine, a arg, v string) {
	switch a.name {
	case "provider-id":
		if v != "" {
			d.put(a.at, "", v, "spec", "kubelet", "providerID")
		}
	case "hostname-override":
		c.hostname(d, m, a.at, v)
	case "node-labels":
		for l := range strings.SplitSeq(v, ",") {
			if key, val, _ := strings.Cut(strings.TrimSpace(l), "="); key != "" {
				d.put(a.at, "", val, "spec", "kubelet", "labels", key)
			}
		}
	case "register-with-taints":
		for t := range strings.SplitSeq(v, ",") {
			kv, effect, ok := cutLast(strings.TrimSpace(t), ":")
			key, val, _ := strings.Cut(kv, "=")
			if !ok || key == "" {
				c.bad(a.at, "such as dedicated=gpu:NoSchedule", "%q is not a taint", short(t))
				continue
			}
			d.add(a.at, "", fields{{"key", key}, {"value", val}, {"effect", effect}}, "spec", "kubelet", "taints")
		}
	case "container-runtime-endpoint":
		c.socket(d, a.at, v)
	case "cgroup-driver":
		if v != "systemd" {
			c.bad(a.at, "leave it out", "%q doesn't fit a host that systemd runs", short(v))
		}
	case "resolv-conf":
		d.put(a.at, "", v, "spec", "kubelet", "config", "resolvConf")
	case "fail-swap-on":
		b, err := strconv.ParseBool(v)
		if err != nil {
			c.bad(a.at, "true or false", "%q is not a truth value", short(v))
			return
		}
		d.put(a.at, "", b, "spec", "kubelet", "config", "failSwapOn")
		if !b {
			d.put(a.at, "Decided: a kubelet that accepts swap is given a host that keeps it.", "keep", "spec", "swap", "mode")
		}
	case "pod-infra-container-image":
		d.put(a.at, "Decided: kubelet's --pod-infra-container-image is the runtime's setting.", v, "spec", "runtime", "sandboxImage")
	case "container-runtime", "network-plugin":
		if v != "remote" && v != "cni" {
			c.bad(a.at, "", "--%s=%s is of a kubelet that is no longer made", a.name, short(v))
			return
		}
		d.remark("Left out: kubelet's --" + a.name + ", which it no longer has.")
	case "config", "kubeconfig", "bootstrap-kubeconfig":
		c.bad(a.at, "leave it out", "kubeadm sets --%s itself", a.name)
	default:
		d.add(a.at, "", fields{{"name", a.name}, {"value", v}}, "spec", "kubelet", "extraArgs")
	}
}

// socket carries the runtime's socket. Older documents leave the scheme away.
func (c *converter) socket(d *draft, at value, v string) {
	s := v
	if strings.HasPrefix(s, "/") {
		s = "unix://" + s
	}
	if rest, ok := strings.CutPrefix(s, "unix:///var/run/"); ok {
		s = "unix:///run/" + rest
	}
	d.put(at, "", s, "spec", "runtime", "socket")
}

// hostname sets the name of a machine that no pool has named.
func (c *converter) hostname(d *draft, m *machine, at value, name string) {
	switch {
	case name == "" || name == m.name:
	case m.name == "":
		m.name = name
	default:
		c.bad(at, "keep one", "%q is another name than that of the pool, %s", short(name), m.name)
	}
}

// Names that stand for a machine's own values: those that providers put into
// bootstrap data, and those of cloud-init's instance data (Jinja, from the
// documents of Cluster API's vSphere provider).
var (
	idNames   = []string{"PROVIDER_ID"}
	ipNames   = []string{"NODE_IP", "{{ ds.meta_data.local_ipv4 }}", "{{ local_ipv4 }}", "{{ v1.local_ipv4 }}", "{{ ds.meta_data.network.interfaces.eth0.local_ipv4 }}"}
	hostNames = []string{"{{ ds.meta_data.hostname }}", "{{ ds.meta_data.local_hostname }}", "{{ local_hostname }}", "{{ hostname }}", "{{ v1.local_hostname }}", "{{ ds.meta_data['hostname'] }}", "{{ ds.meta_data['local_hostname'] }}"}
)

// render replaces what stands for a machine's own values. It is false when
// one isn't known, which has been told.
func (c *converter) render(m *machine, at value, s string) (string, bool) {
	for _, x := range []struct {
		names     []string
		value     string
		what, way string
	}{
		{idNames, m.providerID, "the provider's id of the machine", m.noID},
		{ipNames, m.nodeIP, "the machine's address", "add the pool and the machine template"},
		{hostNames, m.name, "the machine's name", "add the pool and the machine template, or leave it out: a host keeps its name"},
	} {
		for _, name := range x.names {
			for _, written := range spellings(name) {
				if !strings.Contains(s, written) {
					continue
				}
				if x.value == "" {
					c.bad(at, x.way, "%s stands for %s, which no document says", written, x.what)
					return "", false
				}
				s = strings.ReplaceAll(s, written, x.value)
			}
		}
	}
	if strings.Contains(s, "{{") || strings.Contains(s, "{%") {
		c.bad(at, "write its value", "%q has a template that isn't known", short(s))
		return "", false
	}
	return s, true
}

// spellings are those of a template with and without its blanks, or a name in
// and out of the shell's braces.
func spellings(name string) []string {
	if strings.HasPrefix(name, "{{") {
		return []string{name, strings.NewReplacer("{{ ", "{{", " }}", "}}").Replace(name)}
	}
	return []string{"${" + name + "}", "$" + name, name}
}

// standsForHost tells whether a text is nothing but the machine's name.
func standsForHost(s string) bool {
	return slices.ContainsFunc(hostNames, func(n string) bool { return slices.Contains(spellings(n), strings.TrimSpace(s)) })
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
