package runtime

import (
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

// proxyHeader is the first line of the drop-in.
const proxyHeader = "# Kept by nodeagent (spec.proxy).\n"

// proxyPath is the drop-in that gives the runtime its proxy. Its name sorts
// before that of an administrator's usual http-proxy.conf, which so wins.
func proxyPath(r config.Runtime) string {
	return "/etc/systemd/system/" + Unit(r) + ".d/10-nodeagent-proxy.conf"
}

// proxyFile is that drop-in: systemd.exec(5) for Environment=, systemd.syntax(7)
// for the quotes, systemd.unit(5) for the percent sign.
func proxyFile(vars []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%")
	var b strings.Builder
	b.WriteString(proxyHeader + "[Service]\n")
	for _, v := range vars {
		b.WriteString(`Environment="` + quote.Replace(v) + "\"\n")
	}
	return b.String()
}

// readProxy reads the drop-in, which counts for the daemon's age when it is
// asked for.
func (f *Facts) readProxy(v host.View, spec config.Spec) error {
	path := proxyPath(spec.Runtime)
	var err error
	if f.Proxy, err = host.ReadText(v, path); err != nil || !spec.Proxy.Asked() {
		return err
	}
	return f.touched(v, path)
}

// planProxy gives the runtime the proxy that is asked for. One that isn't any
// more is told: like all that earlier configurations have left, it stays until
// somebody takes it away.
func planProxy(spec config.Spec, f Facts, foreign bool, p *change.Plan) bool {
	path := proxyPath(spec.Runtime)
	vars := spec.ProxyVariables(f.Hostname)
	switch {
	case len(vars) == 0:
		if f.Proxy.Exists && strings.HasPrefix(f.Proxy.Content, proxyHeader) {
			p.Warnings = append(p.Warnings, path+" is of an earlier configuration, and "+Unit(spec.Runtime)+" still uses the proxy in it: if it shall not, rm "+path+" && systemctl daemon-reload && systemctl restart "+Unit(spec.Runtime))
		}
		return false
	case foreign:
		p.Warnings = append(p.Warnings, "spec.proxy doesn't reach the runtime at "+spec.Runtime.Socket+", which "+Unit(spec.Runtime)+" doesn't run: give it the proxy where it is set up")
		return false
	}
	c, ok := f.Proxy.Write(path, "0644", "root:root", proxyFile(vars), "give "+Unit(spec.Runtime)+" the proxy")
	if ok {
		p.Changes = append(p.Changes, c)
	}
	return ok
}
