package config

import (
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/firewall/port"
	"nodeagent/internal/kubelet/nodename"
)

var (
	versionForm = regexp.MustCompile(`^v1\.[0-9]+\.[0-9]+$`)
	repoID      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`)
	moduleName  = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	sysctlKey   = regexp.MustCompile(`^[a-z0-9_]+([./][a-zA-Z0-9_:*-]+)+$`)
	packageSpec = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+:~^*-]*$`)
	packageName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	caHash      = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	labelKey    = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue  = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	flagName    = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// checker collects problems at the place where the value stands.
type checker struct {
	d        *decoder
	warnings []string
}

func (d *decoder) validate(c *NodeConfig) []string {
	k := &checker{d: d}
	s := &c.Spec
	k.contents(s)
	if s.Kubernetes.Version == "" {
		k.bad("spec.kubernetes.version", "name an exact release, such as v1.35.4", "missing")
	} else if !versionForm.MatchString(s.Kubernetes.Version) {
		k.bad("spec.kubernetes.version", "name an exact release, such as v1.35.4", "%q is not a release", s.Kubernetes.Version)
	}
	if h := s.Hostname; h != "" && (!nodename.Valid(h) || nodename.None(h)) {
		near := "give the host a name of its own"
		if n := nodename.Suggest(h); n != "" {
			near = "try " + n
		}
		k.bad("spec.hostname", "a node name is lower-case letters, digits, dashes and dots: "+near, "%q can't be a node name", h)
	} else if len(h) > nodename.Longest {
		k.bad("spec.hostname", fmt.Sprintf("%d characters at most: it becomes the label kubernetes.io/hostname", nodename.Longest), "%s has %d characters", h, len(h))
	}
	k.packages(s)
	k.runtime(s)
	k.kernel(s)
	k.disks(s)
	k.firewall(s)
	k.kubelet(s)
	k.files(s)
	k.caTrust(s)
	k.mounts(s)
	k.time(s)
	k.proxy(s)
	k.join(s)
	k.notYet(s)
	return k.warnings
}

// bad records a problem at path or, when path has no place of its own, at its
// nearest parent.
func (k *checker) bad(path, hint, format string, a ...any) {
	p := Problem{Path: path, Text: fmt.Sprintf(format, a...), Hint: hint}
	for at := path; ; {
		if pos, ok := k.d.at[at]; ok {
			p.File, p.Line, p.Column = pos.file, pos.line, pos.column
			break
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	k.d.problems = append(k.d.problems, p)
}

func (k *checker) packages(s *Spec) {
	seen := map[string]bool{}
	for i, r := range s.Packages.Repositories {
		at := fmt.Sprintf("spec.packages.repositories[%d]", i)
		if !repoID.MatchString(r.ID) {
			k.bad(at+".id", "letters, digits, dots, dashes", "%q can't be a repository id", r.ID)
		} else if seen[r.ID] {
			k.bad(at+".id", "", "repository %s is given twice", r.ID)
		}
		seen[r.ID] = true
		k.url(at+".baseURL", r.BaseURL, "http", "https", "file")
		for j, key := range r.GPGKeys {
			if !strings.HasPrefix(key, "/") {
				k.url(fmt.Sprintf("%s.gpgKeys[%d]", at, j), key, "http", "https", "file")
			}
		}
		switch {
		case !*r.GPGCheck:
			k.warnings = append(k.warnings, fmt.Sprintf("repository %s: gpgCheck is false, so anyone who can answer for %s can put packages on this host", r.ID, r.BaseURL))
		case len(r.GPGKeys) == 0:
			k.bad(at+".gpgKeys", "name the signing key's URL or file", "missing, and signatures are checked")
		}
		if strings.ContainsAny(r.Name+strings.Join(r.Exclude, ""), "\n\r[]") {
			k.bad(at+".name", "", "line breaks and brackets can't go into a .repo file")
		}
	}
	for i, p := range s.Packages.Install {
		if !packageSpec.MatchString(p) {
			k.bad(fmt.Sprintf("spec.packages.install[%d]", i), "a bare name, or name-version", "%q is not a package", p)
		}
	}
	for i, p := range s.Packages.Remove {
		if !packageName.MatchString(p) {
			k.bad(fmt.Sprintf("spec.packages.remove[%d]", i), "a bare name, without version and wildcards", "%q is not a package name", p)
		}
	}
	if len(s.Packages.Install) > 0 && s.Packages.Manager == "none" {
		k.bad("spec.packages.install", "put the packages into the image, or set packages.manager", "packages can't be installed with manager none")
	}
}

func (k *checker) url(at, raw string, schemes ...string) {
	u, err := url.Parse(raw)
	if raw == "" {
		k.bad(at, "", "missing")
	} else if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" && u.Scheme != "file" || strings.ContainsAny(raw, " \n\t") {
		k.bad(at, "a URL with "+strings.Join(schemes, ", "), "%q is not a URL that can be used here", raw)
	} else if u.User != nil {
		k.bad(at, "serve it without a password, or from a file", "a password in a URL would reach logs")
	}
}

func (k *checker) runtime(s *Spec) {
	if p := s.Runtime.Package; p != "" && !packageSpec.MatchString(p) {
		k.bad("spec.runtime.package", "", "%q is not a package", p)
	}
	if s.Runtime.Source == "archive" && len(s.Runtime.Archives) == 0 {
		k.bad("spec.runtime.archives", "name the containerd archive and the runc program", "missing, and source is archive")
	}
	if len(s.Runtime.Archives) > 0 && s.Runtime.Source != "archive" && s.Runtime.Source != "auto" {
		k.bad("spec.runtime.archives", "set source: archive", "given, but source is %s", s.Runtime.Source)
	}
	for i, a := range s.Runtime.Archives {
		at := fmt.Sprintf("spec.runtime.archives[%d]", i)
		k.url(at+".url", a.URL, "http", "https", "file")
		if b, err := hex.DecodeString(a.SHA256); err != nil || len(b) != 32 {
			k.bad(at+".sha256", "64 hex digits; sha256sum prints them", "%q is not a SHA-256", a.SHA256)
		}
		k.absolute(at+".into", a.Into)
		if _, err := ParseSize(a.MaxSize); err != nil {
			k.bad(at+".maxSize", "such as 300MiB", "%v", err)
		}
	}
	if !strings.HasPrefix(s.Runtime.Socket, "unix:///") {
		k.bad("spec.runtime.socket", "such as "+DefaultSocket, "%q is not a unix socket URL", s.Runtime.Socket)
	}
	for i, m := range s.Runtime.Mirrors {
		at := fmt.Sprintf("spec.runtime.mirrors[%d]", i)
		if m.Registry == "" || strings.ContainsAny(m.Registry, "/ \n") {
			k.bad(at+".registry", "the host alone, such as docker.io", "%q is not a registry host", m.Registry)
		}
		if len(m.Endpoints) == 0 {
			k.bad(at+".endpoints", "", "missing")
		}
		for j, e := range m.Endpoints {
			k.url(fmt.Sprintf("%s.endpoints[%d]", at, j), e, "http", "https")
		}
	}
}

func (k *checker) absolute(at, p string) {
	switch {
	case p == "":
		k.bad(at, "", "missing")
	case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\n\t\x00"):
		k.bad(at, "an absolute path without .. or a slash at its end", "%q is not a clean absolute path", p)
	}
}

func (k *checker) kernel(s *Spec) {
	for i, m := range s.Kernel.Modules {
		if !moduleName.MatchString(m) {
			k.bad(fmt.Sprintf("spec.kernel.modules[%d]", i), "", "%q is not a module name", m)
		}
	}
	for key, v := range s.Kernel.Sysctls {
		if !sysctlKey.MatchString(key) || strings.Contains(key, "..") {
			k.bad("spec.kernel.sysctls."+key, "such as net.ipv4.ip_forward", "%q is not a sysctl", key)
		}
		if strings.ContainsAny(v, "\n\r") || v == "" {
			k.bad("spec.kernel.sysctls."+key, "", "%q is not a value", v)
		}
	}
}

func (k *checker) firewall(s *Spec) {
	for i, p := range s.Firewall.Allow {
		at := fmt.Sprintf("spec.firewall.allow[%d]", i)
		if _, err := port.Parse(p); err != nil {
			k.bad(at, "such as 10250/tcp or 30000-32767/udp", "%q is not a port or a range of ports", p)
		}
	}
	for i, c := range s.Firewall.TrustedSources {
		at := fmt.Sprintf("spec.firewall.trustedSources[%d]", i)
		p, err := netip.ParsePrefix(c)
		switch {
		case err != nil:
			k.bad(at, "such as 10.244.0.0/16", "%q is not a CIDR", c)
		case p.Bits() == 0:
			k.bad(at, "name the pod and service CIDRs", "%s would accept everything from everywhere", c)
		case p.Masked() != p:
			k.bad(at, "write "+p.Masked().String(), "%s has bits set beyond its prefix", c)
		}
	}
}

func (k *checker) kubelet(s *Spec) {
	for key, v := range s.Kubelet.Labels {
		at := "spec.kubelet.labels." + key
		if !labelKey.MatchString(key) {
			k.bad(at, "", "%q is not a label key", key)
		}
		if !labelValue.MatchString(v) {
			k.bad(at, "", "%q is not a label value", v)
		}
		k.ownLabel(s, at, key)
	}
	for i, t := range s.Kubelet.Taints {
		at := fmt.Sprintf("spec.kubelet.taints[%d]", i)
		if !labelKey.MatchString(t.Key) {
			k.bad(at+".key", "", "%q is not a taint key", t.Key)
		}
		if !labelValue.MatchString(t.Value) {
			k.bad(at+".value", "", "%q is not a taint value", t.Value)
		}
		if t.Effect == "" {
			k.bad(at+".effect", "NoSchedule, PreferNoSchedule or NoExecute", "missing")
		}
	}
	seen := map[string]bool{}
	for i, a := range s.Kubelet.ExtraArgs {
		at := fmt.Sprintf("spec.kubelet.extraArgs[%d]", i)
		if !flagName.MatchString(a.Name) {
			k.bad(at+".name", "without dashes in front", "%q is not a flag name", a.Name)
		}
		if seen[a.Name] {
			k.bad(at+".name", "", "flag %s is given twice", a.Name)
		}
		seen[a.Name] = true
		if strings.ContainsAny(a.Value, "\n\"") {
			k.bad(at+".value", "", "quotes and line breaks can't go into kubelet's flag file")
		}
		switch a.Name {
		case "node-labels":
			k.bad(at+".name", "use spec.kubelet.labels", "labels have a place of their own")
		case "register-with-taints":
			k.bad(at+".name", "use spec.kubelet.taints", "taints have a place of their own")
		case "hostname-override":
			k.bad(at+".name", "use spec.hostname", "the node's name has a place of its own")
		case "node-ip":
			for _, ip := range strings.Split(a.Value, ",") {
				if _, err := netip.ParseAddr(strings.TrimSpace(ip)); err != nil {
					k.bad(at+".value", "", "%q is not an address", ip)
				}
			}
		}
	}
}

func (k *checker) files(s *Spec) {
	seen := map[string]bool{}
	for i, f := range s.Files {
		at := fmt.Sprintf("spec.files[%d]", i)
		k.absolute(at+".path", f.Path)
		if seen[f.Path] {
			k.bad(at+".path", "", "%s is given twice", f.Path)
		}
		seen[f.Path] = true
		if n, err := strconv.ParseUint(f.Permissions, 8, 12); err != nil || n > 0o7777 {
			k.bad(at+".permissions", `octal, such as "0644"`, "%q is not a mode", f.Permissions)
		}
		if u, g, ok := strings.Cut(f.Owner, ":"); !ok || u == "" || g == "" {
			k.bad(at+".owner", "such as root:root", "%q is not user:group", f.Owner)
		}
	}
}

func (k *checker) join(s *Spec) {
	j := &s.Join
	k.token(&j.Token)
	k.shredded(s)
	if j.Endpoint != "" {
		if host, port, err := net.SplitHostPort(j.Endpoint); err != nil || host == "" || port == "" {
			k.bad("spec.join.endpoint", "such as cp.example:6443", "%q is not host:port", j.Endpoint)
		}
	}
	for i, h := range j.CACertHashes {
		if !caHash.MatchString(h) {
			k.bad(fmt.Sprintf("spec.join.caCertHashes[%d]", i), "sha256: and 64 lower-case hex digits", "%q is not a pin", h)
		}
	}
	if j.CACert != "" {
		if b, _ := pem.Decode([]byte(j.CACert)); b == nil || b.Type != "CERTIFICATE" {
			k.bad("spec.join.caCert", "", "is not a PEM certificate")
		}
	}
	if j.CACertFile != "" {
		k.absolute("spec.join.caCertFile", j.CACertFile)
	}
	if j.CACert != "" && j.CACertFile != "" {
		k.bad("spec.join.caCertFile", "keep one", "given beside caCert")
	}
}
