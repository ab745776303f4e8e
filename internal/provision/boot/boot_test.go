package boot

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"nodeagent/internal/config"
	"nodeagent/internal/provision/source"
	"nodeagent/packaging"
)

const head = "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\n"

// documents are configurations that are hard to carry as they are.
var documents = map[string]string{
	"plain":           head + "spec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}\n",
	"no newline":      head + "spec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}",
	"carriage return": strings.ReplaceAll(head+"spec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}\n", "\n", "\r\n"),
	"end of a here-document": head + "spec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n  files:\n  - path: /a\n    content: |\n      x\n" +
		"# 'quotes' \"and\" $(date) `date` ${x} \\n\nEOF\n",
	"kickstart's commands": head + "spec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}\n#\n%end\n%include /etc/shadow\n",
	"blanks and letters":   "\n\n" + head + "spec:   \n  kubernetes: {version: v1.35.4}\t\n  join: {token: {file: /t}} # Größe 名\n\n\n",
	"fleet": head + "spec: {kubernetes: {version: v1.35.4}, join: {token: {file: /t}}}\n---\n" + head + "metadata: {match: {mac: [\"52:54:00:00:00:01\"]}}\nspec: {hostname: one}\n---\n" +
		head + "metadata: {match: {mac: [\"52:54:00:00:00:02\"]}}\nspec: {hostname: two}\n",
}

var binary = []byte("\x7fELF" + strings.Repeat("nodeagent", 100))

func options(text string) Options {
	return Options{Config: []byte(text), Binary: binary, Missing: []string{"/t"}}
}

// gunzip undoes compress.
func gunzip(t *testing.T, b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return out
}

// ignitionFiles are the contents that Ignition would write.
func ignitionFiles(t *testing.T, artefact []byte) map[string]File {
	var c types.Config
	require.NoError(t, json.Unmarshal(artefact, &c))
	out := map[string]File{}
	for _, f := range c.Storage.Files {
		text, ok := strings.CutPrefix(*f.Contents.Source, "data:;base64,")
		require.True(t, ok)
		b, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		if f.Contents.Compression != nil {
			b = gunzip(t, b)
		}
		out[f.Path] = File{f.Path, b, uint32(*f.Mode)}
	}
	for _, u := range c.Systemd.Units {
		out["/etc/systemd/system/"+u.Name] = File{Content: []byte(*u.Contents)}
	}
	return out
}

// cloudFiles are the contents that cloud-init would write, and the binary that
// its script would.
func cloudFiles(t *testing.T, artefact []byte) map[string]File {
	yes := parts(t, artefact)
	artefact = yes["text/cloud-config"]
	require.True(t, bytes.HasPrefix(artefact, []byte("#cloud-config\n")))
	var c struct {
		WriteFiles []struct{ Path, Owner, Permissions, Encoding, Content string } `yaml:"write_files"`
	}
	require.NoError(t, yaml.Unmarshal(artefact, &c))
	out := map[string]File{}
	for _, f := range c.WriteFiles {
		require.Equal(t, "root:root", f.Owner)
		b := []byte(f.Content)
		if f.Encoding != "" {
			var err error
			b, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(f.Content, "\n", ""))
			require.NoError(t, err)
		}
		if f.Encoding == "gz+b64" {
			b = gunzip(t, b)
		}
		var mode uint32
		_, err := fmt.Sscanf(f.Permissions, "%o", &mode)
		require.NoError(t, err)
		out[f.Path] = File{f.Path, b, mode}
	}
	if script, ok := yes["text/x-shellscript"]; ok {
		m := inScript.FindSubmatch(script)
		require.NotNil(t, m, "%s", script)
		b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(m[4]), "\n", ""))
		require.NoError(t, err)
		b = gunzip(t, b)
		require.Equal(t, source.Digest(b), string(m[3]))
		var mode uint32
		_, err = fmt.Sscanf(string(m[1]), "%o", &mode)
		require.NoError(t, err)
		out[string(m[2])] = File{string(m[2]), b, mode}
	}
	return out
}

// inScript finds mode, place, digest and content of the binary in a script. What
// the script does is held where scripts are run.
var inScript = regexp.MustCompile(`(?s)\nif has '[^']+' [0-9a-f]{64}; then exit 0; fi\n.*<<'EOF' \| put (\d+) '([^']+)' ([0-9a-f]{64})\n(.*)EOF\n$`)

// parts are the parts of user-data by kind: those of a message, or the one that
// isn't in a message.
func parts(t *testing.T, artefact []byte) map[string][]byte {
	if bytes.HasPrefix(artefact, []byte("#cloud-config\n")) {
		return map[string][]byte{"text/cloud-config": artefact}
	}
	m, err := mail.ReadMessage(bytes.NewReader(artefact))
	require.NoError(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/mixed", kind)
	r := multipart.NewReader(m.Body, params["boundary"])
	out := map[string][]byte{}
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, "utf-8", params["charset"])
		body := io.Reader(part)
		if part.Header.Get("Content-Transfer-Encoding") == "base64" {
			body = base64.NewDecoder(base64.StdEncoding, part)
		}
		out[kind], err = io.ReadAll(body)
		require.NoError(t, err)
		for line := range bytes.Lines(out[kind]) {
			require.Less(t, len(line), 998, "RFC 5322 allows no longer line")
		}
	}
}

func TestTheConfigurationInAnArtefactIsTheOneThatWasGiven(t *testing.T) {
	for name, text := range documents {
		want, wantErr := config.LoadAll([]config.Source{{Name: "c", Data: []byte(text)}})
		check := func(files map[string]File) {
			t.Helper()
			c := files[ConfigPath]
			require.Equal(t, text, string(c.Content), name)
			require.EqualValues(t, 0o600, c.Mode)
			got, err := config.LoadAll([]config.Source{{Name: "c", Data: c.Content}})
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got)
			require.Equal(t, string(binary), string(files[DefaultBinary].Content))
			require.EqualValues(t, 0o755, files[DefaultBinary].Mode)
			require.Contains(t, string(files[unitPath].Content), "ExecStart=/usr/local/bin/nodeagent up --yes\n")
		}
		for _, spec := range Specs() {
			b, err := Ignition(options(text), spec)
			require.NoError(t, err, name)
			check(ignitionFiles(t, b))
		}
		b, err := CloudInit(options(text), false)
		require.NoError(t, err, name)
		check(cloudFiles(t, b))
		b, err = CloudInit(options(text), true)
		require.NoError(t, err, name)
		check(cloudFiles(t, b))
	}
}

func TestAURLNeedsNoConfigurationOnTheHost(t *testing.T) {
	o := Options{Source: source.Source{URL: "http://boot.example/c%20.yaml?a=$b", SHA256: strings.Repeat("0a", 32)}, BinarySource: source.Source{URL: "https://boot.example/nodeagent", SHA256: strings.Repeat("0b", 32)}}
	const start = "\nExecStart=/usr/local/bin/nodeagent up --yes --config http://boot.example/c%%20.yaml?a=$$b --config-sha256 0a0a"
	b, err := Ignition(o, "3.3")
	require.NoError(t, err)
	var c types.Config
	require.NoError(t, json.Unmarshal(b, &c))
	require.Len(t, c.Storage.Files, 1, "the binary only")
	require.Equal(t, "https://boot.example/nodeagent", *c.Storage.Files[0].Contents.Source)
	require.Equal(t, "sha256-"+strings.Repeat("0b", 32), *c.Storage.Files[0].Contents.Verification.Hash)
	unit := *c.Systemd.Units[0].Contents
	require.Contains(t, unit, start)
	require.NotContains(t, unit, "\nCondition")
	require.NotContains(t, unit, "ExecStartPre")

	b, err = CloudInit(o, false)
	require.NoError(t, err)
	files := cloudFiles(t, b)
	require.NotContains(t, files, ConfigPath)
	require.NotContains(t, files, DefaultBinary)
	unit = string(files[unitPath].Content)
	require.Contains(t, unit, "\nExecStartPre=/bin/sh /etc/nodeagent/get-binary"+start)
	require.EqualValues(t, 0o700, files[getPath].Mode)
	inMessage, err := CloudInit(o, true)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"text/cloud-config": b}, parts(t, inMessage))
	require.Contains(t, string(files[getPath].Content), "get 'https://boot.example/nodeagent' | put 755 '/usr/local/bin/nodeagent' 0b0b")
}

func TestTheUnitIsEnabledByALinkAndNotByAPresetAlone(t *testing.T) {
	b, err := Ignition(options(documents["plain"]), "3.3")
	require.NoError(t, err)
	var c types.Config
	require.NoError(t, json.Unmarshal(b, &c))
	require.Len(t, c.Storage.Links, 1)
	require.Equal(t, "/etc/systemd/system/multi-user.target.wants/nodeagent.service", c.Storage.Links[0].Path)
	require.Equal(t, unitPath, *c.Storage.Links[0].Target)
	require.True(t, *c.Systemd.Units[0].Enabled)
	require.NotContains(t, *c.Systemd.Units[0].Contents, "ConditionFirstBoot=yes")
}

func TestTheUnitOfAnOldSystemdIsNoOneshot(t *testing.T) {
	o := options(documents["plain"])
	o.OldSystemd = true
	require.NoError(t, o.check())
	u := o.unit(false)
	require.Contains(t, u, "\nType=simple\n")
	require.NotContains(t, u, "\nType=oneshot\n")
	require.NotContains(t, u, "\nRestartSteps=")
	require.Contains(t, u, "\nRestart=on-failure\n")

	o.OldSystemd = false
	require.Equal(t, packaging.Unit, o.unit(false), "else it is the product's own")
	o.BinaryPath = "/opt/bin/nodeagent"
	require.Contains(t, o.unit(false), "\nExecStart=/opt/bin/nodeagent up --yes\n")
}

func TestUsersAreRenderedInTheArtefactsOwnWords(t *testing.T) {
	no := false
	o := options(documents["plain"])
	o.Users = []config.User{
		{Name: "ops", Comment: "Operators", Groups: []string{"wheel", "adm"}, Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"}},
		{Name: "app", PrimaryGroup: "apps", Home: "/srv/app", Shell: "/sbin/nologin", PasswordHash: "$6$salt$hash", LockPassword: &no},
	}
	b, err := Ignition(o, "3.0")
	require.NoError(t, err)
	var c types.Config
	require.NoError(t, json.Unmarshal(b, &c))
	require.Equal(t, []types.PasswdGroup{{Name: "adm"}, {Name: "apps"}, {Name: "wheel"}}, c.Passwd.Groups)
	require.Equal(t, []types.PasswdUser{
		{Name: "ops", Gecos: ptr("Operators"), Groups: []types.Group{"wheel", "adm"}, SSHAuthorizedKeys: []types.SSHAuthorizedKey{"ssh-ed25519 AAAA ops"}},
		{Name: "app", PrimaryGroup: ptr("apps"), HomeDir: ptr("/srv/app"), Shell: ptr("/sbin/nologin"), PasswordHash: ptr("$6$salt$hash")},
	}, c.Passwd.Users)

	b, err = CloudInit(o, false)
	require.NoError(t, err)
	var u struct{ Users []any }
	require.NoError(t, yaml.Unmarshal(parts(t, b)["text/cloud-config"], &u))
	require.Equal(t, []any{
		"default",
		map[string]any{"name": "ops", "gecos": "Operators", "groups": []any{"wheel", "adm"}, "sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": []any{"ssh-ed25519 AAAA ops"}, "lock_passwd": true},
		map[string]any{"name": "app", "primary_group": "apps", "homedir": "/srv/app", "shell": "/sbin/nologin", "passwd": "$6$salt$hash", "lock_passwd": false},
	}, u.Users)
}

func TestIPXEGivesTheKernelWhatTheAgentReads(t *testing.T) {
	s := source.Source{URL: "http://boot.example/fleet.yaml", SHA256: strings.Repeat("0a", 32)}
	b, err := IPXE(s, Net{Kernel: "http://boot.example/vmlinuz", Initrds: []string{"http://boot.example/a.img", "http://boot.example/b.img"}, Arguments: []string{"root=LABEL=root ro", "console=ttyS0"}}, nil)
	require.NoError(t, err)
	var line string
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, "kernel http://boot.example/vmlinuz "); ok {
			line = rest
		}
	}
	require.True(t, strings.HasPrefix(line, "initrd=initrd0 initrd=initrd1 root=LABEL=root ro console=ttyS0 "), line)
	got, ok, err := source.FromCmdline(line)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, s, got)
	require.Contains(t, string(b), "\ninitrd --name initrd1 http://boot.example/b.img\nboot\n")
}

func FuzzTheConfigurationSurvivesEveryArtefact(f *testing.F) {
	for _, text := range documents {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := CloudInit(options(text), false)
		require.NoError(t, err)
		require.Equal(t, text, string(cloudFiles(t, b)[ConfigPath].Content))
		b, err = Ignition(options(text), "3.3")
		require.NoError(t, err)
		require.Equal(t, text, string(ignitionFiles(t, b)[ConfigPath].Content))
	})
}
