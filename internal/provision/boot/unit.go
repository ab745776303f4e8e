package boot

import (
	"strings"

	"nodeagent/packaging"
)

// unit is packaging's nodeagent.service for this artefact: the binary's place,
// where the configuration comes from, and who gets the binary.
func (o *Options) unit(fetches bool) string {
	u := packaging.Unit
	start := "ExecStart=" + o.BinaryPath + " up --yes"
	if o.Source.URL != "" {
		// % and $ mean something in a unit (systemd.unit(5), systemd.service(5)).
		start += " --config " + strings.NewReplacer("%", "%%", "$", "$$").Replace(o.Source.URL)
		if o.Source.SHA256 != "" {
			start += " --config-sha256 " + o.Source.SHA256
		}
		u = withoutLine(u, "ConditionPathExists=|/etc/nodeagent/config.yaml")
		u = withoutLine(u, "ConditionKernelCommandLine=|nodeagent.config")
	}
	if fetches {
		start = "ExecStartPre=/bin/sh " + getPath + "\n" + start
	}
	u = replaceLine(u, "ExecStart=/usr/local/bin/nodeagent up --yes", start)
	if o.OldSystemd {
		u = replaceLine(u, "Type=oneshot", "# systemd before 244 refuses Restart= of a oneshot.\nType=simple")
		u = withoutLine(u, "RestartSteps=6")
		u = withoutLine(u, "RestartMaxDelaySec=5min")
	}
	return u
}

func withoutLine(text, line string) string { return replaceLine(text, line, "") }

// replaceLine replaces a whole line that must be there; TestTheUnit… holds that
// packaging's unit has each.
func replaceLine(text, line, with string) string {
	before, after, ok := strings.Cut(text, "\n"+line+"\n")
	if !ok {
		panic("boot: nodeagent.service has no line " + line)
	}
	if with != "" {
		with += "\n"
	}
	return before + "\n" + with + after
}
