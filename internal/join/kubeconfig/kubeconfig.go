// Package kubeconfig reads the two kubeconfigs that a node has: kubelet.conf,
// and the one inside cluster-info.
package kubeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"

	"nodeagent/internal/join/token"
)

// Config is what the current context says. A file that is named rather than
// embedded is for the caller to read.
type Config struct {
	Server     string // URL
	ServerName string // TLS name to expect, when it differs from the server's
	CA         []byte // PEM
	CAFile     string
	Cert       []byte // PEM of the client
	CertFile   string
	Key        []byte
	KeyFile    string
	Token      string // bearer token; never shown
	TokenFile  string
	// Foreign is how the user authenticates otherwise: a program or a password,
	// which nothing here uses.
	Foreign string
}

// Direct tells whether the server is an address that any host can join by: it
// is neither this host itself, nor behind a path of somebody's proxy.
func (c Config) Direct() bool {
	u, err := url.Parse(c.Server)
	return err == nil && !token.Loopback(u.Hostname()) && strings.Trim(u.Path, "/") == ""
}

// Access tells why the user of a kubeconfig can't be used for requests, and the
// next action; both are empty when it can.
func (c Config) Access() (text, hint string) {
	cert, key := len(c.Cert) > 0 || c.CertFile != "", len(c.Key) > 0 || c.KeyFile != ""
	switch {
	case c.Foreign != "":
		return "authenticates with " + c.Foreign, "give one with a client certificate or a token in it, such as a service account's: no program is run and no password is sent"
	case cert != key:
		return "has a client certificate without its key, or a key without its certificate", "both have to be in it"
	case !cert && c.Token == "" && c.TokenFile == "":
		return "has no user with a client certificate or a token", "make one for the account that may make tokens: packaging/rbac/token-minter.yaml says how"
	case len(c.CA) == 0 && c.CAFile == "":
		return "has no CA (certificate-authority-data), so anybody could pose as the API server", "take certificate-authority-data from the cluster's admin.conf"
	}
	return "", ""
}

// Host is host:port of the server, with the port that its scheme implies.
func (c Config) Host() string {
	u, err := url.Parse(c.Server)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return u.Host + ":443"
	}
	return u.Host
}

// maxSize bounds a kubeconfig, in bytes.
const maxSize = 1 << 20

// Parse reads a kubeconfig. The one in cluster-info has no context and no
// user: its only cluster counts then. Errors hold no part of it.
func Parse(b []byte) (Config, error) {
	if len(b) > maxSize {
		return Config{}, errors.New("is larger than 1 MiB")
	}
	var raw struct {
		Kind     string `json:"kind"`
		Current  string `json:"current-context"`
		Clusters []struct {
			Name    string `json:"name"`
			Cluster struct {
				Server     string `json:"server"`
				ServerName string `json:"tls-server-name"`
				CAData     string `json:"certificate-authority-data"`
				CAFile     string `json:"certificate-authority"`
				Skip       bool   `json:"insecure-skip-tls-verify"`
			} `json:"cluster"`
		} `json:"clusters"`
		Contexts []struct {
			Name    string `json:"name"`
			Context struct {
				Cluster string `json:"cluster"`
				User    string `json:"user"`
			} `json:"context"`
		} `json:"contexts"`
		Users []struct {
			Name string `json:"name"`
			User struct {
				CertData  string    `json:"client-certificate-data"`
				CertFile  string    `json:"client-certificate"`
				KeyData   string    `json:"client-key-data"`
				KeyFile   string    `json:"client-key"`
				Token     string    `json:"token"`
				TokenFile string    `json:"tokenFile"`
				Exec      *struct{} `json:"exec"`
				Provider  *struct{} `json:"auth-provider"`
				Username  string    `json:"username"`
			} `json:"user"`
		} `json:"users"`
	}
	if yaml.Unmarshal(b, &raw) != nil {
		return Config{}, errors.New("is not a kubeconfig")
	}
	cluster, user := "", ""
	found := false
	for _, c := range raw.Contexts {
		if c.Name == raw.Current {
			cluster, user, found = c.Context.Cluster, c.Context.User, true
		}
	}
	if !found && (raw.Current != "" || len(raw.Clusters) != 1) {
		return Config{}, errors.New("has no current context")
	}
	var out Config
	var errs error
	for _, c := range raw.Clusters {
		if c.Name != cluster && found {
			continue
		}
		if c.Cluster.Skip {
			return Config{}, errors.New("doesn't verify the API server (insecure-skip-tls-verify)")
		}
		out.Server, out.ServerName, out.CAFile = c.Cluster.Server, c.Cluster.ServerName, c.Cluster.CAFile
		out.CA = decode("certificate-authority-data", c.Cluster.CAData, &errs)
	}
	for _, u := range raw.Users {
		if u.Name != user || !found {
			continue
		}
		out.CertFile, out.KeyFile, out.Token = u.User.CertFile, u.User.KeyFile, u.User.Token
		out.TokenFile = u.User.TokenFile
		switch {
		case u.User.Exec != nil:
			out.Foreign = "a program (exec)"
		case u.User.Provider != nil:
			out.Foreign = "a plugin (auth-provider)"
		case u.User.Username != "":
			out.Foreign = "a password"
		}
		out.Cert = decode("client-certificate-data", u.User.CertData, &errs)
		out.Key = decode("client-key-data", u.User.KeyData, &errs)
	}
	if u, err := url.Parse(out.Server); err != nil || u.Scheme != "https" || u.Host == "" {
		return Config{}, errors.New("names no https server")
	}
	return out, errs
}

func decode(field, s string, errs *error) []byte {
	if s == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		*errs = errors.Join(*errs, fmt.Errorf("has a %s that isn't base64", field))
	}
	return b
}
