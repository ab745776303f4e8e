package token

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"nodeagent/internal/fail"
)

// Flags of kubeadm join, 1.24 to 1.37 (cmd/kubeadm/app/cmd/options): those
// with a value, and those without.
var (
	valueFlags = []string{"token", "discovery-token", "discovery-token-ca-cert-hash", "tls-bootstrap-token", "discovery-file",
		"certificate-key", "apiserver-advertise-address", "apiserver-bind-port", "node-name", "cri-socket", "patches", "config",
		"ignore-preflight-errors", "skip-phases", "feature-gates", "rootfs", "v", "vmodule", "kubeconfig", "image-repository"}
	boolFlags = []string{"control-plane", "experimental-control-plane", "discovery-token-unsafe-skip-ca-verification", "dry-run", "print-join-command"}
)

// parseCommand reads one or more kubeadm join commands in a text. What kubeadm
// init prints has two: the one for workers is taken.
func parseCommand(text string) (Document, error) {
	var docs []Document
	var refused error
	for _, words := range commands(text) {
		d, controlPlane, err := parseWords(words)
		switch {
		case err != nil:
			return Document{}, err
		case controlPlane:
			refused = controlPlaneRefused("--control-plane")
		default:
			docs = append(docs, d)
		}
	}
	if len(docs) == 0 {
		if refused == nil {
			refused = bad("holds no complete kubeadm join command")
		}
		return Document{}, refused
	}
	for _, d := range docs[1:] {
		if d.Token != docs[0].Token || d.Endpoint != docs[0].Endpoint || !slices.Equal(d.CACertHashes, docs[0].CACertHashes) {
			return Document{}, bad("holds two different kubeadm join commands")
		}
	}
	return docs[0], nil
}

func controlPlaneRefused(what string) error {
	return fail.New(fail.Step, "use the join command for workers: kubeadm token create --print-join-command",
		"the token document is for a control plane node (%s), which needs the cluster's private keys; nodeagent makes workers only", what)
}

// commands cuts a text into the words of each join command. A command goes on
// after a backslash, and on a next line that begins with a flag: mails break
// lines where they like. Quotes say nothing here, since no value has blanks.
func commands(text string) [][]string {
	lines := strings.Split(strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(text), "\n")
	var out [][]string
	open := false
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || klog.MatchString(line) {
			open = open && line != ""
			continue
		}
		goesOn := open
		open = false
		switch at := joinLine.FindStringIndex(line); {
		case at != nil:
			out = append(out, nil)
			line = line[at[1]:]
		case len(out) == 0 && strings.Contains(line, "--token"): // the flags alone were kept
			out = append(out, nil)
		case len(out) > 0 && (goesOn || strings.HasPrefix(line, "-")):
		default:
			continue
		}
		rest, more := strings.CutSuffix(line, `\`)
		open = more
		words := strings.Fields(rest)
		// What a shell would run next isn't ours.
		if i := slices.IndexFunc(words, func(w string) bool {
			return strings.HasPrefix(w, ";") || w == "&&" || w == "||" || w[0] == '|' || w[0] == '>'
		}); i >= 0 {
			words, open = words[:i], false
		}
		out[len(out)-1] = append(out[len(out)-1], words...)
	}
	return out
}

func parseWords(words []string) (d Document, controlPlane bool, err error) {
	for i := 0; i < len(words); i++ {
		w := strings.TrimSuffix(words[i], ";")
		if !strings.HasPrefix(w, "-") {
			if w == `\` { // a continuation that lost its line break
				continue
			}
			if d.Endpoint != "" {
				return d, false, bad("holds a kubeadm join command with more than one endpoint")
			}
			if d.Endpoint, err = endpoint(w); err != nil {
				return d, false, err
			}
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(w, "-"), "=")
		name = strings.ReplaceAll(name, "--", "-") // a long dash within a name
		switch {
		case slices.Contains(boolFlags, name):
			on := true
			if given {
				on, _ = strconv.ParseBool(value)
			}
			if strings.HasSuffix(name, "control-plane") && on {
				controlPlane = true
			}
			continue
		case !slices.Contains(valueFlags, name):
			if form.MatchString(name) || len(name) > 60 || inText.MatchString(name) {
				name = "(redacted)"
			}
			return d, false, bad("holds a kubeadm join command with a flag that kubeadm join does not have: --%s", printable(name))
		case !given:
			if i++; i >= len(words) {
				return d, false, bad("holds a kubeadm join command that ends after --%s", name)
			}
			value = words[i]
		}
		if err = d.flag(name, strings.TrimSuffix(value, ";")); err != nil {
			return d, false, err
		}
	}
	if controlPlane {
		return d, true, nil
	}
	if d.Token == "" {
		return d, false, bad("holds a kubeadm join command without --token")
	}
	return d, false, nil
}

func (d *Document) flag(name, value string) error {
	switch name {
	case "token", "discovery-token", "tls-bootstrap-token":
		if !form.MatchString(value) {
			return notAToken()
		}
		if d.Token != "" && d.Token != value {
			return bad("holds a kubeadm join command with two different tokens")
		}
		d.Token = value
	case "discovery-token-ca-cert-hash":
		return d.pins(strings.Split(value, ","))
	case "discovery-file":
		return fail.New(fail.Step, "give that file itself as the token document", "the token document holds a kubeadm join command with --discovery-file, which points elsewhere")
	case "certificate-key", "apiserver-advertise-address", "apiserver-bind-port": // go with --control-plane
	default:
		d.Ignored = append(d.Ignored, "--"+name)
	}
	return nil
}

// pins adds CA pins, each once.
func (d *Document) pins(list []string) error {
	for _, h := range list {
		h = strings.ToLower(strings.TrimSpace(h))
		if !pin.MatchString(h) {
			return bad("holds a CA pin that is not sha256: and 64 hex digits")
		}
		if !slices.Contains(d.CACertHashes, h) {
			d.CACertHashes = append(d.CACertHashes, h)
		}
	}
	return nil
}

// endpoint checks host:port; https:// in front is dropped, as kubeadm has none.
func endpoint(s string) (string, error) {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "https://"), "/")
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || host == "" || strings.ContainsAny(s, "/@?#%\\") || form.MatchString(host) {
		return "", bad("holds an endpoint that is not host:port, such as cp.example:6443 or [2001:db8::1]:6443")
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

// printable keeps a name from the document presentable.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '\ufffd' {
			return '?'
		}
		return r
	}, s)
}
