// Package files plans the files that the user's configuration holds. It
// observes and plans; it writes nothing.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/cloudinit"
)

// File is a file as observed. The content of a secret one is not kept, only its
// sum.
type File struct {
	host.Text
	Dir    bool   `json:"dir,omitempty"`
	Secret bool   `json:"secret,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of a secret file's content
	// Holds tells that the lines to append are there.
	Holds bool `json:"holds,omitempty"`
	// whole is a secret file's content, which lines are appended to. It goes into
	// no facts.
	whole  string
	Wanted string `json:"wanted"` // the owner asked for, by name
	// ReadOnly says which filesystem keeps it from being written.
	ReadOnly string `json:"readOnly,omitempty"`
}

// Facts is what was observed, by path.
type Facts struct {
	Files map[string]File `json:"files,omitempty"`
	// CloudInit is looked at when /etc/hosts is asked for.
	CloudInit cloudinit.Settings `json:"cloudInit,omitzero"`
}

// Observe reads the files that are asked for.
func Observe(_ context.Context, v host.View, spec config.Spec) (Facts, error) {
	f := Facts{Files: map[string]File{}}
	for _, want := range spec.Files {
		info, err := v.Stat(want.Path)
		if err != nil {
			return f, err
		}
		owner, err := names(v, want.Owner)
		if err != nil {
			return f, err
		}
		file := File{Dir: info.Dir, Wanted: owner}
		if !spec.OnDataDisk(want.Path) {
			if file.ReadOnly, err = host.ReadOnlyAt(v, want.Path); err != nil {
				return f, err
			}
		}
		if !info.Dir {
			if file.Text, err = host.ReadText(v, want.Path); err != nil {
				return f, err
			}
		}
		file.Holds = want.Append && holds(file.Content, want.Content)
		if file.Secret = secret(want.Permissions, want.Content) || file.Exists && secret(file.Mode, file.Content); file.Secret && file.Exists {
			file.whole = file.Content
			file.SHA256, file.Content = sum(file.Content), ""
		}
		f.Files[want.Path] = file
		if want.Path == "/etc/hosts" {
			if f.CloudInit, err = cloudinit.Read(v); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// secret tells whether content stays out of plans, facts and journal: a file
// that not everybody may read, or a private key wherever it is. Neither is there
// a place for bytes that are no text in any of them.
func secret(mode, content string) bool {
	n, err := strconv.ParseUint(mode, 8, 32)
	return err == nil && n&0o007 == 0 || strings.Contains(content, "PRIVATE KEY-----") || !utf8.ValidString(content)
}

// holds tells whether content has the lines of more, one after the other.
func holds(content, more string) bool {
	return strings.Contains("\n"+content+"\n", "\n"+strings.Trim(more, "\n")+"\n")
}

// with is content with the lines of more at its end.
func with(content, more string) string {
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	return content + strings.TrimRight(more, "\n") + "\n"
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// names writes user:group with names for numbers that have one, as the host
// tells owners.
func names(v host.View, owner string) (string, error) {
	user, group, _ := strings.Cut(owner, ":")
	for _, x := range []struct {
		name     *string
		database string
	}{{&user, "/etc/passwd"}, {&group, "/etc/group"}} {
		if _, err := strconv.ParseUint(*x.name, 10, 32); err != nil {
			continue
		}
		if *x.name == "0" {
			*x.name = "root"
			continue
		}
		if !v.Live() { // a tree's owners are told by number
			continue
		}
		t, err := host.ReadText(v, x.database)
		if err != nil {
			return "", err
		}
		if name := nameOf(t.Content, *x.name); name != "" {
			*x.name = name
		}
	}
	return user + ":" + group, nil
}

// nameOf finds the name of an id in passwd(5) or group(5): the id is the third
// field of both.
func nameOf(database, id string) string {
	for line := range strings.Lines(database) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 3 && f[2] == id {
			return f[0]
		}
	}
	return ""
}

// Plan writes each file that isn't as asked.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	for _, want := range spec.Files {
		now := f.Files[want.Path]
		if now.Dir {
			p.Blocked = append(p.Blocked, fail.New(fail.Usage, "correct spec.files", "%s is a directory, and spec.files wants a file there", want.Path))
			continue
		}
		if want.Path == "/etc/hosts" && f.CloudInit.Hosts {
			p.Warnings = append(p.Warnings, "cloud-init writes /etc/hosts again at every boot (manage_etc_hosts): set it to false, or change its template below /etc/cloud/templates")
		}
		owner := now.Wanted
		if owner == "" {
			owner = want.Owner
		}
		mode, content := octal(want.Permissions), want.Content
		if want.Append {
			content = with(now.Content+now.whole, want.Content)
			if now.Exists {
				mode, owner = now.Mode, now.Owner
			}
			if now.Holds {
				continue
			}
		}
		if now.Secret && now.Exists && now.SHA256 == sum(content) {
			now.Content = content // the same: only mode and owner are left to compare
		}
		c, ok := now.Write(want.Path, mode, owner, content, "")
		if !ok {
			continue
		}
		if now.ReadOnly != "" {
			p.Blocked = append(p.Blocked, fail.New(fail.Step, "write it below /etc, /var or /run, or put it into the image", "%s can't be written: %s", want.Path, now.ReadOnly))
			continue
		}
		c.Secret = now.Secret || secret(want.Permissions, want.Content)
		if c.Secret && c.Before != nil {
			c.Before.Content = "" // it was never kept
		}
		p.Changes = append(p.Changes, c)
	}
	return p
}

// octal writes a mode as the host tells it: 0644.
func octal(mode string) string {
	n, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return mode
	}
	return host.Octal(uint32(n))
}
