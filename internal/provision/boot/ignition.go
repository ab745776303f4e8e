package boot

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/shared/errors"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/vcontext/report"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
)

// parsers are Ignition's own readers of the versions of its specification that
// are rendered.
var parsers = map[string]func([]byte) (report.Report, error){
	"3.0": func(b []byte) (report.Report, error) { _, r, err := v30.Parse(b); return r, err },
	"3.3": func(b []byte) (report.Report, error) { _, r, err := v33.Parse(b); return r, err },
	"3.4": func(b []byte) (report.Report, error) { _, r, err := v34.Parse(b); return r, err },
}

// DefaultSpec is what Ignition 2.11 and later read.
const DefaultSpec = "3.3"

// Specs are the versions of Ignition's specification that can be rendered.
func Specs() []string { return []string{"3.0", "3.3", "3.4"} }

// Ignition renders a config of a specification (3.0, 3.3, 3.4) and has
// Ignition's validator read it; what that says, even a warning, is an error.
func Ignition(o Options, spec string) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	validate := parsers[spec]
	if validate == nil {
		return nil, fail.New(fail.Usage, "one of: "+strings.Join(Specs(), ", "), "Ignition's specification %q isn't rendered", spec)
	}
	if spec == "3.0" && o.Binary == nil {
		return nil, fail.New(fail.Usage, "take --spec 3.3, or let the binary be inlined", "Ignition's specification 3.0 knows no SHA-256, so the binary can't be checked")
	}
	// What is used here is the same in all of them but for the version.
	c := types.Config{Ignition: types.Ignition{Version: spec + ".0"}}
	if o.Binary == nil { // else nothing is fetched, and 3.0 knows no proxy
		c.Ignition.Proxy = ignitionProxy(o.Proxy)
	}
	c.Storage.Directories = []types.Directory{{Node: types.Node{Path: "/etc/nodeagent"}, DirectoryEmbedded1: types.DirectoryEmbedded1{Mode: ptr(0o700)}}}
	for _, f := range o.files(false) {
		if f.Path == unitPath {
			continue
		}
		c.Storage.Files = append(c.Storage.Files, ignitionFile(f, inline(f.Content)))
	}
	c.Storage.Files = append(c.Storage.Files, ignitionFile(File{Path: o.BinaryPath, Mode: 0o755}, o.ignitionBinary()))
	// Enabled by a link: systemd applies presets only on a boot without
	// /etc/machine-id, which many images have.
	c.Storage.Links = []types.Link{{Node: root(wantsPath), LinkEmbedded1: types.LinkEmbedded1{Target: ptr(unitPath)}}}
	// An artefact of Ignition has no other place for words.
	unit := comment("# ", o.about("A unit")) + o.unit(false)
	c.Systemd.Units = []types.Unit{{Name: unitName, Enabled: ptr(true), Contents: ptr(unit)}}
	c.Passwd = ignitionUsers(o.Users)
	out, err := encode(c)
	if err != nil {
		return nil, err
	}
	// A proxy that is itself asked in plain http sees which host is asked for and
	// nothing more: https goes through it in a tunnel.
	r, err := validate(out)
	r.Entries = slices.DeleteFunc(r.Entries, func(e report.Entry) bool {
		return e.Kind == report.Warn && e.Message == errors.ErrInsecureProxy.Error()
	})
	switch {
	case err != nil:
		return nil, fail.Wrap(fail.Step, err, "", "Ignition's own validator refuses what was rendered (%s)", r.String())
	case len(r.Entries) > 0:
		return nil, fail.New(fail.Step, "", "Ignition's own validator isn't content with what was rendered: %s", r.String())
	}
	return out, nil
}

// encode writes JSON without the empty objects that the types can't leave out.
func encode(c types.Config) ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(pruned(tree))
	return out.Bytes(), err
}

// pruned leaves empty objects out.
func pruned(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, x := range t {
			if x = pruned(x); x == nil {
				delete(t, k)
			} else {
				t[k] = x
			}
		}
		if len(t) == 0 {
			return nil
		}
	case []any:
		for i := range t {
			t[i] = pruned(t[i])
		}
	}
	return v
}

func ptr[T any](v T) *T { return &v }

func root(path string) types.Node { return types.Node{Path: path, Overwrite: ptr(true)} }

func ignitionFile(f File, r types.Resource) types.File {
	return types.File{Node: root(f.Path), FileEmbedded1: types.FileEmbedded1{Mode: ptr(int(f.Mode)), Contents: r}}
}

func inline(b []byte) types.Resource {
	return types.Resource{Source: ptr("data:;base64," + base64.StdEncoding.EncodeToString(b))}
}

// ignitionBinary is the binary compressed within the config, or its URL. The
// digest is that of the file as it will be.
func (o *Options) ignitionBinary() types.Resource {
	if o.Binary == nil {
		return types.Resource{Source: ptr(o.BinarySource.URL), Verification: types.Verification{Hash: ptr("sha256-" + strings.ToLower(o.BinarySource.SHA256))}}
	}
	r := inline(compress(o.Binary))
	r.Compression = ptr("gzip")
	sum := sha512.Sum512(o.Binary)
	r.Verification.Hash = ptr("sha512-" + hex.EncodeToString(sum[:]))
	return r
}

// ignitionProxy is how Ignition itself fetches.
func ignitionProxy(vars []string) (p types.Proxy) {
	for _, v := range vars {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HTTP_PROXY":
			p.HTTPProxy = ptr(value)
		case "HTTPS_PROXY":
			p.HTTPSProxy = ptr(value)
		case "NO_PROXY":
			for e := range strings.SplitSeq(value, ",") {
				p.NoProxy = append(p.NoProxy, types.NoProxyItem(e))
			}
		}
	}
	return p
}

// ignitionUsers are users and the groups they name. Ignition leaves a group
// that is there as it is. Their sudoers rules are nodeagent's.
func ignitionUsers(users []config.User) (p types.Passwd) {
	groups := []string{}
	for _, u := range users {
		x := types.PasswdUser{Name: u.Name, Gecos: set(u.Comment), HomeDir: set(u.Home), Shell: set(u.Shell), PrimaryGroup: set(u.PrimaryGroup), PasswordHash: set(u.PasswordHash)}
		for _, g := range u.Groups {
			x.Groups = append(x.Groups, types.Group(g))
		}
		for _, k := range u.SSHAuthorizedKeys {
			x.SSHAuthorizedKeys = append(x.SSHAuthorizedKeys, types.SSHAuthorizedKey(k))
		}
		groups = append(groups, u.Groups...)
		if u.PrimaryGroup != "" {
			groups = append(groups, u.PrimaryGroup)
		}
		p.Users = append(p.Users, x)
	}
	slices.Sort(groups)
	for _, g := range slices.Compact(groups) {
		p.Groups = append(p.Groups, types.PasswdGroup{Name: g})
	}
	return p
}

func set(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
