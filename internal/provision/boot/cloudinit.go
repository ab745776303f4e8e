package boot

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"

	"go.yaml.in/yaml/v3"

	"nodeagent/internal/config"
	"nodeagent/internal/provision/source"
)

// cloudConfig is the part of cloud-init's user-data that is rendered.
type cloudConfig struct {
	PreserveHostname bool        `yaml:"preserve_hostname,omitempty"`
	Users            []any       `yaml:"users,omitempty"`
	WriteFiles       []cloudFile `yaml:"write_files"`
	RunCmd           [][]string  `yaml:"runcmd"`
}

type cloudFile struct {
	Path        string    `yaml:"path"`
	Owner       string    `yaml:"owner"`
	Permissions string    `yaml:"permissions"`
	Encoding    string    `yaml:"encoding,omitempty"`
	Content     yaml.Node `yaml:"content"`
}

type cloudUser struct {
	Name              string   `yaml:"name"`
	Gecos             string   `yaml:"gecos,omitempty"`
	PrimaryGroup      string   `yaml:"primary_group,omitempty"`
	Groups            []string `yaml:"groups,omitempty,flow"`
	HomeDir           string   `yaml:"homedir,omitempty"`
	Shell             string   `yaml:"shell,omitempty"`
	Sudo              string   `yaml:"sudo,omitempty"`
	SSHAuthorizedKeys []string `yaml:"ssh_authorized_keys,omitempty"`
	LockPasswd        bool     `yaml:"lock_passwd"`
	Passwd            string   `yaml:"passwd,omitempty"`
}

// CloudInit renders user-data. With mime it is a multipart message, to be put
// together with others; with a binary that goes along it is one anyway.
func CloudInit(o Options, mime bool) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	fetches := o.Binary == nil
	c := cloudConfig{PreserveHostname: o.Hostname, Users: cloudUsers(o.Users)}
	for _, f := range o.files(fetches) {
		c.WriteFiles = append(c.WriteFiles, cloudText(f))
	}
	// cloud-init goes on when a command fails, and the unit tries again by
	// itself, so nothing here waits for it: it may take longer than the boot.
	c.RunCmd = [][]string{
		{"chmod", "0700", "/etc/nodeagent"},
		{"systemctl", "daemon-reload"},
		{"systemctl", "enable", unitName},
		{"systemctl", "start", "--no-block", unitName},
	}
	var b bytes.Buffer
	b.WriteString("#cloud-config\n" + comment("# ", o.about("User-data for cloud-init")))
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("writing user-data: %w", err)
	}
	switch {
	case !fetches:
		return multi(b.Bytes(), o.binaryScript())
	case mime:
		return multi(b.Bytes(), nil)
	}
	return b.Bytes(), nil
}

// binaryScript puts the binary in its place; cloud-init runs it before the
// commands of runcmd. As a file in the YAML it would be parsed several times,
// character by character: that takes minutes on a slow machine.
func (o *Options) binaryScript() []byte {
	return []byte("#!/bin/sh\n# Puts nodeagent in its place.\nset -eu\numask 077\n" + functions +
		fmt.Sprintf("if has %s %s; then exit 0; fi\n", quote(o.BinaryPath), o.binaryDigest()) + o.installBinary())
}

// multi wraps user-data as a multipart message, with a script where there is
// one; its boundary depends on the content alone.
func multi(data, script []byte) ([]byte, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("nodeagent-" + source.Digest(append(bytes.Clone(data), script...))[:40]); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", w.Boundary())
	for _, p := range []struct {
		kind, encoding, name string
		body                 []byte
	}{
		{"text/cloud-config", "base64", "nodeagent.yaml", []byte(wrapped(data))},
		{"text/x-shellscript", "7bit", "nodeagent-binary.sh", script},
	} {
		if len(p.body) == 0 {
			continue
		}
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Type":              {p.kind + `; charset="utf-8"`},
			"Content-Transfer-Encoding": {p.encoding},
			"Content-Disposition":       {fmt.Sprintf("attachment; filename=%q", p.name)},
		})
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(p.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func literal(s string) yaml.Node {
	return yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: s}
}

// cloudText is a file as readable text, or as base64 when YAML couldn't give
// it back as it is.
func cloudText(f File) cloudFile {
	out := cloudFile{Path: f.Path, Owner: "root:root", Permissions: fmt.Sprintf("%04o", f.Mode)}
	if text := string(f.Content); survives(text) {
		out.Content = literal(text)
		return out
	}
	out.Encoding = "b64"
	out.Content = literal(wrapped(f.Content))
	return out
}

// survives tells whether a text is the same after YAML.
func survives(s string) bool {
	if !readable(s) || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") {
		return false
	}
	b, err := yaml.Marshal([]yaml.Node{literal(s)})
	if err != nil {
		return false
	}
	var back []string
	return yaml.Unmarshal(b, &back) == nil && len(back) == 1 && back[0] == s
}

// cloudUsers are users in cloud-init's words. The image's default user stays:
// a list without it would leave it out.
func cloudUsers(users []config.User) []any {
	if len(users) == 0 {
		return nil
	}
	out := []any{"default"}
	for _, u := range users {
		lock := u.PasswordHash == ""
		if u.LockPassword != nil {
			lock = *u.LockPassword
		}
		out = append(out, cloudUser{Name: u.Name, Gecos: u.Comment, PrimaryGroup: u.PrimaryGroup, Groups: u.Groups, HomeDir: u.Home, Shell: u.Shell,
			Sudo: u.Sudo, SSHAuthorizedKeys: u.SSHAuthorizedKeys, LockPasswd: lock, Passwd: u.PasswordHash})
	}
	return out
}
