package host

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"nodeagent/internal/join/kubeconfig"
)

// UseProxy makes the proxy of a configuration, as NAME=VALUE in upper-case
// names, that of this process and of every program that it starts. It replaces
// what the environment said before; without variables nothing changes.
func (l *Linux) UseProxy(vars []string) error {
	if len(vars) == 0 {
		return nil
	}
	for _, name := range proxyNames {
		for _, n := range []string{name, strings.ToUpper(name)} {
			if err := os.Unsetenv(n); err != nil {
				return err
			}
		}
	}
	l.proxy = nil
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		for _, n := range []string{name, strings.ToLower(name)} { // curl reads http_proxy in lower case only
			if err := os.Setenv(n, value); err != nil {
				return err
			}
			l.proxy = append(l.proxy, n+"="+value)
		}
	}
	return nil
}

// proxyFor is the proxy that a program gets: that of the configuration.
func (l *Linux) proxyFor(p program) []string {
	if p.direct {
		return nil
	}
	return l.proxy
}

// hookProxy is the proxy for hooks, with the API server of the cluster that the
// host has joined excepted: its address may have come with a token, and a hook
// may ask it.
func (l *Linux) hookProxy() []string {
	b, err := l.ReadFile(KubeletConf)
	if err != nil || len(l.proxy) == 0 {
		return nil // not joined
	}
	k, err := kubeconfig.Parse(b)
	if err != nil {
		return nil // the join step tells
	}
	u, err := url.Parse(k.Server)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	direct := os.Getenv("NO_PROXY")
	if !slices.Contains(strings.Split(direct, ","), u.Hostname()) {
		direct += "," + u.Hostname()
	}
	return []string{"NO_PROXY=" + direct, "no_proxy=" + direct}
}

// proxyNames are the variables of a proxy, in lower case.
var proxyNames = []string{"http_proxy", "https_proxy", "no_proxy", "all_proxy"}

// proxies are the proxy settings of this process, which package managers
// honour too. Passwords in them stay in the environment.
func proxies() []string {
	var out []string
	for _, name := range proxyNames {
		for _, n := range []string{name, strings.ToUpper(name)} {
			if v := os.Getenv(n); v != "" && n != "HTTP_PROXY" { // which curl ignores, as a CGI server may set it
				out = append(out, n+"="+v)
			}
		}
	}
	return out
}

// proxyOf is the proxy for a request: what the environment says, and when it
// says nothing at all, the proxy of dnf.conf(5) or tdnf.conf, which on many
// hosts is the only place that knows the way out. The environment is read each
// time, since the configuration may have changed it (UseProxy), and
// http.ProxyFromEnvironment remembers its first answer.
func proxyOf(r *http.Request) (*url.URL, error) {
	if len(proxies()) > 0 {
		return httpproxy.FromEnvironment().ProxyFunc()(r.URL)
	}
	if ip := net.ParseIP(r.URL.Hostname()); r.URL.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil, nil
	}
	for _, path := range []string{"/etc/dnf/dnf.conf", "/etc/tdnf/tdnf.conf"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if u := parseProxy(string(b)); u != nil {
			return u, nil
		}
	}
	return nil, nil
}

// parseProxy reads proxy, proxy_username and proxy_password in the section
// [main]; nil when there is no proxy that can be used.
func parseProxy(conf string) *url.URL {
	set := map[string]string{}
	section := ""
	for line := range strings.Lines(conf) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[main]" {
			set[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	u, err := url.Parse(set["proxy"])
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return nil
	}
	if name := set["proxy_username"]; name != "" {
		u.User = url.UserPassword(name, set["proxy_password"])
	}
	return u
}
