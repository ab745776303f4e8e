package host

import (
	"nodeagent/internal/change"
	"nodeagent/internal/prereq/diagnose"
)

// tdnf is Photon's package manager.
var tdnf = manager{
	program:  "tdnf",
	install:  tdnfInstall,
	diagnose: diagnose.Tdnf,
	progress: diagnose.TdnfProgress,
	locks:    []string{"/run/.tdnf-instance-lockfile", "/var/run/.tdnf-instance-lockfile"},
}

// tdnfInstall builds the arguments of tdnf(8). Its --disableexcludes takes no
// argument (with one it is an unknown option), and never a distro-sync: that
// would replace the kernel.
func tdnfInstall(_ *Linux, c change.InstallPackages, packages []string, o installOptions) []string {
	args := []string{"--assumeyes"}
	if len(c.Unlock) > 0 {
		args = append(args, "--disableexcludes")
	}
	if o.refresh {
		args = append(args, "--refresh")
	}
	verb := "install"
	if o.again {
		verb = "reinstall"
	}
	return append(append(args, verb), packages...)
}
