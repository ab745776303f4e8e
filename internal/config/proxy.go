package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Asked tells whether there is a proxy for anything.
func (p Proxy) Asked() bool { return p.HTTP != "" || p.HTTPS != "" }

// ProxyVariables are the proxy and its exceptions as NAME=VALUE in the form
// that programs read in their environment: HTTP_PROXY, HTTPS_PROXY, NO_PROXY.
// hostname is the host's own and counts when the configuration gives none. It
// returns none when no proxy is asked for.
func (s Spec) ProxyVariables(hostname string) (vars []string) {
	if !s.Proxy.Asked() {
		return nil
	}
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", s.Proxy.HTTP},
		{"HTTPS_PROXY", s.Proxy.HTTPS},
		{"NO_PROXY", strings.Join(s.direct(hostname), ",")},
	} {
		if v.value != "" {
			vars = append(vars, v.name+"="+v.value)
		}
	}
	return vars
}

// direct is what is never reached through the proxy: this host, the API server,
// the cluster's networks, and what the configuration adds.
func (s Spec) direct(hostname string) (out []string) {
	if s.Hostname != "" {
		hostname = s.Hostname
	}
	server, _, _ := net.SplitHostPort(s.Join.Endpoint) // validated; empty when a token document brings it
	for _, entry := range slices.Concat(
		[]string{"localhost", "127.0.0.0/8", "::1", strings.ToLower(strings.TrimSpace(hostname)), server},
		s.Firewall.TrustedSources, s.Proxy.NoProxy,
	) {
		if entry != "" && !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	return out
}

// exception is a host or a domain, with a port or without.
var exception = regexp.MustCompile(`^\.?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// hostForm tells whether s is an address or can be a host's name.
func hostForm(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || exception.MatchString(s) && !strings.Contains(s, ":") && s[0] != '.'
}

// proxy checks the proxy and its exceptions.
func (k *checker) proxy(s *Spec) {
	k.proxyURL("spec.proxy.http", s.Proxy.HTTP)
	k.proxyURL("spec.proxy.https", s.Proxy.HTTPS)
	switch {
	case !s.Proxy.Asked() && len(s.Proxy.NoProxy) > 0:
		k.bad("spec.proxy.noProxy", "set http and https beside it", "names exceptions, and there is no proxy")
	case s.Proxy.HTTP == "" && s.Proxy.HTTPS != "":
		k.warnings = append(k.warnings, "spec.proxy.http isn't given: http URLs are fetched without a proxy")
	case s.Proxy.HTTP != "" && s.Proxy.HTTPS == "":
		k.warnings = append(k.warnings, "spec.proxy.https isn't given: https URLs, which most are, are fetched without a proxy")
	}
	for i, e := range s.Proxy.NoProxy {
		k.exception(fmt.Sprintf("spec.proxy.noProxy[%d]", i), e)
	}
}

// proxyURL checks a proxy. A text that may hold a password isn't repeated.
func (k *checker) proxyURL(at, raw string) {
	if raw == "" {
		return
	}
	if strings.Contains(raw, "@") {
		k.bad(at, "let the proxy admit this host by its address, or run one on it that logs in", "a user or password for the proxy would be readable in containerd's unit and in every program's environment")
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !hostForm(u.Hostname()) || u.Path != "" && u.Path != "/" || strings.ContainsAny(raw, "?#"):
		k.bad(at, "a scheme, a host and a port, such as http://proxy.example:3128", "%q is not a proxy", raw)
	case u.Port() == "":
		k.bad(at, "such as http://proxy.example:3128", "%q has no port, and programs disagree about the one that is meant", raw)
	}
}

// exception checks an entry of noProxy for what Go and curl read alike.
func (k *checker) exception(at, e string) {
	if a, err := netip.ParseAddr(e); err == nil && a.Zone() == "" {
		return
	}
	if p, err := netip.ParsePrefix(e); err == nil {
		if p.Masked() != p {
			k.bad(at, "write "+p.Masked().String(), "%s has bits set beyond its prefix", e)
		}
		return
	}
	switch {
	case e == "*":
		k.bad(at, "leave spec.proxy away", "an exception for everything leaves nothing to the proxy")
	case strings.HasPrefix(e, "*."):
		k.bad(at, "write "+e[1:], "%q: curl, and so the package manager, knows no asterisks", e)
	case !exception.MatchString(e):
		k.bad(at, "a host, a domain such as .example, an address or a network such as 10.0.0.0/8", "%q is not a host, a domain or a network", e)
	}
}
