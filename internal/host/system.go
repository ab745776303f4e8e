package host

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// System reads what identifies host and kernel; it starts no program.
func (l *Linux) System() (System, error) {
	s := System{Root: os.Geteuid() == 0, CPUs: runtime.NumCPU(), Now: time.Now(), SELinux: "disabled"}
	s.MachineID = l.line("/etc/machine-id")
	s.Hostname = l.line("/etc/hostname")
	if !l.Live() {
		// A tree can carry what the kernel would say, as a fixture does.
		s.Root, s.Kernel, s.Arch = true, l.line("/proc/sys/kernel/osrelease"), l.line("/proc/sys/kernel/arch")
		if _, err := os.Stat(l.path("/sys/fs/cgroup/cgroup.controllers")); err == nil {
			s.Cgroup = 2
		} else if _, err := os.Stat(l.path("/sys/fs/cgroup/memory")); err == nil {
			s.Cgroup = 1
		}
		return s, nil
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return s, err
	}
	s.Arch, s.Kernel = unix.ByteSliceToString(u.Machine[:]), unix.ByteSliceToString(u.Release[:])
	if s.Hostname == "" {
		s.Hostname = unix.ByteSliceToString(u.Nodename[:])
	}
	s.FQDN = l.fqdn(s.Hostname)
	s.Serial = l.line("/sys/class/dmi/id/product_serial")
	s.UUID = strings.ToLower(l.line("/sys/class/dmi/id/product_uuid"))
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err == nil {
		s.Cgroup = 1
		if fs.Type == unix.CGROUP2_SUPER_MAGIC {
			s.Cgroup = 2
		}
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		s.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	}
	switch l.line("/sys/fs/selinux/enforce") {
	case "1":
		s.SELinux = "enforcing"
	case "0":
		s.SELinux = "permissive"
	}
	return s, nil
}

// line is the first line of a file, or "".
func (l *Linux) line(path string) string {
	b, err := l.ReadFile(path)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(s)
}

// fqdn is the longer name that /etc/hosts has for a host name.
func (l *Linux) fqdn(name string) string {
	b, err := l.ReadFile("/etc/hosts")
	if err != nil || name == "" {
		return ""
	}
	for line := range strings.Lines(string(b)) {
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

// applySetHostname writes /etc/hostname and sets the kernel's name, which is
// what hostnamectl(1) does, without needing its daemon.
func (l *Linux) applySetHostname(ctx context.Context, c change.SetHostname, _ func(string)) error {
	if err := l.writeAtomic(ctx, "/etc/hostname", []byte(c.Name+"\n"), 0o644, 0, 0); err != nil {
		return err
	}
	return unix.Sethostname([]byte(c.Name))
}

// applyRunHook runs one of the user's own commands; the marker says that it
// succeeded.
func (l *Linux) applyRunHook(ctx context.Context, c change.RunHook, progress func(string)) error {
	r, err := l.exec(ctx, program{name: "sh", args: []string{"-c", c.Command}, timeout: 10 * time.Minute, line: progress})
	if err == nil && r.exit != 0 {
		err = fail.New(fail.Step, "run it by hand; nodeagent runs it again next time", "%s hook %q exited with %d: %s", c.When, c.Command, r.exit, r.last())
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Marker), 0o700); err != nil {
		return err
	}
	return l.writeAtomic(ctx, c.Marker, []byte(strconv.Quote(c.Command)+"\n"), 0o600, 0, 0)
}
