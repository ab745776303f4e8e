package kubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/kubelet/field"
)

// patch is what the node lays over the cluster's configuration: what was
// asked for, and what is true of this node alone.
func patch(spec config.Spec, resolvConf string) map[string]any {
	own := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		// The runtime is configured for it, whatever the cluster's own says.
		"cgroupDriver": "systemd",
		// The cluster's is that of its control plane's hosts.
		"resolvConf": resolvConf,
	}
	if spec.Kubelet.ProviderID != "" {
		own["providerID"] = spec.Kubelet.ProviderID
	}
	// Not field.Merge: a null in the patch has to stay one.
	for k, v := range spec.Kubelet.Config {
		if k != "apiVersion" && k != "kind" {
			own[k] = v
		}
	}
	return own
}

func encode(m map[string]any) (string, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return string(b) + "\n", err
}

// chooseResolv picks the resolv.conf that pods shall get: systemd-resolved's
// own file where it has a server that pods can reach, else /etc/resolv.conf.
// current is what kubelet has now; it wins when neither is better.
func chooseResolv(f Facts, current string) (path, warning string) {
	switch {
	case f.Systemd.real():
		return systemdResolv, ""
	case f.Etc.real():
		return etcResolv, ""
	case current == systemdResolv && f.Systemd.Exists, current == etcResolv:
		return current, ""
	case f.Systemd.Exists && !f.Route: // DHCP hasn't brought the servers yet
		return systemdResolv, ""
	case !f.Etc.Exists && strings.Contains(f.Etc.Link, "/run/systemd/resolve/"): // an image, or a boot that hasn't come that far
		return systemdResolv, ""
	case !f.Etc.Exists || len(f.Etc.Servers) == 0:
		return etcResolv, "" // filled once the network is up
	}
	return etcResolv, "/etc/resolv.conf names only " + strings.Join(f.Etc.Servers, ", ") + ", which pods can't reach: name resolution in pods without cluster DNS will fail"
}

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:]) + "\n"
}

// foreign returns why the patch that is there may not be replaced: somebody
// else made it, and it says something that ours doesn't.
func foreign(f Facts, want map[string]any) error {
	if !f.Patch.Exists || strings.TrimSpace(f.PatchSum.Content) == strings.TrimSpace(sum(f.Patch.Content)) {
		return nil
	}
	var there map[string]any
	if err := yaml.Unmarshal([]byte(f.Patch.Content), &there); err != nil {
		return fail.New(fail.Safety, "move it away, and what it is for to spec.kubelet.config", "%s is there, not made by nodeagent, and not readable: %v", PatchPath, err)
	}
	lost := field.Differs(there, want)
	// A null deletes: ours has to delete as well, which Differs can't see.
	for k, v := range there {
		if mine, ok := want[k]; v == nil && (!ok || mine != nil) {
			lost = append(lost, k)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fail.New(fail.Safety, "copy these settings to spec.kubelet.config, then the file may be replaced; or remove it",
		"%s is there, not made by nodeagent, and says something else about %s", PatchPath, strings.Join(lost, ", "))
}

// readConfig reads config.yaml.
func readConfig(content string) (map[string]any, error) {
	var m map[string]any
	if err := yaml.Unmarshal([]byte(content), &m); err != nil {
		return nil, fmt.Errorf("%s is not readable: %w", ConfigPath, err)
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}
