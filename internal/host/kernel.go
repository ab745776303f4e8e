package host

import (
	"context"
	"fmt"
	"os"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// applyLoadModule loads a module with modprobe(8), which knows dependencies
// and blacklists.
func (l *Linux) applyLoadModule(ctx context.Context, c change.LoadModule, _ func(string)) error {
	r, err := l.exec(ctx, program{name: "modprobe", args: []string{c.Name}})
	if err != nil {
		return err
	}
	if r.exit == 0 {
		return nil
	}
	kernel := ""
	if sys, err := l.System(); err == nil {
		kernel = sys.Kernel
	}
	if info, err := os.Stat("/lib/modules/" + kernel); err != nil || !info.IsDir() {
		return fail.New(fail.Step, "reboot into the kernel that is installed, then run again", "module %s can't be loaded: the running kernel %s has no /lib/modules/%s any more (it was replaced)", c.Name, kernel, kernel)
	}
	return fail.New(fail.Step, "on Enterprise Linux 10 it is in kernel-modules-extra-"+kernel+": name that in packages.install; if no repository has it for this kernel, update the kernel and reboot",
		"module %s can't be loaded: %s", c.Name, r.last())
}

// applySetSysctl writes /proc/sys and reads it back.
func (l *Linux) applySetSysctl(_ context.Context, c change.SetSysctl, _ func(string)) error {
	path := SysctlPath(c.Key)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fail.Wrap(fail.Step, err, "the kernel module that brings it isn't loaded, or the kernel has none", "sysctl %s can't be set", c.Key)
	}
	_, err = f.WriteString(c.Value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fail.Wrap(fail.Step, err, "is the value one that the kernel knows?", "sysctl %s can't be set to %q", c.Key, c.Value)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if got := strings.Join(strings.Fields(string(b)), " "); got != strings.Join(strings.Fields(c.Value), " ") {
		return fmt.Errorf("sysctl %s was set to %q but the kernel says %q", c.Key, c.Value, got)
	}
	return nil
}

// SysctlPath is the file of a sysctl (sysctl.d(5)): a slash in a key stands
// for itself when it comes before the first dot.
func SysctlPath(key string) string {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '/' {
		return "/proc/sys/" + key
	}
	return "/proc/sys/" + strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, key)
}
