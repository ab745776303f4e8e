// Package credential is the step that fetches the join token, last of all and
// into memory only: a token lets its holder become any node.
package credential

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/join/pin"
	"nodeagent/internal/join/token"
)

// Public is what a token document says without its secret.
type Public struct {
	Source       string    `json:"source"` // as in spec.join.token, or none
	File         string    `json:"file,omitempty"`
	Exists       bool      `json:"exists"`
	Mode         string    `json:"mode,omitempty"`    // of the file
	Problem      string    `json:"problem,omitempty"` // why it can't be used
	Hint         string    `json:"hint,omitempty"`
	Endpoint     string    `json:"endpoint,omitempty"`
	CACertHashes []string  `json:"caCertHashes,omitempty"` // pins in it, or those of the CA in it
	Expires      time.Time `json:"expires,omitzero"`
	Expired      bool      `json:"expired,omitempty"`
	Ignored      []string  `json:"ignored,omitempty"`
	// Deferred is set when only fetching it tells what is in it.
	Deferred bool   `json:"deferred,omitempty"`
	Needs    Source `json:"needs,omitzero"`
}

// Usable tells whether the document is there and good.
func (p Public) Usable() bool { return p.Exists && p.Problem == "" && !p.Expired && !p.Deferred }

// Read looks at the token document of a configuration and keeps nothing secret.
func Read(v host.View, spec config.Spec) (Public, error) {
	t := spec.Join.Token
	p := Public{Source: "none"}
	var text []byte
	file := t.File
	switch names := t.Named(); {
	case len(names) == 0:
		return p, nil
	default:
		p.Source = names[0]
	}
	switch {
	case t.HTTPS != nil, t.GuestInfo != "", t.Kubeconfig != nil:
		var err error
		p.Exists, p.Deferred = true, true
		p.Needs, err = readSource(v, spec, &p)
		return p, err
	case t.Credential != "" && !v.Live(): // a tree of files is given none
		p.Exists, p.Deferred = true, true
		return p, nil
	case t.Credential != "":
		file = v.Credential(t.Credential)
	case t.Value != "":
		text = []byte(t.Value)
	case t.Command != "":
		text = []byte(t.Command)
	}
	if file != "" {
		p.File = file
		info, err := v.Stat(file)
		if err != nil {
			return p, err
		}
		text, err = v.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.Mode = host.Octal(info.Mode)
	}
	p.Exists = true
	d, err := token.Parse(text)
	if err != nil {
		p.Problem, p.Hint = err.Error(), fail.HintOf(err)
		return p, nil
	}
	p.Endpoint, p.CACertHashes, p.Expires, p.Ignored = d.Endpoint, d.CACertHashes, d.Expiration, d.Ignored
	if len(p.CACertHashes) == 0 && len(d.CACert) > 0 {
		if p.CACertHashes, err = pin.OfBundle(d.CACert); err != nil {
			p.Problem, p.Hint = "the CA in the token document can't be read: "+err.Error(), "it has to be PEM"
		}
	}
	if s, err := v.System(); err == nil {
		p.Expired = d.Expired(s.Now)
	} else if !errors.Is(err, host.ErrUnobservable) {
		return p, err
	}
	return p, nil
}

// Facts is what was observed.
type Facts struct {
	Joined   bool   `json:"joined"`
	Held     bool   `json:"held"` // by this very run
	NodeName string `json:"nodeName,omitempty"`
	Document Public `json:"document"`
	Left     Left   `json:"left,omitzero"`
}

// Observe looks at the document, unless nobody needs it any more.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	node, err := v.Node(ctx, "")
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return Facts{}, err
	}
	f := Facts{Joined: node.Joined, Held: v.TokenHeld()}
	if f.Held {
		return f, nil
	}
	if f.Left, err = ReadLeft(v); err != nil || f.Joined {
		return f, err
	}
	if f.NodeName, err = NodeName(v, spec); err != nil {
		return f, err
	}
	f.Document, err = Read(v, spec)
	return f, err
}

// Plan fetches the token on a host that hasn't joined.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if f.Held {
		return p
	}
	p.Changes, p.Warnings = f.Left.Changes(f.Joined)
	if f.Joined {
		return p
	}
	d := f.Document
	block := func(kind fail.Kind, hint, format string, a ...any) {
		err := fail.New(kind, hint, format, a...)
		if Later(spec) { // it may be another one by then
			p.Warnings = append(p.Warnings, err.Error())
			return
		}
		p.Blocked = append(p.Blocked, err)
	}
	where := "spec.join.token." + d.Source
	if d.File != "" {
		where = d.File
	}
	switch {
	case d.Source == "none":
		p.Warnings = append(p.Warnings, "the configuration names no source for the join token")
	case !d.Exists && d.Source == "credential":
		block(fail.Step, host.CredentialHint(spec.Join.Token.Credential), "there is no systemd credential %s: %s does not exist", spec.Join.Token.Credential, d.File)
	case !d.Exists:
		block(fail.Step, "put the output of `kubeadm token create --print-join-command` there", "the join token's file %s does not exist", where)
	case d.Problem != "":
		block(fail.Step, d.Hint, "%s: %s", where, d.Problem)
	case d.Expired:
		block(fail.Step, "make a new one: kubeadm token create --print-join-command", "%s: the join token expired on %s", where, d.Expires.UTC().Format(time.RFC3339))
	}
	d.Needs.judge(spec, block)
	if len(p.Blocked) > 0 {
		p.Changes = nil
		return p
	}
	p.Warnings = append(p.Warnings, d.Needs.warn()...)
	if d.Mode != "" && d.Mode[len(d.Mode)-1] != '0' {
		p.Warnings = append(p.Warnings, d.File+" (mode "+d.Mode+") can be read by every user of this host, and whoever reads it can join a node; chmod 600 it")
	}
	if len(d.Ignored) > 0 {
		p.Warnings = append(p.Warnings, "not used from the token document, since the configuration decides it: "+strings.Join(d.Ignored, ", "))
	}
	p.Changes = append(p.Changes, fetch(spec, f.NodeName))
	return p
}

// NodeName is the name the node has or gets: kubeadm's own rule is the host
// name in lower case.
func NodeName(v host.View, spec config.Spec) (string, error) {
	if spec.Hostname != "" {
		return spec.Hostname, nil
	}
	s, err := v.System()
	if errors.Is(err, host.ErrUnobservable) {
		err = nil
	}
	return strings.ToLower(strings.TrimSpace(s.Hostname)), err
}

// Later tells whether what the source needs may come from an earlier part of
// the same run, so that what is there now says nothing.
func Later(spec config.Spec) bool {
	t := spec.Join.Token
	if t.GuestInfo != "" && len(spec.Packages.Install) > 0 {
		return true
	}
	names := t.Files()
	for _, f := range spec.Files {
		if slices.Contains(names, f.Path) {
			return true
		}
	}
	return len(names) > 0 && len(spec.Hooks.PreJoin) > 0
}
