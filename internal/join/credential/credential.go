// Package credential is the step that fetches the join token, last of all and
// into memory only: a token lets its holder become any node.
package credential

import (
	"context"
	"errors"
	"io/fs"
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
	Source       string    `json:"source"` // file, value, command, none
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
}

// Usable tells whether the document is there and good.
func (p Public) Usable() bool { return p.Exists && p.Problem == "" && !p.Expired }

// Read looks at the token document of a configuration and keeps nothing secret.
func Read(v host.View, spec config.Spec) (Public, error) {
	t := spec.Join.Token
	p := Public{Source: "none"}
	var text []byte
	switch {
	case t.File != "":
		p.Source, p.File = "file", t.File
		info, err := v.Stat(t.File)
		if err != nil {
			return p, err
		}
		text, err = v.ReadFile(t.File)
		if errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.Mode = host.Octal(info.Mode)
	case t.Value != "":
		p.Source, text = "value", []byte(t.Value)
	case t.Command != "":
		p.Source, text = "command", []byte(t.Command)
	default:
		return p, nil
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
	Document Public `json:"document"`
}

// Observe looks at the document, unless nobody needs it any more.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	node, err := v.Node(ctx, "")
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return Facts{}, err
	}
	f := Facts{Joined: node.Joined, Held: v.TokenHeld()}
	if f.Joined || f.Held {
		return f, nil
	}
	f.Document, err = Read(v, spec)
	return f, err
}

// Plan fetches the token on a host that hasn't joined.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if f.Joined || f.Held {
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
	case !d.Exists:
		block(fail.Step, "put the output of `kubeadm token create --print-join-command` there", "the join token's file %s does not exist", where)
	case d.Problem != "":
		block(fail.Step, d.Hint, "%s: %s", where, d.Problem)
	case d.Expired:
		block(fail.Step, "make a new one: kubeadm token create --print-join-command", "%s: the join token expired on %s", where, d.Expires.UTC().Format(time.RFC3339))
	}
	if len(p.Blocked) > 0 {
		return p
	}
	if d.Mode != "" && d.Mode[len(d.Mode)-1] != '0' {
		p.Warnings = append(p.Warnings, d.File+" (mode "+d.Mode+") can be read by every user of this host, and whoever reads it can join a node; chmod 600 it")
	}
	if len(d.Ignored) > 0 {
		p.Warnings = append(p.Warnings, "not used from the token document, since the configuration decides it: "+strings.Join(d.Ignored, ", "))
	}
	p.Changes = []change.Change{change.FetchToken{File: spec.Join.Token.File, Inline: inline(spec)}}
	return p
}

func inline(spec config.Spec) string {
	if spec.Join.Token.Value != "" {
		return spec.Join.Token.Value
	}
	return spec.Join.Token.Command
}

// Later tells whether the document may be written by an earlier part of the
// same run, so that what is there now says nothing.
func Later(spec config.Spec) bool {
	if spec.Join.Token.File == "" {
		return false
	}
	for _, f := range spec.Files {
		if f.Path == spec.Join.Token.File {
			return true
		}
	}
	return len(spec.Hooks.PreJoin) > 0
}
