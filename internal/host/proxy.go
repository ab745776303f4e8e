package host

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// proxyOf is the proxy for a request: what the environment says, and when it
// says nothing at all, the proxy of dnf.conf(5) or tdnf.conf, which on many
// hosts is the only place that knows the way out.
func proxyOf(r *http.Request) (*url.URL, error) {
	if len(proxies()) > 0 {
		return http.ProxyFromEnvironment(r)
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
