// Package boot renders a configuration into what boots hosts: Ignition,
// cloud-init, iPXE, kickstart, a shell script. It is pure: what it is given in,
// bytes out.
package boot

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/provision/source"
)

// Where things are put on a host.
const (
	ConfigPath = "/etc/nodeagent/config.yaml"
	// DefaultBinary is the place for a program that no package owns.
	DefaultBinary = "/usr/local/bin/nodeagent"
	unitName      = "nodeagent.service"
	unitPath      = "/etc/systemd/system/" + unitName
	wantsPath     = "/etc/systemd/system/multi-user.target.wants/" + unitName
	getPath       = "/etc/nodeagent/get-binary"
)

// Options is what an artefact carries.
type Options struct {
	// Config is the documents as they are written; nil when the host fetches
	// them from Source.
	Config []byte
	Source source.Source
	// Binary is nodeagent itself; nil when it is fetched from BinarySource.
	Binary       []byte
	BinarySource source.Source
	BinaryPath   string // where it is put; empty: DefaultBinary
	// Proxy is how the binary is fetched: variables as NAME=VALUE, names in upper
	// case (config.Spec.ProxyVariables).
	Proxy []string
	// Secrets are files that go along, mode 0600.
	Secrets []File
	// Missing are files that the configuration names and that somebody else has
	// to put on the host.
	Missing []string
	// Users are rendered in the artefact's own words; for Ignition and
	// cloud-init only.
	Users []config.User
	// OldSystemd renders the unit for systemd before 244, which refuses
	// Restart= of a oneshot.
	OldSystemd bool
}

// File is a file on the host.
type File struct {
	Path    string
	Content []byte
	Mode    uint32
}

var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._+@-]+)+$`)

// check returns why an artefact can't be made of o.
func (o *Options) check() error {
	if o.BinaryPath == "" {
		o.BinaryPath = DefaultBinary
	}
	if !plainPath.MatchString(o.BinaryPath) || path.Clean(o.BinaryPath) != o.BinaryPath {
		return fail.New(fail.Usage, "such as "+DefaultBinary, "%q is no place for the binary", o.BinaryPath)
	}
	if (o.Config == nil) == (o.Source.URL == "") {
		return fail.New(fail.Usage, "one of both", "the artefact needs either the configuration or its URL")
	}
	if o.Source.URL != "" {
		if err := o.Source.Check(); err != nil {
			return err
		}
	}
	if (o.Binary == nil) == (o.BinarySource.URL == "") {
		return fail.New(fail.Usage, "one of both", "the artefact needs either the binary or its URL")
	}
	if s := o.BinarySource; s.URL != "" {
		if err := s.Check(); err != nil {
			return err
		}
		if s.SHA256 == "" {
			return fail.New(fail.Usage, "sha256sum the file: --binary-sha256 HEX", "the binary from %s has no digest", s.URL)
		}
	}
	taken := map[string]bool{ConfigPath: true, o.BinaryPath: true, unitPath: true, wantsPath: true, getPath: true}
	for _, f := range o.Secrets {
		if !plainPath.MatchString(f.Path) || path.Clean(f.Path) != f.Path {
			return fail.New(fail.Usage, "an absolute path of letters, digits and ._+@-", "%q is no place for a file", f.Path)
		}
		if taken[f.Path] {
			return fail.New(fail.Usage, "", "%s is put there already", f.Path)
		}
		taken[f.Path] = true
	}
	return nil
}

// files are those of an artefact without the binary. fetches: the host itself
// gets the binary from its URL, before the unit's first start.
func (o *Options) files(fetches bool) []File {
	var out []File
	if o.Config != nil {
		out = append(out, File{ConfigPath, o.Config, 0o600})
	}
	out = append(out, o.Secrets...)
	if fetches {
		out = append(out, File{getPath, []byte(o.getBinary()), 0o700})
	}
	return append(out, File{unitPath, []byte(o.unit(fetches)), 0o644})
}

// about is what every artefact says of itself, as lines without a comment
// mark. It names no secret.
func (o *Options) about(what string) []string {
	lines := []string{what + " by nodeagent render: makes a host a Kubernetes worker."}
	if o.Source.URL != "" {
		pin := "not pinned"
		if o.Source.SHA256 != "" {
			pin = "sha256 " + o.Source.SHA256
		}
		lines = append(lines, fmt.Sprintf("The configuration is fetched from %s at every boot (%s).", o.Source.URL, pin))
	}
	if o.BinarySource.URL != "" {
		lines = append(lines, fmt.Sprintf("The binary is fetched from %s once (sha256 %s).", o.BinarySource.URL, o.BinarySource.SHA256))
	}
	for _, f := range o.Secrets {
		lines = append(lines, "Holds "+f.Path+": keep this file from others.")
	}
	for _, m := range o.Missing {
		lines = append(lines, "Not in here: put "+m+" on the host by other means; nodeagent tries again until it is there.")
	}
	return lines
}

// comment writes lines with a mark before each; none can end its line.
func comment(mark string, lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(mark + strings.Join(strings.FieldsFunc(l, unicode.IsControl), " ") + "\n")
	}
	return b.String()
}

// compress is gzip of b, the same every time.
func compress(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = w.Write(b)                                       // into memory
	_ = w.Close()
	return out.Bytes()
}
