package lab

import (
	"os"
	"os/exec"
)

// programsNeeded must be on the machine that runs the lab.
var programsNeeded = []string{"qemu-system-x86_64", "qemu-img", "mmdebstrap", "dnsmasq", "rpmbuild", "rpmsign", "createrepo_c",
	"gpg", "ssh", "ssh-keygen", "ip", "mkfs.ext4", "dpkg-deb"}

// Missing says what this machine lacks for the lab, or nothing.
func Missing() string {
	if os.Geteuid() != 0 {
		return "the guest lab needs root"
	}
	for _, p := range programsNeeded {
		if _, err := exec.LookPath(p); err != nil {
			return "the guest lab needs " + p
		}
	}
	return ""
}

// Unavailable says why guest suites don't run: because nobody asked for them,
// or because the machine can't.
func Unavailable() string {
	if os.Getenv("NODEAGENT_LAB") == "" {
		return "guest suites start virtual machines: set NODEAGENT_LAB=1 to run them"
	}
	return Missing()
}

// Whole says whether the whole matrix was asked for (NODEAGENT_LAB=all), and
// not just the representative set.
func Whole() bool { return os.Getenv("NODEAGENT_LAB") == "all" }
