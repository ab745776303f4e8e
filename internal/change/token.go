package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// FetchToken reads the token document into memory, nowhere else. Exactly one
// source is set.
type FetchToken struct {
	File       string       `json:"file,omitempty"`
	Credential string       `json:"credential,omitempty"` // name of a systemd credential
	GuestInfo  string       `json:"guestinfo,omitempty"`  // key, without the prefix
	HTTPS      *TokenServer `json:"https,omitempty"`
	Mint       *MintToken   `json:"mint,omitempty"`
	// Inline is set when the config itself holds the document.
	Inline string `json:"-"`
}

// TokenServer is a server that hands the document out. What may be secret of it
// is in no encoding.
type TokenServer struct {
	URL             string              `json:"url"` // without its query
	CAFile          string              `json:"caFile,omitempty"`
	Pins            []string            `json:"pins,omitempty"`
	BearerTokenFile string              `json:"bearerTokenFile,omitempty"`
	ClientCert      string              `json:"clientCert,omitempty"` // files
	ClientKey       string              `json:"clientKey,omitempty"`
	Headers         map[string]string   `json:"-"` // templates
	Query           map[string][]string `json:"-"` // templates
}

// MintToken makes a bootstrap token on the cluster.
type MintToken struct {
	Kubeconfig string        `json:"kubeconfig"` // file
	NodeName   string        `json:"nodeName"`
	TTL        time.Duration `json:"ttl"`
}

func (c FetchToken) ID() string { return "token" }
func (c FetchToken) Summary() string {
	switch {
	case c.File != "":
		return "read the join token from " + c.File
	case c.Credential != "":
		return "read the join token from the systemd credential " + c.Credential
	case c.GuestInfo != "":
		return "read the join token from guestinfo." + c.GuestInfo
	case c.HTTPS != nil:
		s := "fetch the join token from " + c.HTTPS.URL
		if q := slices.Sorted(maps.Keys(c.HTTPS.Query)); len(q) > 0 {
			s += " (with " + strings.Join(q, ", ") + ")"
		}
		return s
	case c.Mint != nil:
		return fmt.Sprintf("make a join token that lives %s, with %s", c.Mint.TTL, c.Mint.Kubeconfig)
	}
	return "take the join token from the configuration"
}
func (c FetchToken) Diff() string { return "" }
func (c FetchToken) Class() Class {
	if c.Mint != nil {
		return Additive
	}
	return Wait
}

// DropToken takes a join token away where it came from: it deletes the one that
// was made on the cluster, or overwrites the one in guestinfo.
type DropToken struct {
	Kubeconfig string `json:"kubeconfig,omitempty"` // file that deletes it
	TokenID    string `json:"tokenID,omitempty"`    // public part; empty while it isn't made yet
	GuestInfo  string `json:"guestinfo,omitempty"`  // key, without the prefix
}

func (c DropToken) ID() string { return "token-drop" }
func (c DropToken) Summary() string {
	switch {
	case c.GuestInfo != "":
		return "overwrite the join token in guestinfo." + c.GuestInfo
	case c.TokenID != "":
		return "delete the join token with id " + c.TokenID + ", which nodeagent made, from the cluster"
	}
	return "delete the join token that was made for this join"
}
func (c DropToken) Diff() string { return "" }
func (c DropToken) Class() Class { return Removal }

// LabelNode sets labels on this host's Node that a node may not give itself.
type LabelNode struct {
	NodeName   string            `json:"nodeName"`
	Labels     map[string]string `json:"labels"`
	Kubeconfig string            `json:"kubeconfig"` // file
	// Timeout is how long the Node is waited for: kubelet registers it a moment
	// after the join.
	Timeout time.Duration `json:"timeout"`
}

func (c LabelNode) ID() string { return "labels" }
func (c LabelNode) Summary() string {
	return fmt.Sprintf("label node %s with %s: %s", c.NodeName, c.Kubeconfig, strings.Join(pairs(c.Labels), ", "))
}
func (c LabelNode) Diff() string { return "" }
func (c LabelNode) Class() Class { return Additive }

func pairs(labels map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}
