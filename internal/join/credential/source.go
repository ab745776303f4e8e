package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/join/kubeconfig"
	"nodeagent/internal/join/pin"
	"nodeagent/internal/join/template"
)

// Rpctool is the program that reads guestinfo.
const Rpctool = "vmware-rpctool"

// Source is what the source of the token needs on this host.
type Source struct {
	Missing []string `json:"missing,omitempty"` // files that aren't there
	Open    []string `json:"open,omitempty"`    // files with secrets that others can read: "PATH (mode 0644)"
	Unknown []string `json:"unknown,omitempty"` // fields of templates that this host has no value for
	Rpctool bool     `json:"rpctool,omitempty"`
	Problem string   `json:"problem,omitempty"` // of the kubeconfig
	Hint    string   `json:"hint,omitempty"`
}

// fetch is the fetching of the token as it is configured.
func fetch(spec config.Spec, node string) change.FetchToken {
	t := spec.Join.Token
	c := change.FetchToken{File: t.File, Credential: t.Credential, GuestInfo: t.GuestInfo, Inline: t.Value + t.Command}
	if s := t.HTTPS; s != nil {
		u, query, err := s.Parsed()
		if err != nil { // validation refuses it
			u, query = &url.URL{}, nil
		}
		all := map[string][]string{}
		maps.Copy(all, query)
		for name, text := range s.Query {
			all[name] = []string{text}
		}
		c.HTTPS = &change.TokenServer{URL: u.String(), CAFile: s.CAFile, Pins: s.Pins, BearerTokenFile: s.BearerTokenFile,
			ClientCert: s.ClientCert, ClientKey: s.ClientKey, Headers: s.Headers, Query: all}
	}
	if m := t.Kubeconfig; m != nil {
		c.Mint = &change.MintToken{Kubeconfig: m.File, NodeName: node, TTL: m.TTL.Duration}
	}
	return c
}

// fields are those of a source's templates.
func fields(s *config.TokenServer) []string {
	all := strings.Builder{}
	for _, m := range []map[string]string{s.Headers, s.Query} {
		for _, text := range m {
			all.WriteString(text + "\n")
		}
	}
	if _, query, err := s.Parsed(); err == nil {
		for _, list := range query {
			all.WriteString(strings.Join(list, "\n"))
		}
	}
	return template.Fields(all.String())
}

// readSource looks at files, never at a server.
func readSource(v host.View, spec config.Spec, p *Public) (s Source, err error) {
	t := spec.Join.Token
	public := ""
	if t.HTTPS != nil {
		public = t.HTTPS.CAFile
	}
	for _, f := range slices.Compact(t.Files()) {
		if f == t.File {
			continue // the document itself
		}
		info, err := v.Stat(f)
		if err != nil {
			return s, err
		}
		switch mode := host.Octal(info.Mode); {
		case !info.Exists:
			s.Missing = append(s.Missing, f)
		case mode[len(mode)-1] != '0' && f != public && (t.HTTPS == nil || f != t.HTTPS.ClientCert || f == t.HTTPS.ClientKey):
			s.Open = append(s.Open, f+" (mode "+mode+")")
		}
	}
	if t.GuestInfo != "" {
		_, err := v.LookPath(Rpctool)
		s.Rpctool = err == nil
	}
	if t.HTTPS != nil && v.Live() {
		if s.Unknown, err = unknown(v, fields(t.HTTPS)); err != nil {
			return s, err
		}
	}
	if t.Kubeconfig != nil && len(s.Missing) == 0 {
		err = readKubeconfig(v, t.Kubeconfig.File, &s, p)
	}
	return s, err
}

// unknown are the fields that this host has no value for. A MAC address is
// chosen when it is needed: by then there is a route.
func unknown(v host.View, fields []string) (out []string, err error) {
	if len(fields) == 0 {
		return nil, nil
	}
	sys, err := v.System()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return nil, err
	}
	net, err := v.Network()
	if err != nil && !errors.Is(err, host.ErrUnobservable) {
		return nil, err
	}
	have := map[string]bool{"Serial": sys.Serial != "", "UUID": sys.UUID != "", "Hostname": sys.Hostname != "", "MAC": len(net.MACs) > 0}
	for _, f := range fields {
		if !have[f] {
			out = append(out, f)
		}
	}
	return out, nil
}

// readKubeconfig takes the public part: where the API server is, and its CA.
func readKubeconfig(v host.View, file string, s *Source, p *Public) error {
	b, err := v.ReadFile(file)
	if errors.Is(err, fs.ErrPermission) { // a plan of somebody else than root
		s.Problem, s.Hint = "can't be read by this user", "run it as root"
		return nil
	}
	if err != nil {
		return err
	}
	k, err := kubeconfig.Parse(b)
	if err != nil {
		s.Problem, s.Hint = err.Error(), "try it: kubectl --kubeconfig "+file+" version"
		return nil
	}
	if s.Problem, s.Hint = k.Access(); s.Problem != "" {
		return nil
	}
	if k.Direct() && len(k.CA) > 0 {
		hashes, err := pin.OfBundle(k.CA)
		if err != nil {
			s.Problem, s.Hint = "holds a CA that can't be read: "+err.Error(), "certificate-authority-data is a PEM certificate in base64"
			return nil
		}
		p.Endpoint, p.CACertHashes, p.Deferred = k.Host(), hashes, false
	}
	return nil
}

// judge says what the source lacks.
func (s Source) judge(spec config.Spec, block func(fail.Kind, string, string, ...any)) {
	name := strings.Join(spec.Join.Token.Named(), " and ")
	for _, f := range s.Missing {
		block(fail.Step, "put it there, readable by root only", "spec.join.token.%s needs %s, which does not exist", name, f)
	}
	for _, f := range s.Unknown {
		block(fail.Step, "use another field; nodeagent facts shows what this host has", "spec.join.token.%s uses {{ .%s }}, and this host has none", name, f)
	}
	if s.Problem != "" {
		block(fail.Step, s.Hint, "the kubeconfig %s %s", spec.Join.Token.Kubeconfig.File, s.Problem)
	}
	if g := spec.Join.Token.GuestInfo; g != "" && !s.Rpctool {
		block(fail.Step, "install open-vm-tools, which brings it (spec.packages.install); outside of VMware there is no guestinfo", "guestinfo.%s can't be read: %s is not on this host", g, Rpctool)
	}
}

// warn tells of secrets that others can read.
func (s Source) warn() (out []string) {
	for _, f := range s.Open {
		path, _, _ := strings.Cut(f, " (")
		out = append(out, fmt.Sprintf("%s can be read by every user of this host, and whoever reads it can get a join token; chmod 600 %s", f, path))
	}
	return out
}
