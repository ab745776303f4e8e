package manifest

import (
	"regexp"
	"strings"
)

var ansibleRef = regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// looksAnsible tells whether a document without a kind is group_vars of a role
// for workers.
func looksAnsible(v value) bool {
	for _, p := range v.pairs() {
		if strings.HasPrefix(p.key, "var_kub_") || strings.HasPrefix(p.key, "var_k8s_") {
			return true
		}
	}
	return false
}

// nativePackages are those that nodeagent installs by itself for a release.
var nativePackages = map[string]bool{"kubeadm": true, "kubelet": true}

// ansible reads a role's variables: var_kub_version, and var_k8s_packages_worker.
func (c *converter) ansible(d *draft, v value) {
	known := map[string]string{}
	for _, p := range v.pairs() {
		if p.is() && p.n.Kind != seqKind && len(p.n.Content) == 0 {
			known[p.key] = p.text()
		}
	}
	resolve := func(at value, s string) (string, bool) {
		s = ansibleRef.ReplaceAllStringFunc(s, func(ref string) string {
			if x, ok := known[ansibleRef.FindStringSubmatch(ref)[1]]; ok {
				return x
			}
			return ref
		})
		if strings.Contains(s, "{{") || strings.Contains(s, "{%") {
			c.bad(at, "give the file that sets it, in one with these", "%q has a variable that isn't set here", short(s))
			return "", false
		}
		return s, true
	}
	for _, p := range v.pairs() {
		switch p.key {
		case "var_kub_version":
			if s, ok := resolve(p.value, p.text()); ok {
				c.putRelease(d, p.value, s)
			}
		case "var_k8s_packages_worker":
			for _, item := range p.items() {
				s, ok := resolve(item, item.text())
				if !ok {
					continue
				}
				name, _, _ := strings.Cut(s, "-")
				if nativePackages[name] {
					d.remark("Native: kubeadm and kubelet of spec.kubernetes.version; was: " + s)
					continue
				}
				d.add(item, "", s, "spec", "packages", "install")
			}
		default:
			c.bad(p.value, "variables that are read: var_kub_version, var_k8s_packages_worker", "is a variable that isn't known to this conversion")
		}
	}
}
