package boot

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"nodeagent/internal/provision/source"
)

// functions are the shell functions that artefacts share. They need a POSIX
// shell, coreutils and gzip.
const functions = `die() { echo "nodeagent: $1" >&2; exit 1; }
# put MODE FILE: standard input becomes FILE, whole or not at all.
put() {
	mkdir -p "${2%/*}" || die "${2%/*} can't be made"
	new=$(mktemp "$2.XXXXXX") || die "$2 can't be written"
	if ! cat >"$new" || ! chmod "$1" "$new" || { [ -n "${3-}" ] && ! has "$new" "$3"; } || ! mv -f "$new" "$2"; then
		rm -f "$new"
		die "$2 was not written${3:+, or what came is not the file with SHA-256 $3}"
	fi
	label "$2"
}
# has FILE SHA256
has() { printf '%s  %s\n' "$2" "$1" | sha256sum -c - >/dev/null 2>&1; }
# label FILE: what SELinux calls a file in its place.
label() { if command -v restorecon >/dev/null 2>&1; then restorecon -F "$1" >/dev/null 2>&1 || :; fi; }
# public DIR: programs of others look into it.
public() { [ -d "$1" ] || { mkdir -p "$1" && chmod 755 "$1"; } || die "$1 can't be made"; }
`

// fetching is the function that gets a URL.
const fetching = `# get URL: to standard output.
get() {
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --proto =http,https --connect-timeout 15 --retry 5 --speed-limit 1 --speed-time 60 -- "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q -T 60 -O - -- "$1"
	else
		die "neither curl nor wget is here to fetch $1"
	fi
}
`

// fetching is that function, with the proxy that it uses: curl and wget read
// the names in lower case.
func (o *Options) fetching() string {
	var b strings.Builder
	for _, v := range o.Proxy {
		name, value, _ := strings.Cut(v, "=")
		name = strings.ToLower(name)
		fmt.Fprintf(&b, "%s=%s\nexport %s\n", name, quote(value), name)
	}
	return b.String() + fetching
}

// quote writes a word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// installBinary are the commands that put the binary in its place.
func (o *Options) installBinary() string {
	public := "public " + quote(o.BinaryPath[:strings.LastIndex(o.BinaryPath, "/")]) + "\n"
	if o.Binary == nil {
		return public + fmt.Sprintf("get %s | put 755 %s %s\n", quote(o.BinarySource.URL), quote(o.BinaryPath), o.BinarySource.SHA256)
	}
	return public + fmt.Sprintf("{ base64 -d | gzip -d; } <<'EOF' | put 755 %s %s\n%sEOF\n", quote(o.BinaryPath), source.Digest(o.Binary), wrapped(compress(o.Binary)))
}

// installFiles are the commands that put files in their places and enable the
// unit; links work where no systemd runs, too.
func installFiles(files []File) string {
	var b strings.Builder
	b.WriteString("[ -d /etc/nodeagent ] || mkdir -p /etc/nodeagent || die \"/etc/nodeagent can't be made\"\nchmod 700 /etc/nodeagent\nlabel /etc/nodeagent\n")
	for _, f := range files {
		to := fmt.Sprintf("put %o %s", f.Mode, quote(f.Path))
		if text := string(f.Content); readable(text) {
			fmt.Fprintf(&b, "%s <<'EOF'\n%sEOF\n", to, text)
		} else {
			fmt.Fprintf(&b, "base64 -d <<'EOF' | %s %s\n%sEOF\n", to, source.Digest(f.Content), wrapped(f.Content))
		}
	}
	dir := wantsPath[:strings.LastIndex(wantsPath, "/")]
	fmt.Fprintf(&b, "public %s\nln -sf %s %s || die \"the unit can't be enabled\"\n", dir, unitPath, wantsPath)
	return b.String()
}

// readable tells whether a text can stand in a here-document as it is, also in
// a kickstart file, where a line that begins with % is a command.
func readable(s string) bool {
	if !strings.HasSuffix(s, "\n") {
		return false
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0xfffd {
			return false
		}
	}
	for line := range strings.Lines(s) {
		if line == "EOF\n" || strings.HasPrefix(line, "%") {
			return false
		}
	}
	return true
}

// wrapped is base64 in lines.
func wrapped(b []byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	var out bytes.Buffer
	for len(text) > 76 {
		out.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	out.WriteString(text + "\n")
	return out.String()
}

// getBinary is the script that the unit runs before nodeagent: it fetches the
// binary when there is none, so that a host boots with the one it has, and a
// newer one that somebody has put there stays.
func (o *Options) getBinary() string {
	return "#!/bin/sh\n# Fetches nodeagent when it isn't here yet; nodeagent.service runs it before every start.\nset -eu\numask 077\n" +
		functions + o.fetching() + "[ ! -x " + quote(o.BinaryPath) + " ] || exit 0\n" + o.installBinary()
}

// Script renders a script for `ssh root@host sh -s`: it installs binary,
// configuration and unit and runs nodeagent up. Arguments of the script go to
// up.
func Script(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("#!/bin/sh\n" + comment("# ", o.about("A script")) + `# For: ssh root@host sh -s < THIS-FILE
# It installs the binary, the configuration and nodeagent.service (for the
# next boots), and runs nodeagent up. A second run changes nothing.
set -eu
umask 077
` + functions)
	if o.Binary == nil {
		b.WriteString(o.fetching())
	}
	// In a function, so that the shell has read everything before the first
	// command runs: a connection that breaks leaves nothing half done.
	b.WriteString("main() {\n[ \"$(id -u)\" = 0 ] || die 'run it as root'\n")
	fmt.Fprintf(&b, "for tool in base64 gzip sha256sum mktemp; do\n\tcommand -v \"$tool\" >/dev/null 2>&1 || die \"$tool is not here\"\ndone\n")
	fmt.Fprintf(&b, "if ! has %s %s; then\n%sfi\n", quote(o.BinaryPath), o.binaryDigest(), o.installBinary())
	b.WriteString(installFiles(o.files(false)))
	b.WriteString("if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n")
	up := quote(o.BinaryPath) + " up --yes"
	if o.Source.URL != "" {
		up += " --config " + quote(o.Source.URL)
		if o.Source.SHA256 != "" {
			up += " --config-sha256 " + o.Source.SHA256
		}
	}
	b.WriteString("exec " + up + " \"$@\" </dev/null\n}\nmain \"$@\"\n")
	return []byte(b.String()), nil
}

func (o *Options) binaryDigest() string {
	if o.Binary != nil {
		return source.Digest(o.Binary)
	}
	return strings.ToLower(o.BinarySource.SHA256)
}

// Kickstart renders a %post section that installs binary, configuration and
// unit; nodeagent itself runs at the first boot.
func Kickstart(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	fetches := o.Binary == nil
	var b strings.Builder
	b.WriteString(comment("# ", append(o.about("A kickstart section"), "Put it at the end of your kickstart file, or %include it.")))
	b.WriteString("%post --interpreter=/bin/sh --erroronfail\nset -eu\numask 077\n" + functions)
	if !fetches {
		b.WriteString(o.installBinary())
	}
	b.WriteString(installFiles(o.files(fetches)))
	b.WriteString("%end\n")
	return []byte(b.String()), nil
}
