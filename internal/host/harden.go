package host

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Harden keeps this process's memory out of core dumps and away from
// debuggers (prctl(2), PR_SET_DUMPABLE), since it will hold a join token. The
// umask is the usual one, since programs that are started inherit it: kubeadm's
// ca.crt and files of packages' scripts have to stay readable. What is secret
// is made with mode 0600 in each place. A dropped ssh connection doesn't end a
// run.
func Harden() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // best effort: old kernels and containers may refuse
	syscall.Umask(0o022)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
}

// IsTerminal tells whether a file is a terminal (ioctl_tty(2), TCGETS).
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
