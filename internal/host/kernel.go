package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyLoadModule loads a module with modprobe(8), which knows dependencies.
// A module that can't be loaded is a failure, never a warning: pods would lose
// their network later, where nobody looks for the reason.
func (l *Linux) applyLoadModule(ctx context.Context, c change.LoadModule, _ func(string)) error {
	r, err := l.exec(ctx, program{name: "modprobe", args: []string{"--", c.Name}})
	if err != nil || r.exit == 0 {
		return err
	}
	kernel := ""
	if sys, err := l.System(); err == nil {
		kernel = sys.Kernel
	}
	info, err := os.Stat("/lib/modules/" + kernel)
	return moduleFailure(c.Name, kernel, err == nil && info.IsDir(), r.last())
}

// moduleFailure explains why modprobe failed: its message for a module that
// exists nowhere is the same whether it is packaged apart or the kernel was
// replaced.
func moduleFailure(name, kernel string, tree bool, said string) error {
	switch {
	case !tree:
		return fail.New(fail.Step, "reboot, then run again",
			"kernel module %s can't be loaded: the running kernel %s has no /lib/modules/%s, so it was replaced by an update", name, kernel, kernel)
	case strings.Contains(said, "not found in directory"):
		return fail.New(fail.Step, "install kernel-modules-extra-"+kernel+"; if no repository has it for this kernel any more: update the kernel, reboot, run again",
			"kernel module %s is not among the modules of kernel %s", name, kernel)
	case strings.Contains(said, "Operation not permitted"), strings.Contains(said, "Key was rejected"):
		return fail.New(fail.Step, "run as root on the host itself; with Secure Boot the module has to be signed by a key the kernel knows",
			"the kernel refuses module %s: %s", name, said)
	}
	return fail.New(fail.Step, "try: modprobe -v "+name+"; a line \"install "+name+" /bin/false\" below /etc/modprobe.d forbids it",
		"kernel module %s can't be loaded: %s", name, said)
}

// applySetSysctl writes below /proc/sys and reads back what the kernel made of
// it.
func (l *Linux) applySetSysctl(_ context.Context, c change.SetSysctl, _ func(string)) error {
	file, ok := SysctlPath(c.Key)
	if !ok {
		return fail.New(fail.Usage, "such as net.ipv4.ip_forward", "%q is not a sysctl", c.Key)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fail.New(fail.Step, "the kernel module that brings it has to be loaded first: name it in spec.kernel.modules", "the kernel has no sysctl %s", c.Key)
	}
	if err != nil {
		return fail.Wrap(fail.Step, err, "run as root; some are read-only in a container", "sysctl %s can't be set", c.Key)
	}
	_, err = f.WriteString(c.Value + "\n") // one write: the kernel takes it whole
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fail.Wrap(fail.Step, err, "see what values the kernel's documentation allows", "the kernel refuses %s = %s", c.Key, c.Value)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if got := SysctlValue(string(b)); got != SysctlValue(c.Value) {
		return fail.New(fail.Step, "set the value the kernel can have", "sysctl %s was set to %s, but the kernel made %s of it", c.Key, c.Value, got)
	}
	return nil
}

// SysctlPath is the file of a sysctl by the rules of sysctl.d(5): when the
// first separator is a slash, slashes separate; else dots do and a slash stands
// for a dot. ok is false for what leaves /proc/sys.
func SysctlPath(key string) (file string, ok bool) {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		key = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, key)
	}
	file = "/proc/sys/" + key
	return file, key != "" && path.Clean(file) == file && strings.HasPrefix(file, "/proc/sys/")
}

// SysctlValue makes values comparable: the kernel separates the numbers of a
// list by tabs, people by blanks.
func SysctlValue(s string) string { return strings.Join(strings.Fields(s), " ") }
