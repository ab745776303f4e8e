// Package sshkey reads and edits the lines of an authorized_keys file, as sshd(8)
// describes them under AUTHORIZED_KEYS FILE FORMAT.
package sshkey

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Key is one line without its comment, which says nothing about who may log in.
type Key struct {
	Options string // as written: restrict,command="/bin/true"
	Type    string // ssh-ed25519
	Blob    string // base64
}

var (
	keyType = regexp.MustCompile(`^(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)$`)
	certKey = regexp.MustCompile(`^[a-z0-9-]+-cert-v01@openssh\.com$`)
)

// Parse reads one line. The error goes on after the name of what was read: "is
// a private key". It never quotes the line.
func Parse(line string) (Key, error) {
	line = strings.Trim(line, " \t")
	switch {
	case strings.Contains(line, "PRIVATE KEY"):
		return Key{}, errors.New("is a private key, which doesn't belong here")
	case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return Key{}, errors.New("has a line break or a control character in it")
	case line == "" || line[0] == '#':
		return Key{}, errors.New("holds no key")
	}
	var k Key
	first, rest := word(line)
	if !known(first) {
		k.Options = first
		first, rest = word(rest)
	}
	switch {
	case certKey.MatchString(first):
		return Key{}, fmt.Errorf("is a certificate (%s): sshd takes its authority's key, with the option cert-authority", first)
	case !known(first):
		return Key{}, errors.New("has no key of a type that OpenSSH knows (ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa, …)")
	}
	k.Type = first
	k.Blob, _ = word(rest)
	b, err := base64.StdEncoding.DecodeString(k.Blob)
	if err != nil {
		return Key{}, errors.New("has a key that is not base64")
	}
	if len(b) < 4 || int64(len(b))-4 <= int64(binary.BigEndian.Uint32(b)) || string(b[4:4+binary.BigEndian.Uint32(b)]) != k.Type {
		return Key{}, fmt.Errorf("has a key that is cut off, or is none of type %s", k.Type)
	}
	return k, nil
}

func known(s string) bool { return keyType.MatchString(s) || certKey.MatchString(s) }

// word splits at the first blank that isn't within quotes.
func word(s string) (first, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '"':
			i++
		case s[i] == '"':
			quoted = !quoted
		case (s[i] == ' ' || s[i] == '\t') && !quoted:
			return s[:i], strings.TrimLeft(s[i:], " \t")
		}
	}
	return s, ""
}

// Missing are those of the lines whose keys content lacks, each once and in
// their order. A key with other options is another one.
func Missing(content string, lines []string) (out []string) {
	have := map[Key]bool{}
	for line := range strings.Lines(content) {
		if k, err := Parse(strings.TrimRight(line, "\r\n")); err == nil {
			have[k] = true
		}
	}
	for _, line := range lines {
		k, err := Parse(line)
		if err == nil && !have[k] {
			have[k] = true
			out = append(out, strings.Trim(line, " \t"))
		}
	}
	return out
}

// Add appends to content those of the lines whose keys it lacks.
func Add(content string, lines []string) string {
	for _, line := range Missing(content, lines) {
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		content += line + "\n"
	}
	return content
}

// Held are those of the lines that content has letter for letter.
func Held(content string, lines []string) (out []string) {
	have := map[string]bool{}
	for line := range strings.Lines(content) {
		have[strings.Trim(line, " \t\r\n")] = true
	}
	for _, line := range lines {
		if line = strings.Trim(line, " \t"); have[line] && line != "" {
			have[line] = false
			out = append(out, line)
		}
	}
	return out
}

// Without is content without the lines, letter for letter; every other byte is
// kept.
func Without(content string, lines []string) string {
	gone := map[string]bool{}
	for _, line := range lines {
		gone[strings.Trim(line, " \t")] = true
	}
	var b strings.Builder
	for line := range strings.Lines(content) {
		if s := strings.Trim(line, " \t\r\n"); s == "" || !gone[s] {
			b.WriteString(line)
		}
	}
	return b.String()
}
