package config

// Token is the source of the token document.
type Token struct {
	File       string           `yaml:"file" doc:"A file that holds a token document."`
	Value      string           `yaml:"value" doc:"A token document inline."`
	Command    string           `yaml:"command" doc:"The text of a kubeadm join command, as kubeadm token create --print-join-command prints it. It is parsed, never executed."`
	HTTPS      *TokenServer     `yaml:"https" doc:"A server that hands out a token document."`
	Kubeconfig *TokenKubeconfig `yaml:"kubeconfig" doc:"A kubeconfig with which nodeagent makes a short-lived token of its own and deletes it after the join."`
	Credential string           `yaml:"credential" doc:"The name of a systemd credential that holds a token document (LoadCredential=, SetCredential=, SMBIOS, fw_cfg)."`
	GuestInfo  string           `yaml:"guestinfo" doc:"The key of a token document in the virtual machine's guestinfo, without the prefix guestinfo. The value is overwritten once the token has been used."`
}

// TokenServer hands out a token document.
type TokenServer struct {
	URL             string            `yaml:"url" doc:"https URL; plain http only to this very host. Values of its query may hold {{ .Serial }}, {{ .MAC }}, {{ .UUID }} and {{ .Hostname }}."`
	CAFile          string            `yaml:"caFile" doc:"A PEM file with the CA that signed the server's certificate. Absent: the host's own trust store, unless pins are given."`
	Pins            []string          `yaml:"pins" doc:"sha256:… of public keys, as kubeadm's CA pins: one certificate that the server shows, its own or a CA's, must have one of them."`
	BearerTokenFile string            `yaml:"bearerTokenFile" doc:"A file whose content is sent as Authorization: Bearer."`
	ClientCert      string            `yaml:"clientCert" doc:"A PEM file with the client certificate."`
	ClientKey       string            `yaml:"clientKey" doc:"A PEM file with the client certificate's key."`
	Headers         map[string]string `yaml:"headers" literal:"number" doc:"Headers to send; values may hold {{ .Serial }} and the like."`
	Query           map[string]string `yaml:"query" literal:"number" doc:"Parameters added to the URL; values may hold {{ .Serial }} and the like."`
}

// TokenKubeconfig makes a token of its own.
type TokenKubeconfig struct {
	File  string   `yaml:"file" doc:"A kubeconfig that may create and delete bootstrap tokens: packaging/rbac/token-minter.yaml."`
	TTL   Duration `yaml:"ttl" doc:"How long the token lives if it can't be deleted. Default 20m."`
	Shred bool     `yaml:"shred" doc:"Overwrite and remove the kubeconfig once the node is Ready."`
}

// Named is every source that is given, by its name in spec.join.token.
func (t Token) Named() []string {
	var out []string
	for _, s := range []struct {
		name  string
		given bool
	}{{"file", t.File != ""}, {"value", t.Value != ""}, {"command", t.Command != ""}, {"https", t.HTTPS != nil},
		{"kubeconfig", t.Kubeconfig != nil}, {"credential", t.Credential != ""}, {"guestinfo", t.GuestInfo != ""}} {
		if s.given {
			out = append(out, s.name)
		}
	}
	return out
}

// Files are the files that the source reads.
func (t Token) Files() []string {
	all := []string{t.File}
	if s := t.HTTPS; s != nil {
		all = append(all, s.CAFile, s.BearerTokenFile, s.ClientCert, s.ClientKey)
	}
	if m := t.Kubeconfig; m != nil {
		all = append(all, m.File)
	}
	var out []string
	for _, f := range all {
		if f != "" {
			out = append(out, f)
		}
	}
	return out
}
