package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// insideEnv marks the process that runs in the lab's namespaces.
const insideEnv = "NODEAGENT_LAB_INSIDE"

// Inside says whether this process is in the lab's namespaces.
func Inside() bool { return os.Getenv(insideEnv) == "1" && os.Getpid() == 1 }

// Enter runs this program once more, with the same arguments, in network,
// mount and PID namespaces of its own, and returns its exit code. When it ends,
// for whatever reason, the kernel ends everything that it started.
func Enter() (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("the lab needs root")
	}
	// The parent-death signal follows the thread that forks, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// settle makes the new mount namespace private and gives it a /proc of its own
// and an /etc that can be written without touching the host's: the control
// plane keeps its keys under the standard path, /etc/kubernetes.
func settle() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// A tmpfs over /mnt holds the upper side; nothing else needs /mnt here.
	if err := syscall.Mount("lab", "/mnt", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, d := range []string{"/mnt/upper", "/mnt/work"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("lab", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work"); err != nil {
		return fmt.Errorf("mount overlay on /etc: %w", err)
	}
	// A cluster of the host's own isn't ours to see.
	if err := os.RemoveAll("/etc/kubernetes"); err != nil {
		return err
	}
	if err := os.MkdirAll("/etc/kubernetes", 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll("/etc/resolv.conf"); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/resolv.conf", []byte("nameserver "+labAddr+"\n"), 0o644); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n::1 localhost\n" + labAddr + " " + apiName + " " + repoName + "\n"
	return os.WriteFile(filepath.Join("/etc", "hosts"), []byte(hosts), 0o644)
}
