package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var (
	kvmAccel = []string{"-accel", "kvm", "-cpu", "host"}
	tcgAccel = []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
)

// chooseAccel finds out whether KVM is usable by starting the guests' kernel on
// it: a /dev/kvm that can make a machine may still be unable to run one.
func (l *Lab) chooseAccel(ctx context.Context) {
	l.accel = tcgAccel
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return
	}
	// One probe per boot of this machine: where KVM hangs it takes its whole limit.
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	verdict := filepath.Join(l.Assets.cacheDir, "kvm-"+strings.TrimSpace(string(boot)))
	if known, err := os.ReadFile(verdict); err == nil {
		if string(known) == "usable" {
			l.accel = kvmAccel
		}
		return
	}
	console := filepath.Join(l.RunDir, "kvm-probe.log")
	args := append([]string{"-machine", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:" + console, "-kernel", l.Assets.Vmlinuz, "-append", "console=ttyS0 panic=-1"}, kvmAccel...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	probe := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	// Without a root the kernel panics and qemu ends, all within a second.
	err := probe.Run()
	found := "unusable"
	if b, _ := os.ReadFile(console); err == nil && strings.Contains(string(b), "Linux version") {
		l.accel, found = kvmAccel, "usable"
	}
	os.WriteFile(verdict, []byte(found), 0o644)
}
