package runtime

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"nodeagent/internal/config"
)

// hostsPath is the file of one registry below the directory of config_path
// (containerd's docs/hosts.md).
func hostsPath(dir, registry string) string { return dir + "/" + registry + "/hosts.toml" }

// hostsFile is the whole hosts.toml of one registry: the mirrors in their
// order, the registry itself last.
func hostsFile(m config.Mirror) string {
	var b strings.Builder
	b.WriteString("# Kept by nodeagent (spec.runtime.mirrors).\n")
	if server := upstream(m.Registry); server != "" {
		fmt.Fprintf(&b, "server = %q\n", server)
	}
	for _, e := range m.Endpoints {
		fmt.Fprintf(&b, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", strings.TrimSuffix(e, "/"))
		if hasAPIPath(e) {
			b.WriteString("  override_path = true\n")
		}
	}
	return b.String()
}

// upstream is where a registry itself is served; _default stands for all.
func upstream(registry string) string {
	switch registry {
	case "_default":
		return ""
	case "docker.io":
		return "https://registry-1.docker.io"
	}
	return "https://" + registry
}

// hasAPIPath tells whether an endpoint names the API's root itself, as proxies
// of several registries do (https://harbor.example/v2/dockerhub); containerd
// would add another /v2 otherwise.
func hasAPIPath(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && slices.Contains(strings.Split(u.Path, "/"), "v2")
}
