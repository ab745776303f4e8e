package token

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/fail"
)

// parseYAML reads the structured forms. Of several YAML documents the one that
// carries a token counts: a JoinConfiguration often stands beside others.
func parseYAML(b []byte) (Document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var found []Document
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // its text may quote the document
			return Document{}, bad("is not readable as JSON or YAML%s", place(err))
		}
		if len(n.Content) == 0 || n.Content[0].Tag == "!!null" {
			continue
		}
		if n.Content[0].Kind != yaml.MappingNode {
			return Document{}, bad("is YAML, but not a mapping")
		}
		if aliased(&n) {
			return Document{}, bad("uses YAML anchors, which can blow up to any size and are not accepted")
		}
		d, ok, err := one(n.Content[0], b)
		if err != nil {
			return Document{}, err
		}
		if ok {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return Document{}, bad("is YAML without a token, a JoinConfiguration or a kubeconfig")
	case 1:
		return found[0], nil
	}
	return Document{}, bad("holds %d documents with a token; one is wanted", len(found))
}

// place is the line of a YAML error, without the text beside it.
func place(err error) string {
	var line int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(err.Error(), "yaml: "), "line %d:", &line); n == 1 {
		return fmt.Sprintf(" (line %d)", line)
	}
	return ""
}

func aliased(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return true
	}
	for _, c := range n.Content {
		if aliased(c) {
			return true
		}
	}
	return false
}

func one(n *yaml.Node, whole []byte) (Document, bool, error) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if n.Decode(&head) != nil {
		return Document{}, false, bad("has an apiVersion or a kind that is not text")
	}
	switch {
	case head.Kind == "" && head.APIVersion == "":
		d, err := simple(n)
		return d, err == nil, err
	case head.Kind == "JoinConfiguration":
		d, err := joinConfiguration(n, head.APIVersion)
		return d, err == nil, err
	case head.Kind == "BootstrapToken": // kubeadm token list -o json
		d, err := bootstrapToken(n)
		return d, err == nil, err
	case head.Kind == "Config":
		d, err := kubeconfig(n, whole)
		return d, err == nil, err
	}
	return Document{}, false, nil
}

// simple is {token, endpoint, caCertHashes, caCert, expiration}.
func simple(n *yaml.Node) (Document, error) {
	var raw struct {
		Token        string   `yaml:"token"`
		Endpoint     string   `yaml:"endpoint"`
		CACertHashes []string `yaml:"caCertHashes"`
		CACert       string   `yaml:"caCert"`
		Expiration   string   `yaml:"expiration"`
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; key {
		case "token", "endpoint", "caCertHashes", "caCert", "expiration":
		default:
			if len(key) > 40 || inText.MatchString(key) {
				key = "(redacted)"
			}
			return Document{}, fail.New(fail.Step, "the keys are token, endpoint, caCertHashes, caCert and expiration", "the token document has an unknown key %s in line %d", printable(key), n.Content[i].Line)
		}
	}
	if n.Decode(&raw) != nil {
		return Document{}, bad("has a value of the wrong type; token, endpoint, caCert and expiration are text, caCertHashes is a list")
	}
	d := Document{CACert: []byte(raw.CACert)}
	if raw.CACert == "" {
		d.CACert = nil
	}
	err := cmp.Or(d.setToken(raw.Token), d.setEndpoint(raw.Endpoint), d.pins(raw.CACertHashes), d.setExpiration(raw.Expiration))
	return d, err
}

func bootstrapToken(n *yaml.Node) (Document, error) {
	var raw struct {
		Token   string `yaml:"token"`
		Expires string `yaml:"expires"`
	}
	if n.Decode(&raw) != nil {
		return Document{}, bad("is a BootstrapToken that can't be read")
	}
	var d Document
	err := cmp.Or(d.setToken(raw.Token), d.setExpiration(raw.Expires))
	return d, err
}

func joinConfiguration(n *yaml.Node, version string) (Document, error) {
	if version != "kubeadm.k8s.io/v1beta3" && version != "kubeadm.k8s.io/v1beta4" {
		return Document{}, fail.New(fail.Step, "convert it with: kubeadm config migrate", "the token document is a JoinConfiguration of a version that is not kubeadm.k8s.io/v1beta3 or v1beta4")
	}
	var raw struct {
		ControlPlane *yaml.Node `yaml:"controlPlane"`
		Discovery    struct {
			BootstrapToken *struct {
				Token             string   `yaml:"token"`
				APIServerEndpoint string   `yaml:"apiServerEndpoint"`
				CACertHashes      []string `yaml:"caCertHashes"`
			} `yaml:"bootstrapToken"`
			File *struct {
				KubeConfigPath string `yaml:"kubeConfigPath"`
			} `yaml:"file"`
			TLSBootstrapToken string `yaml:"tlsBootstrapToken"`
		} `yaml:"discovery"`
	}
	if n.Decode(&raw) != nil {
		return Document{}, bad("is a JoinConfiguration that can't be read")
	}
	if raw.ControlPlane != nil && raw.ControlPlane.Tag != "!!null" {
		return Document{}, controlPlaneRefused("controlPlane")
	}
	if raw.Discovery.File != nil {
		return Document{}, fail.New(fail.Step, "give that file itself as the token document", "the token document is a JoinConfiguration with discovery.file, which points elsewhere")
	}
	b := raw.Discovery.BootstrapToken
	if b == nil {
		return Document{}, bad("is a JoinConfiguration without discovery.bootstrapToken")
	}
	var d Document
	if tls := raw.Discovery.TLSBootstrapToken; tls != "" && tls != b.Token {
		return Document{}, bad("is a JoinConfiguration with two different tokens")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; key {
		case "nodeRegistration", "patches", "skipPhases", "timeouts", "caCertPath", "dryRun":
			d.Ignored = append(d.Ignored, key)
		}
	}
	err := cmp.Or(d.setToken(b.Token), d.setEndpoint(b.APIServerEndpoint), d.pins(b.CACertHashes))
	return d, err
}

// kubeconfig takes server, CA and token of the current context. A user that
// isn't a bootstrap token keeps the file whole for kubeadm's file discovery.
func kubeconfig(n *yaml.Node, whole []byte) (Document, error) {
	var raw struct {
		Current  string `yaml:"current-context"`
		Clusters []struct {
			Name    string `yaml:"name"`
			Cluster struct {
				Server string `yaml:"server"`
				CA     string `yaml:"certificate-authority-data"`
				Skip   bool   `yaml:"insecure-skip-tls-verify"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
		Contexts []struct {
			Name    string `yaml:"name"`
			Context struct {
				Cluster string `yaml:"cluster"`
				User    string `yaml:"user"`
			} `yaml:"context"`
		} `yaml:"contexts"`
		Users []struct {
			Name string `yaml:"name"`
			User struct {
				Token string `yaml:"token"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if n.Decode(&raw) != nil {
		return Document{}, bad("is a kubeconfig that can't be read")
	}
	if len(raw.Clusters) == 0 {
		return Document{}, bad("is a kubeconfig without a cluster")
	}
	cluster, user := raw.Clusters[0].Cluster, ""
	for _, c := range raw.Contexts {
		if c.Name != raw.Current {
			continue
		}
		user = c.Context.User
		for _, x := range raw.Clusters {
			if x.Name == c.Context.Cluster {
				cluster = x.Cluster
			}
		}
	}
	secret := ""
	for _, u := range raw.Users {
		if u.Name == user || user == "" && len(raw.Users) == 1 {
			secret = u.User.Token
		}
	}
	ca, err := base64.StdEncoding.DecodeString(cluster.CA)
	switch {
	case cluster.Skip:
		return Document{}, bad("is a kubeconfig with insecure-skip-tls-verify, so anybody could pose as the API server")
	case err != nil || len(ca) == 0:
		return Document{}, bad("is a kubeconfig without an embedded CA (certificate-authority-data)")
	case secret == "":
		return Document{}, fail.New(fail.Step, "name it as spec.join.token.kubeconfig, and nodeagent makes a token with it; or do that yourself: kubeadm token create --kubeconfig FILE --ttl 20m --print-join-command", "the token document is a kubeconfig whose user has no token")
	}
	u, err := url.Parse(cluster.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return Document{}, bad("is a kubeconfig whose server is not an https URL")
	}
	if u.Port() == "" {
		u.Host += ":443"
	}
	d := Document{CACert: ca}
	if err := d.setEndpoint(u.Host); err != nil {
		return Document{}, err
	}
	if form.MatchString(secret) {
		d.Token = secret
	} else {
		d.Kubeconfig = whole
	}
	return d, nil
}

func (d *Document) setToken(s string) error {
	s = strings.TrimSpace(s)
	if s == "" {
		return bad("has no token")
	}
	if !form.MatchString(s) {
		return notAToken()
	}
	d.Token = s
	return nil
}

func (d *Document) setEndpoint(s string) (err error) {
	if s = strings.TrimSpace(s); s != "" {
		d.Endpoint, err = endpoint(s)
	}
	return err
}

func (d *Document) setExpiration(s string) (err error) {
	if s = strings.TrimSpace(s); s == "" || s == "never" || s == "<never>" {
		return nil
	}
	if d.Expiration, err = time.Parse(time.RFC3339, s); err != nil {
		return bad("has an expiration that is not a time such as 2026-03-01T12:00:00Z")
	}
	return nil
}
