package manifest

import (
	"strings"
)

// hosts are the machines that the documents describe: the entries of pools,
// or one for any host.
func (c *converter) hosts() (out []machine) {
	deployments := c.of("MachineDeployment")
	templates := c.of("DCSMachineTemplate", "VSphereMachineTemplate")
	bootstraps := c.of("KubeadmConfig", "KubeadmConfigTemplate")
	for _, kind := range []string{"JoinConfiguration", joinCommand, ansibleVars} {
		if all := c.of(kind); len(all) > 1 {
			c.bad(all[1].value, "convert the documents of one kind of host at a time", "is a second %s, beside %s:%d", kind, all[0].file, all[0].n.Line)
		}
	}
	used := map[string]bool{} // documents that something refers to
	for _, md := range deployments {
		spec := c.deployment(md)
		base := machine{at: md.value, version: spec.at("version")}
		ref := spec.at("bootstrap", "configRef")
		if b, ok := c.refer(ref, "KubeadmConfigTemplate"); ok {
			base.bootstrap = &b
			used[b.where()] = true
		}
		infra := spec.at("infrastructureRef")
		kind := infra.at("kind").text()
		switch kind {
		case "DCSMachineTemplate", "VSphereMachineTemplate":
		default:
			c.bad(infra.at("kind"), "what is read: DCSMachineTemplate, VSphereMachineTemplate", "machines of %q are not converted", short(kind))
			continue
		}
		if t, ok := c.refer(infra, kind); ok {
			used[t.where()] = true
			out = append(out, c.pool(t, base, used)...)
		}
	}
	for _, t := range templates {
		if used[t.where()] {
			continue
		}
		base := machine{at: t.value}
		switch len(bootstraps) {
		case 0:
		case 1:
			base.bootstrap = &bootstraps[0]
			used[bootstraps[0].where()] = true
		default:
			c.bad(t.value, "add the MachineDeployment", "which of %d KubeadmConfigTemplates its machines get, no document says", len(bootstraps))
		}
		out = append(out, c.pool(t, base, used)...)
	}
	for _, p := range c.of("DCSIpHostnamePool", "VSphereMachineConfigPool") {
		if !used[p.where()] {
			c.bad(p.value, "add the machine template that refers to it", "no machine template refers to this pool")
		}
	}
	if len(deployments)+len(templates) > 0 {
		for _, b := range bootstraps {
			if !used[b.where()] {
				c.bad(b.value, "leave it out, or add the MachineDeployment that refers to it", "no MachineDeployment refers to it")
			}
		}
		return out
	}
	for i := range bootstraps {
		out = append(out, machine{at: bootstraps[i].value, bootstrap: &bootstraps[i], noID: "add the pool and the machine template"})
	}
	if len(bootstraps) == 0 && len(c.problems) == 0 {
		out = []machine{{at: c.docs[0].value, noID: "write this machine's own"}}
	}
	return out
}

// deployment is the spec of a MachineDeployment's machines. What else it says
// is for Cluster API's controllers.
func (c *converter) deployment(d document) value {
	d.at("spec").only("clusterName", "replicas", "selector", "strategy", "rollout", "rolloutAfter", "template", "minReadySeconds", "revisionHistoryLimit",
		"progressDeadlineSeconds", "paused", "machineNamingStrategy", "machineNaming", "deletion", "remediation")
	spec := d.at("spec", "template", "spec")
	spec.only("bootstrap", "clusterName", "infrastructureRef", "version", "providerID", "failureDomain", "nodeDrainTimeout", "nodeDeletionTimeout",
		"nodeVolumeDetachTimeout", "minReadySeconds", "readinessGates", "deletion", "taints")
	spec.at("bootstrap").only("configRef", "dataSecretName")
	spec.at("bootstrap", "dataSecretName").left("name the KubeadmConfigTemplate in configRef", "refers to a secret, which isn't among the documents")
	spec.at("taints").left("write them into joinConfiguration.nodeRegistration.taints", "is set on the node by Cluster API, not by the node")
	for _, p := range d.at("spec", "template", "metadata", "labels").pairs() {
		domain, _, _ := strings.Cut(p.key, "/")
		if domain == "node-role.kubernetes.io" || strings.HasSuffix(domain, "node-restriction.kubernetes.io") || strings.HasSuffix(domain, "node.cluster.x-k8s.io") {
			c.note("%s:%d: Cluster API puts the label %s on the node, which nodeagent doesn't: use spec.kubelet.labels, and docs/tokens.md for protected labels", p.file, p.n.Line, p.key)
		}
	}
	return spec
}

// refer finds the document that a reference names.
func (c *converter) refer(ref value, kind string) (document, bool) {
	name := ref.at("name").text()
	if name == "" {
		at := ref
		if !at.is() {
			at = ref.at("name")
		}
		c.bad(at, "", "names no %s", kind)
		return document{}, false
	}
	var found []document
	for _, d := range c.of(kind) {
		if d.name == name {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		c.bad(ref.at("name"), "give its file too", "the %s %s is not among the documents", kind, name)
		return document{}, false
	case 1:
		return found[0], true
	}
	if kind == "VSphereMachineConfigPool" { // as it was and as it shall be: --check compares them
		return found[len(found)-1], true
	}
	c.bad(ref.at("name"), "", "two documents are the %s %s: %s:%d and %s:%d", kind, name, found[0].file, found[0].n.Line, found[1].file, found[1].n.Line)
	return found[0], true
}

// pool is a machine for every entry of the pool that a template refers to.
func (c *converter) pool(t document, base machine, used map[string]bool) []machine {
	if t.kind == "DCSMachineTemplate" {
		return c.dcs(t, base, used)
	}
	return c.vsphere(t, base, used)
}
