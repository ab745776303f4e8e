// Lab runs the real-guest lab by hand.
//
//	lab prepare   build everything into the cache
//	lab demo      a control plane and a stock guest; nodeagent makes it a Ready node
//	lab shell     the same without nodeagent: a root shell in the guest
//
// All of them take -flavour; it is rocky9 unless said otherwise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"nodeagent/test/vm/lab"
)

func main() {
	os.Exit(run())
}

func run() int {
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	binary := flags.String("binary", "bin/nodeagent", "the nodeagent binary that the demo runs")
	name := flags.String("flavour", lab.Rocky9.Name, "the guest's distribution: "+lab.FlavourNames())
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: lab prepare|demo|shell [flags]")
		flags.PrintDefaults()
	}
	if len(os.Args) < 2 {
		flags.Usage()
		return 2
	}
	verb := os.Args[1]
	if err := flags.Parse(os.Args[2:]); err != nil {
		return 2
	}
	f, ok := lab.FlavourNamed(*name)
	if !ok {
		return fail(fmt.Errorf("there is no flavour %q; there are %s", *name, lab.FlavourNames()))
	}
	// Signals end the context, and with it the guests, in order.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := lab.NewLog(os.Stdout)
	var action func(context.Context, *lab.Lab) error
	switch verb {
	case "prepare":
	case "demo":
		if _, err := os.Stat(*binary); err != nil {
			return fail(fmt.Errorf("%w: build it first with `make build`, or say where it is with -binary", err))
		}
		action = func(ctx context.Context, l *lab.Lab) error { return demo(ctx, l, f, *binary) }
	case "shell":
		action = func(ctx context.Context, l *lab.Lab) error { return shell(ctx, l, f) }
	default:
		flags.Usage()
		return 2
	}
	if missing := lab.Missing(); missing != "" {
		return fail(fmt.Errorf("%s", missing))
	}
	assets, err := lab.Prepare(ctx, log, f)
	if err != nil {
		return fail(err)
	}
	if action == nil {
		return 0
	}
	if !lab.Inside() {
		code, err := lab.Enter()
		if err != nil {
			return fail(err)
		}
		return code
	}
	l, err := lab.Start(ctx, assets, log)
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if err := action(ctx, l); err != nil {
		log.Printf("logs and consoles: %s", l.RunDir)
		return fail(err)
	}
	l.Close()
	l.Discard()
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "lab:", err)
	return 1
}
