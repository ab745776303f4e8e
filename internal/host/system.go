package host

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// hookTime bounds one of the user's own commands.
const hookTime = 10 * time.Minute

// System reads what identifies host and kernel. It starts no program and asks
// no server.
func (l *Linux) System() (System, error) {
	s := System{
		Root: os.Geteuid() == 0, CPUs: runtime.NumCPU(), Now: time.Now(), SELinux: "disabled",
		Hostname:  staticHostname(l.text("/etc/hostname")),
		MachineID: firstLine(l.text("/etc/machine-id")),
		Serial:    firstLine(l.text("/sys/class/dmi/id/product_serial")),
		UUID:      strings.ToLower(firstLine(l.text("/sys/class/dmi/id/product_uuid"))),
	}
	if !l.Live() {
		l.systemOfTree(&s)
	} else if err := l.systemOfKernel(&s); err != nil {
		return s, err
	}
	s.FQDN = fqdn(s.Hostname, l.text("/etc/hosts"))
	return s, nil
}

// systemOfKernel asks the running kernel.
func (l *Linux) systemOfKernel(s *System) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	s.Arch, s.Kernel = unix.ByteSliceToString(u.Machine[:]), unix.ByteSliceToString(u.Release[:])
	if s.Hostname == "" {
		s.Hostname = unix.ByteSliceToString(u.Nodename[:])
	}
	// A tmpfs there holds the mounts of version 1, with or without a version 2
	// hierarchy beside them (cgroups(7)).
	var fs unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &fs) == nil {
		s.Cgroup = 1
		if fs.Type == unix.CGROUP2_SUPER_MAGIC {
			s.Cgroup = 2
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		s.MemoryBytes = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	switch firstLine(l.text("/sys/fs/selinux/enforce")) {
	case "1":
		s.SELinux = "enforcing"
	case "0":
		s.SELinux = "permissive"
	}
	return nil
}

// loaders are the dynamic loaders of the two machine types, at the place that
// each one's ABI fixes.
var loaders = map[string]string{"/lib64/ld-linux-x86-64.so.2": "x86_64", "/lib/ld-linux-aarch64.so.1": "aarch64"}

// systemOfTree takes what the files below a root tell: those of /proc that a
// fixture carries, or the one kernel that an image has.
func (l *Linux) systemOfTree(s *System) {
	s.Root, s.CPUs = true, 0
	s.Arch, s.Kernel = firstLine(l.text("/proc/sys/kernel/arch")), firstLine(l.text("/proc/sys/kernel/osrelease"))
	for loader, arch := range loaders {
		if info, err := l.Stat(loader); err == nil && info.Exists && s.Arch == "" {
			s.Arch = arch
		}
	}
	if kernels, err := l.ReadDir("/lib/modules"); err == nil && s.Kernel == "" && len(kernels) == 1 {
		s.Kernel = kernels[0]
	}
	if info, err := l.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil && info.Exists {
		s.Cgroup = 2
	} else if info, err := l.Stat("/sys/fs/cgroup/memory"); err == nil && info.Exists {
		s.Cgroup = 1
	}
	for line := range strings.Lines(l.text("/etc/selinux/config")) {
		mode, ok := strings.CutPrefix(strings.TrimSpace(line), "SELINUX=")
		if ok && slices.Contains([]string{"enforcing", "permissive"}, mode) {
			s.SELinux = mode
		}
	}
}

// text is a file's content, or "" when it can't be read.
func (l *Linux) text(path string) string {
	b, _ := l.ReadFile(path) // not there, or not for this user: nothing is known
	return string(b)
}

func firstLine(text string) string {
	s, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(s)
}

// staticHostname is the first line of /etc/hostname that is no comment
// (hostname(5)).
func staticHostname(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

// fqdn is the name with a domain that the host name itself or /etc/hosts has;
// empty when neither tells. No server is asked.
func fqdn(name, hosts string) string {
	if name == "" || strings.Contains(name, ".") {
		return name
	}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		for i, f := range fields {
			if i > 0 && strings.HasPrefix(f, name+".") {
				return f
			}
		}
	}
	return ""
}

// applySetHostname sets the static name (hostname(5)) and the kernel's. That is
// all hostnamectl does, and hostnamed reads the file anew when it is asked.
func (l *Linux) applySetHostname(ctx context.Context, c change.SetHostname, _ func(string)) error {
	if err := l.writeAtomic(ctx, "/etc/hostname", []byte(c.Name+"\n"), 0o644, 0, 0); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return fail.Wrap(fail.Step, err, "run as root, outside of a container that hides its host name", "the kernel does not take the host name %s", c.Name)
	}
	return nil
}

// applyRunHook runs one of the user's own commands. Its marker says that it
// succeeded, so it is written last.
func (l *Linux) applyRunHook(ctx context.Context, c change.RunHook, progress func(string)) error {
	r, err := l.exec(ctx, program{name: "sh", args: []string{"-c", c.Command}, env: l.hookProxy(), timeout: hookTime, line: progress})
	if err != nil {
		return err
	}
	if r.exit != 0 {
		said := ""
		if last := r.last(); last != "" {
			said = "; its last line: " + last
		}
		return fail.New(fail.Step, "run it by hand; the next run tries it again", "%s hook %q exited with %d%s", c.When, c.Command, r.exit, said)
	}
	return l.writeAtomic(ctx, c.Marker, []byte(c.Command+"\n"), 0o600, 0, 0)
}
