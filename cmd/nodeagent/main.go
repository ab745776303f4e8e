// Command nodeagent turns a bare host into a Ready Kubernetes worker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/run"
)

// version is set by the linker.
var version = "dev"

func main() {
	host.Harden()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// errPending is the exit code 3 of plan: there is something to do.
var errPending = errors.New("changes pending")

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, out: out, errs: errs}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, errPending) {
		return 3
	}
	if err != nil {
		a.printError(err)
	}
	return run.ExitCode(err)
}

// usageError gives cobra's own complaints exit code 2.
func usageError(cmd *cobra.Command, err error) error {
	return fail.Wrap(fail.Usage, nil, "see: "+cmd.CommandPath()+" --help", "%s", strings.TrimSpace(err.Error()))
}

// printError writes each error on its own line, each hint below its error.
func (a *app) printError(err error) {
	var several *run.Several
	var problems config.Problems
	switch {
	case errors.As(err, &several):
		for _, e := range several.Errors {
			a.printError(e)
		}
	case errors.As(err, &problems):
		for _, p := range problems {
			fmt.Fprintf(a.errs, "error: %s\n", p)
			if p.Hint != "" {
				fmt.Fprintf(a.errs, "hint:  %s\n", p.Hint)
			}
		}
	default:
		fmt.Fprintf(a.errs, "error: %s\n", err)
		if h := fail.HintOf(err); h != "" {
			fmt.Fprintf(a.errs, "hint:  %s\n", h)
		}
	}
}
