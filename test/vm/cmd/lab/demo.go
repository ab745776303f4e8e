package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"nodeagent/test/vm/lab"
)

const hostName = "prdk8snod001"

// stockGuest starts a control plane and a stock host with two blank disks, and
// waits until it answers.
func stockGuest(ctx context.Context, l *lab.Lab, f lab.Flavour) (*lab.Guest, error) {
	if err := l.StartControlPlane(ctx); err != nil {
		return nil, err
	}
	g, err := l.NewGuest(ctx, f, hostName)
	if err != nil {
		return nil, err
	}
	for range 2 {
		if _, err := g.AddDisk(20, ""); err != nil {
			return nil, err
		}
	}
	g.Seed(append(f.Seed(hostName), lab.CNIConfig)...)
	if err := g.Boot(ctx); err != nil {
		return nil, err
	}
	l.Log.Printf("guest %s is on: %s, two blank disks; console %s", g.Name, f.Name, g.Console())
	return g, g.WaitSSH(ctx, 5*time.Minute)
}

// demo shows the product's whole path.
func demo(ctx context.Context, l *lab.Lab, f lab.Flavour, binary string) error {
	g, err := stockGuest(ctx, l, f)
	if err != nil {
		return err
	}
	l.Log.Printf("guest answers on ssh")
	join, err := l.JoinCommand(ctx, time.Hour)
	if err != nil {
		return err
	}
	config := lab.NodeConfig{Spec: f.Spec, HostName: hostName, Addr: g.Addr, TokenFile: lab.TokenFile}
	if err := g.CopyIn(ctx, lab.ProductFiles(binary, config, join)...); err != nil {
		return err
	}
	l.Log.Printf("nodeagent, its config and the join command are on the guest")
	fmt.Printf("\n[root@%s ~]# cat %s\n%s\n[root@%[1]s ~]# nodeagent up\n", hostName, lab.ConfigFile, config)
	start := time.Now()
	code, err := g.Stream(ctx, os.Stdout, "nodeagent up")
	if err != nil {
		return err
	}
	l.Log.Printf("nodeagent up: exit %d after %.1f s", code, time.Since(start).Seconds())
	if code != 0 {
		return fmt.Errorf("nodeagent up failed; console %s", g.Console())
	}
	if err := l.WaitNode(ctx, hostName, time.Minute); err != nil {
		return err
	}
	out, err := l.Kubectl(ctx, "get", "nodes", "--output=wide")
	if err != nil {
		return err
	}
	fmt.Printf("\n[root@cp ~]# kubectl get nodes -o wide\n%s\n[root@%s ~]# nodeagent up\n", out, hostName)
	code, err = g.Stream(ctx, os.Stdout, "nodeagent up")
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("the second nodeagent up: exit %d", code)
	}
	l.Log.Printf("a second run changed nothing")
	return nil
}

// shell gives the caller a root shell in a stock guest.
func shell(ctx context.Context, l *lab.Lab, f lab.Flavour) error {
	g, err := stockGuest(ctx, l, f)
	if err != nil {
		return err
	}
	join, err := l.JoinCommand(ctx, time.Hour)
	if err != nil {
		return err
	}
	fmt.Printf("join command: %s\n", join)
	cmd := g.Shell(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			return err
		}
	}
	return nil
}
