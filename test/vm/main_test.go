// Package vm_test holds the guest suites: real virtual machines that join a real
// control plane. They start only with NODEAGENT_LAB=1, as root, with qemu.
package vm_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"nodeagent/test/vm/lab"
)

// unavailable is why the guest suites can't run here; empty if they can.
var unavailable = lab.Unavailable()

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if unavailable != "" || flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	ctx := context.Background()
	log := lab.NewLog(os.Stderr)
	assets, err := lab.Prepare(ctx, log, lab.Flavours...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the lab:", err)
		return 1
	}
	if !lab.Inside() {
		code, err := lab.Enter()
		if err != nil {
			fmt.Fprintln(os.Stderr, "enter the lab:", err)
		}
		return code
	}
	shared.assets, shared.log = assets, log
	code := m.Run()
	if shared.lab != nil {
		shared.lab.Close()
		if code == 0 {
			shared.lab.Discard()
		} else {
			log.Printf("logs and consoles: %s", shared.lab.RunDir)
		}
	}
	return code
}

// shared is the one lab that all tests of a run use.
var shared struct {
	assets  *lab.Assets
	log     *lab.Log
	lan     sync.Once
	cluster sync.Once
	lab     *lab.Lab
	err     error
}

// needLAN returns the running lab, or skips the test.
func needLAN(t *testing.T) *lab.Lab {
	t.Helper()
	if unavailable != "" {
		t.Skip(unavailable)
	}
	shared.lan.Do(func() { shared.lab, shared.err = lab.Start(context.Background(), shared.assets, shared.log) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.lab
}

// needLab returns the running lab with its control plane, or skips the test.
func needLab(t *testing.T) *lab.Lab {
	t.Helper()
	l := needLAN(t)
	shared.cluster.Do(func() { shared.err = l.StartControlPlane(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return l
}

// needWholeMatrix skips a test that the representative set leaves out.
func needWholeMatrix(t *testing.T) {
	t.Helper()
	if !lab.Whole() {
		t.Skip("not in the representative set: set NODEAGENT_LAB=all to run it")
	}
}

// newGuest makes a guest that ends with the test, and names its console if the
// test failed.
func newGuest(t *testing.T, l *lab.Lab, f lab.Flavour, name string) *lab.Guest {
	t.Helper()
	g, err := l.NewGuest(t.Context(), f, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.PowerCut()
		if t.Failed() {
			t.Logf("serial console of %s: %s", name, g.Console())
		}
	})
	return g
}
