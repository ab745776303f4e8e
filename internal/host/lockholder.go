package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"nodeagent/internal/prereq/diagnose"
)

// rpmLocks are the files rpm takes its transaction lock on.
var rpmLocks = []string{"/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"}

// lockHolder names the living process that holds a package lock: "process 812
// (packagekitd)"; empty when none can be found.
func (l *Linux) lockHolder(m manager, d diagnose.Diagnosis) string {
	if who := alivePid(d.Pid); who != "" {
		return who
	}
	for _, path := range m.locks {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		if who := alivePid(pid); who != "" {
			return who
		}
	}
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	for _, path := range append([]string{d.Where}, rpmLocks...) {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if who := alivePid(holderOf(string(table), info.Sys().(*syscall.Stat_t).Ino)); who != "" {
			return who
		}
	}
	return ""
}

// alivePid describes a process, or returns "" when there is none.
func alivePid(pid int) string {
	if pid <= 0 {
		return ""
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(comm)))
}

// holderOf finds in /proc/locks (proc_locks(5)) the process that holds a lock
// on an inode; waiting ones are marked with an arrow. 0 when there is none.
func holderOf(table string, inode uint64) int {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] == "->" {
			continue
		}
		id := strings.Split(f[5], ":")
		if id[len(id)-1] == strconv.FormatUint(inode, 10) {
			pid, err := strconv.Atoi(f[4])
			if err == nil {
				return pid
			}
		}
	}
	return 0
}
