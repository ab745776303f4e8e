package lab

import (
	"os"
	"os/exec"
)

// programsNeeded must be on the machine that runs the lab.
var programsNeeded = []string{"qemu-system-x86_64", "qemu-img", "mmdebstrap", "dnsmasq", "rpmbuild", "rpmsign", "createrepo_c",
	"gpg", "ssh", "ssh-keygen", "ip", "mkfs.ext4", "dpkg-deb"}

// Unavailable says why guests can't be run here, or nothing if they can.
func Unavailable() string {
	if os.Getenv("NODEAGENT_LAB") != "1" {
		return "guest suites start virtual machines: set NODEAGENT_LAB=1 to run them"
	}
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
