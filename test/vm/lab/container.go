package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Container is a guest without a kernel of its own: the same tree with a full
// systemd, at native speed. It has no network but loopback. Its disks are loop
// devices. kubelet doesn't belong here: the machine's kernel may lack what it
// needs.
type Container struct {
	Name string
	Root string

	lab     *Lab
	process *process
	leader  int
	loops   []*os.File
}

// ContainerOptions are what a container has besides its flavour.
type ContainerOptions struct {
	DisksGiB []int  // blank loop devices
	Files    []File // written before it boots
	// Repositories makes the lab's repositories available below /srv/repos, for
	// there is no network.
	Repositories bool
}

// StartContainer boots a tree of the flavour, with blank loop devices of the
// given sizes, and waits until its system has started.
func (l *Lab) StartContainer(ctx context.Context, f Flavour, name string, disksGiB ...int) (*Container, error) {
	return l.StartContainerWith(ctx, f, name, ContainerOptions{DisksGiB: disksGiB})
}

// Written is the directory on the lab machine that holds all that has been
// written to the container's root: the upper layer of its overlay.
func (c *Container) Written() string { return filepath.Join(filepath.Dir(c.Root), "upper") }

// StartContainerWith is StartContainer with all options.
func (l *Lab) StartContainerWith(ctx context.Context, f Flavour, name string, o ContainerOptions) (*Container, error) {
	assets, ok := l.Assets.Flavours[f.Name]
	if !ok {
		return nil, fmt.Errorf("flavour %s wasn't prepared", f.Name)
	}
	dir := filepath.Join(l.RunDir, name)
	c := &Container{Name: name, Root: filepath.Join(dir, "root"), lab: l}
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", filepath.Join(assets, "rootfs"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	if err := syscall.Mount("lab", c.Root, "overlay", 0, options); err != nil {
		return nil, fmt.Errorf("mount overlay for %s: %w", name, err)
	}
	for _, file := range append([]File{
		{Path: "/etc/hostname", Content: name + "\n"},
		{Path: "/etc/fstab", Content: "# made at installation\n"}, // a container has no swap of its own
		{Path: "/etc/systemd/system/swap.target.wants/srv-swapfile.swap", Link: "/dev/null"},
	}, o.Files...) {
		if err := file.writeBelow(c.Root); err != nil {
			return nil, err
		}
	}
	args := []string{"--quiet", "--directory=" + c.Root, "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "--machine=" + name, "--hostname=" + name, "--capability=all", "--link-journal=no"}
	if o.Repositories {
		args = append(args, "--bind-ro="+l.Assets.Repos+":/srv/repos")
	}
	for i, gib := range o.DisksGiB {
		image := filepath.Join(dir, fmt.Sprintf("disk%d.img", i+1))
		if err := (File{Path: image}).writeBelow("/"); err != nil {
			return nil, err
		}
		if err := os.Truncate(image, int64(gib)<<30); err != nil {
			return nil, err
		}
		out, err := run(ctx, "losetup", "--find", "--show", image)
		if err != nil {
			c.Close()
			return nil, err
		}
		loop := strings.TrimSpace(out)
		// A loop device belongs to the machine, not to a namespace. Detached while
		// it is open, it goes by itself when its last user is gone, even if the lab
		// is killed.
		held, err := os.Open(loop)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.loops = append(c.loops, held)
		if _, err := run(ctx, "losetup", "--detach", loop); err != nil {
			c.Close()
			return nil, err
		}
		args = append(args, "--bind="+loop, "--property=DeviceAllow="+loop+" rwm")
	}
	var err error
	if c.process, err = l.spawn(name, "systemd-nspawn", args...); err != nil {
		c.Close()
		return nil, err
	}
	err = WaitFor(ctx, name+" to start", time.Minute, func(ctx context.Context) error {
		if err := c.process.alive(); err != nil {
			return err
		}
		if err := c.findLeader(); err != nil {
			return err
		}
		// "degraded" is a started system too: some units can't work in a container.
		r, err := c.Exec(ctx, "systemctl is-system-running")
		if state := strings.TrimSpace(r.Stdout); err == nil && state != "running" && state != "degraded" {
			err = fmt.Errorf("system is %q: %s", state, r.Stderr)
		}
		return err
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// findLeader finds the container's init: the child of nspawn.
func (c *Container) findLeader() error {
	pid := c.process.cmd.Process.Pid
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	for _, f := range strings.Fields(string(b)) {
		if comm, _ := os.ReadFile("/proc/" + f + "/comm"); strings.TrimSpace(string(comm)) == "systemd" {
			c.leader, err = strconv.Atoi(f)
			return err
		}
	}
	return errors.New("no init in the container yet")
}

// Command is a program call in the container.
func (c *Container) Command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(c.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	return cmd
}

// Exec runs a shell script in the container and returns all of its outcome.
func (c *Container) Exec(ctx context.Context, script string) (Result, error) {
	cmd := c.Command(ctx, "/bin/sh", "-c", script)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		r.Code = exit.ExitCode()
		return r, nil
	}
	return r, err
}

// Run is Exec for scripts that must succeed; it returns what they print.
func (c *Container) Run(ctx context.Context, script string) (string, error) {
	r, err := c.Exec(ctx, script)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit %d: %s", c.Name, r.Code, tail(r.Stderr, 500))
	}
	return r.Stdout, err
}

// CopyIn puts files into the container.
func (c *Container) CopyIn(ctx context.Context, files ...File) error {
	var b bytes.Buffer
	if err := writeTar(&b, files); err != nil {
		return err
	}
	cmd := c.Command(ctx, "tar", "-C", "/", "--no-overwrite-dir", "-xpf", "-")
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy to %s: %w: %s", c.Name, err, tail(string(out), 500))
	}
	return nil
}

// Close ends the container; its loop devices go with it.
func (c *Container) Close() {
	if c.process != nil {
		if c.leader != 0 {
			syscall.Kill(c.leader, syscall.SIGKILL)
		}
		c.process.stop(5 * time.Second)
		c.process = nil
	}
	for _, loop := range c.loops {
		loop.Close()
	}
	c.loops = nil
	syscall.Unmount(c.Root, syscall.MNT_DETACH)
}
