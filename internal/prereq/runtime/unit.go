package runtime

import (
	"path"
	"regexp"
	"strings"

	"nodeagent/internal/config"
	"nodeagent/internal/prereq/archive"
)

// unitPath is where the unit is written for a runtime from archives.
const unitPath = "/etc/systemd/system/containerd.service"

// unitFile is the service for containerd from an archive. It runs containers
// that outlive it (KillMode=process), owns their cgroups (Delegate), and is the
// last to be killed when memory is short.
func unitFile(program string) string {
	return `# Kept by nodeagent (spec.runtime.archives).
[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target local-fs.target dbus.service

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=` + program + `
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`
}

// programPath is where archives put the containerd program: as their records
// say, or as upstream's archives are laid out (bin/containerd; the bundle for
// / has usr/local/bin/containerd).
func programPath(archives []config.Archive, markers map[string]archive.Marker) string {
	for _, a := range archives {
		for _, f := range markers[a.URL].Files {
			if path.Base(f.Path) == "containerd" && path.Base(path.Dir(f.Path)) == "bin" {
				return f.Path
			}
		}
	}
	for _, a := range archives {
		if !strings.Contains(path.Base(a.URL), "containerd") {
			continue
		}
		switch {
		case a.Into == "/":
			return "/usr/local/bin/containerd"
		case path.Base(a.Into) == "containerd": // a single program
			return a.Into
		}
		return path.Join(a.Into, "bin/containerd")
	}
	return "/usr/local/bin/containerd"
}

var execStart = regexp.MustCompile(`(?m)^ExecStart=[@:+!-]*(\S+)`)

// starts tells whether a unit file's service is this program.
func starts(unit, program string) bool {
	m := execStart.FindStringSubmatch(unit)
	return m != nil && m[1] == program
}

var archiveVersion = regexp.MustCompile(`containerd(?:-static)?-v?(\d+\.\d+\.\d+)`)

// versionOf reads containerd's version in an archive's name; empty when it
// isn't there.
func versionOf(archives []config.Archive) string {
	for _, a := range archives {
		if m := archiveVersion.FindStringSubmatch(path.Base(a.URL)); m != nil {
			return m[1]
		}
	}
	return ""
}
