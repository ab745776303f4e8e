package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var artefacts = []string{"ignition", "cloud-init", "kickstart", "script"}

// rendering runs nodeagent render in a directory with a small binary.
func rendering(t *testing.T, files map[string]string) func(args ...string) (code int, out, errs string) {
	t.Chdir(t.TempDir())
	files["nodeagent"] = "\x7fELF and so on"
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append([]string{"render"}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
}

// holds tells whether an artefact has a text in any of the forms it writes.
func holds(artefact, text string) bool {
	if strings.Contains(artefact, text) {
		return true
	}
	for at := range 3 { // base64 of it, wherever it begins in a group of three
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", at) + text))
		if strings.Contains(strings.ReplaceAll(artefact, "\n", ""), b[4:len(b)-4]) {
			return true
		}
	}
	return false
}

func TestNoSecretIsRenderedUnlessAsked(t *testing.T) {
	const marker = "SECRETsecretSECRETsecretSECRET"
	doc := func(spec string) string {
		return "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n" + spec
	}
	const file = "  join: {token: {file: /etc/nodeagent/join-command}}\n"
	configs := map[string]string{
		"token": doc("  join: {token: {value: abcdef.0123456789abcdef}, endpoint: \"cp.example:6443\", caCertHashes: [\"sha256:" + strings.Repeat("a", 64) + "\"]}\n# " + marker + "\n"),
		"user":  doc("  users: [{name: ops, passwordHash: $6$salt$" + marker + "}]\n" + file),
		"file":  doc("  files: [{path: /etc/s, permissions: \"0600\", content: " + marker + "}]\n" + file),
		"key":   doc("  files: [{path: /etc/s, content: \"-----BEGIN PRIVATE KEY-----\\n" + marker + "\"}]\n" + file),
		"fleet": doc(file) + "---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {serial: [A1]}}\nspec: {files: [{path: /etc/s, permissions: \"0600\", content: " + marker + "}]}\n",
	}
	for name, text := range configs {
		render := rendering(t, map[string]string{"c.yaml": text})
		for _, kind := range artefacts {
			code, out, errs := render(kind, "--config", "c.yaml", "--binary", "nodeagent")
			require.Equal(t, 2, code, "%s %s: %s", name, kind, errs)
			require.Contains(t, errs, "secrets go into an artefact only when asked")
			require.Contains(t, errs, "--with-secrets")
			require.Empty(t, out)
			require.NotContains(t, errs, marker)

			code, out, errs = render(kind, "--config", "c.yaml", "--binary", "nodeagent", "--with-secrets")
			require.Zero(t, code, errs)
			require.True(t, holds(out, marker), "%s %s", name, kind)
			require.Contains(t, errs, "keep it from others")
			require.NotContains(t, errs, marker)

			code, out, errs = render(kind, "--config", "c.yaml", "--binary", "nodeagent", "--config-url", "https://boot.example/c.yaml")
			require.Zero(t, code, errs)
			require.False(t, holds(out, marker), "%s %s", name, kind)
			require.Contains(t, errs, "whoever can read https://boot.example/c.yaml has it")
		}
		code, out, errs := render("ipxe", "--config", "c.yaml", "--config-url", "https://boot.example/c.yaml", "--kernel", "http://boot.example/vmlinuz")
		require.Zero(t, code, errs)
		require.False(t, holds(out, marker))
	}
}

func TestASecretFileIsPutInOnlyWhenAsked(t *testing.T) {
	const marker = "kubeadm join cp.example:6443 --token abcdef.0123456789abcdef"
	text := served
	render := rendering(t, map[string]string{"c.yaml": text, "join": marker + "\n"})
	for _, kind := range artefacts {
		code, out, errs := render(kind, "--config", "c.yaml", "--binary", "nodeagent")
		require.Zero(t, code, errs)
		require.False(t, holds(out, marker))
		require.Contains(t, errs, "/etc/nodeagent/join-command must be put on the host by other means")
		require.True(t, holds(out, "Not in here: put /etc/nodeagent/join-command on the host"), kind)

		code, _, errs = render(kind, "--config", "c.yaml", "--binary", "nodeagent", "--secret", "/etc/nodeagent/join-command=join")
		require.Equal(t, 2, code)
		require.Contains(t, errs, "add --with-secrets")

		to := filepath.Join(t.TempDir(), "artefact")
		code, out, errs = render(kind, "--config", "c.yaml", "--binary", "nodeagent", "--with-secrets", "--secret", "/etc/nodeagent/join-command=join", "--to", to)
		require.Zero(t, code, errs)
		require.Empty(t, out)
		require.NotContains(t, errs, "by other means")
		info, err := os.Stat(to)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
		b, err := os.ReadFile(to)
		require.NoError(t, err)
		require.True(t, holds(string(b), marker), kind)
		require.False(t, holds(string(b), "Not in here"))
		require.True(t, holds(string(b), "Holds /etc/nodeagent/join-command"))
	}
}

func TestWhatCannotBeRenderedSaysWhy(t *testing.T) {
	users := strings.Replace(served, "  hostname: served\n", "", 1) + "---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {serial: [A1]}}\nspec: {users: [{name: a}]}\n" +
		"---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {serial: [A2]}}\nspec: {users: [{name: b}]}\n"
	proxies := strings.NewReplacer("users: [{name: a}]", "proxy: {https: 'http://a.example:1'}", "users: [{name: b}]", "proxy: {https: 'http://b.example:1'}").Replace(users)
	render := rendering(t, map[string]string{"c.yaml": served, "fleet.yaml": users, "text": "no program", "proxies.yaml": proxies, "bad.yaml": served + "---\napiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nmetadata: {match: {serial: [A1]}}\nspec: {hostname: Bad_Name}\n"})
	for _, c := range []struct{ args, want string }{
		{"ignition --config c.yaml --binary text", "text is no program for Linux"},
		{"ignition --config c.yaml --binary nodeagent --spec 2.3", `specification "2.3" isn't rendered`},
		{"ignition --config c.yaml --binary-url https://a.example/n --binary-sha256 " + strings.Repeat("0a", 32) + " --spec 3.0", "knows no SHA-256"},
		{"ignition --config c.yaml --binary-url https://a.example/n", "has no digest"},
		{"ignition --config c.yaml --binary-sha256 " + strings.Repeat("0a", 32), "goes with --binary-url"},
		{"script --config c.yaml --binary nodeagent --binary-url https://a.example/n", "--binary and --binary-url"},
		{"script --config c.yaml --binary nodeagent --binary-path ../n", "no place for the binary"},
		{"script --config c.yaml --binary nodeagent --with-secrets --secret /etc/nodeagent/config.yaml=c.yaml", "is put there already"},
		{"script --config c.yaml --binary nodeagent --with-secrets --secret c.yaml", "is not PATH=FILE"},
		{"script --config-url http://a.example/c --binary nodeagent", "plain http without a digest"},
		{"script --config-url https://a.example/c --config c.yaml --config-sha256 " + strings.Repeat("0a", 32) + " --binary nodeagent", "not what was pinned"},
		{"script --config c.yaml --config-sha256 " + strings.Repeat("0a", 32) + " --binary nodeagent", "goes with --config-url"},
		{"kickstart --config missing.yaml --binary nodeagent", "missing.yaml can't be read"},
		{"kickstart --config bad.yaml --binary nodeagent", "bad.yaml:11:18: spec.hostname"},
		{"cloud-init --config proxies.yaml --binary-url https://a.example/n --binary-sha256 " + strings.Repeat("0a", 32), "different proxies for different hosts"},
		{"cloud-init --config fleet.yaml --binary nodeagent --users", "different users for different hosts"},
		{"cloud-init --config-url https://a.example/c --binary nodeagent --users", "--users needs the configuration"},
		{"ipxe --config c.yaml --kernel http://a.example/k", "carries no configuration"},
		{"ipxe --config c.yaml --config-url http://a.example/c.yaml", "needs a kernel"},
		{"ipxe --config c.yaml --config fleet.yaml --config-url http://a.example/c.yaml --kernel http://a.example/k", "one URL serves one file"},
		{"ipxe --config c.yaml --config-url http://a.example/c.yaml --kernel http://a.example/k --append nodeagent.config=x", "can't go to the kernel"},
	} {
		code, out, errs := render(strings.Fields(c.args)...)
		require.NotZero(t, code, c.args)
		require.Contains(t, errs, c.want, c.args)
		require.Empty(t, out)
	}
}
