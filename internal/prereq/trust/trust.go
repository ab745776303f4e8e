// Package trust makes the whole host trust certificate authorities, in the
// store and with the program of its distribution. It observes and plans; it
// writes nothing.
package trust

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/config/cacert"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

// Facts is what was observed; nothing when no authority is asked for.
type Facts struct {
	Store Store           `json:"store,omitzero"`
	Certs map[string]Cert `json:"certs,omitempty"` // by name
	Now   time.Time       `json:"now,omitzero"`
}

// Cert is one authority that is asked for.
type Cert struct {
	PEM     string    `json:"pem,omitempty"` // as it was given, or as its file has it
	Problem string    `json:"problem,omitempty"`
	Anchor  host.Text `json:"anchor,omitzero"` // its file in the store
	Held    bool      `json:"held,omitempty"`  // the host's bundle has it
}

// Observe reads the authorities and what the host trusts.
func Observe(_ context.Context, v host.View, spec config.Spec) (Facts, error) {
	var f Facts
	if len(spec.CATrust) == 0 {
		return f, nil
	}
	sys, err := v.System()
	if err != nil {
		return f, err
	}
	f.Now = sys.Now
	if f.Store, err = find(v); err != nil {
		return f, err
	}
	bundle, err := host.ReadText(v, f.Store.Bundle)
	if err != nil && f.Store.Bundle != "" {
		return f, err
	}
	trusted := cacert.All(bundle.Content)
	f.Certs = map[string]Cert{}
	for _, want := range spec.CATrust {
		c := Cert{PEM: want.PEM}
		if want.File != "" {
			b, err := v.ReadFile(want.File)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				c.Problem = want.File + " isn't there"
			case err != nil:
				return f, err
			}
			c.PEM = string(b)
		}
		if c.Problem == "" {
			x, err := cacert.Parse(c.PEM)
			if err != nil {
				c.Problem, c.PEM = want.File+" "+err.Error(), ""
			} else {
				c.PEM, c.Held = cacert.Encode(x), trusted.Has(x)
			}
		}
		if f.Store.Dir != "" {
			if c.Anchor, err = host.ReadText(v, f.Store.Path(want.Name)); err != nil {
				return f, err
			}
		}
		f.Certs[want.Name] = c
	}
	return f, nil
}

// Plan puts each authority into the store, and has the bundle made anew when
// that lacks one. What the bundle has already by somebody else's hand stays as
// it is.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	var lacks []string
	for _, want := range spec.CATrust {
		c := f.Certs[want.Name]
		switch {
		case f.Store.Program == "":
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "install ca-certificates (on Photon also openssl) into the image",
				"spec.caTrust asks for %s, and this host has no program that adds certificate authorities (update-ca-trust, update-ca-certificates, rehash_ca_certificates.sh)", want.Name))
			return p
		case c.Problem != "":
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "bring the certificate before nodeagent runs, or give it as pem", "spec.caTrust: %s: %s", want.Name, c.Problem))
			continue
		}
		if x, err := cacert.Parse(c.PEM); err == nil && !f.Now.IsZero() && f.Now.After(x.NotAfter) {
			p.Warnings = append(p.Warnings, "spec.caTrust: "+want.Name+" ended on "+x.NotAfter.Format(time.DateOnly)+" by this host's clock: nothing that it signed is trusted")
		}
		if c.Held && !c.Anchor.Exists {
			continue
		}
		if w, ok := c.Anchor.Write(f.Store.Path(want.Name), "0644", "root:root", c.PEM, "trust the certificate authority "+want.Name); ok {
			p.Changes = append(p.Changes, w)
			lacks = append(lacks, want.Name)
		} else if !c.Held {
			lacks = append(lacks, want.Name)
		}
	}
	if len(lacks) > 0 {
		p.Changes = append(p.Changes, change.UpdateTrust{Program: f.Store.Program, Bundle: f.Store.Bundle, Why: "for " + strings.Join(lacks, ", ")})
	}
	return p
}
