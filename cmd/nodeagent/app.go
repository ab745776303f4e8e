package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/run"
)

// app is the flags that commands share and the streams they use.
type app struct {
	in        io.Reader
	out, errs io.Writer

	configs  []string
	output   string
	logLevel string
	root     string
	facts    string
	until    string
	skip     []string
	yes      bool
	timeout  time.Duration

	pin      string        // --config-sha256
	patience time.Duration // for a configuration that is fetched
	tell     func(string)  // takes notes; nil: they go to stderr
}

const long = `nodeagent turns a bare host into a Ready Kubernetes worker.

It reads one file, shows what it would do, does it, and proves the node Ready.
A second run changes nothing; a run killed anywhere is finished by the next one.

  nodeagent plan        what would change; changes nothing itself
  nodeagent up          do it, join the cluster, wait for Ready
  nodeagent reset       take it back; data disks are never wiped
  nodeagent convert     manifests that you have, as configurations
  nodeagent render      Ignition, cloud-init, iPXE, kickstart or a script of a configuration
  nodeagent status      what the last run did, or what the running one waits for

Exit codes: 0 as asked · 1 a step failed · 2 usage or configuration
            3 changes pending (plan, reset --dry-run), left out (convert) · 4 refused for safety · 5 timed out
            6 another run goes on · 130 interrupted`

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nodeagent",
		Short:         "Turn a bare host into a Ready Kubernetes worker",
		Long:          long,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          exactly(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.output != "text" && a.output != "json" {
				return fail.New(fail.Usage, "text or json", "-o %q is no output form", a.output)
			}
			return a.logging()
		},
	}
	root.SetFlagErrorFunc(usageError)
	p := root.PersistentFlags()
	p.StringVarP(&a.output, "output", "o", "text", "output form: text or json")
	p.StringVar(&a.logLevel, "log-level", "warn", "diagnostics on stderr: debug, info, warn, error")
	root.AddCommand(a.upCommand(), a.planCommand(), a.resetCommand(), a.statusCommand(), a.factsCommand(), a.configCommand(), a.convertCommand(), a.renderCommand(), a.versionCommand())
	for _, c := range root.Commands() {
		c.Args = exactly(c.Args)
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

// exactly gives wrong arguments the usage exit code.
func exactly(inner cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if inner == nil {
			inner = cobra.NoArgs
		}
		if err := inner(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}

func (a *app) logging() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return fail.New(fail.Usage, "debug, info, warn or error", "--log-level %q is no level", a.logLevel)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: level})))
	return nil
}

// hostFlags are the flags of commands that observe a host.
func (a *app) hostFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&a.configs, "config", nil, "configuration: a file, a URL, or - for standard input; repeatable, later ones win (default "+defaultConfig+")")
	f.StringVar(&a.pin, "config-sha256", "", "what sha256sum says of the one --config; anything else is refused, and plain http needs it")
	f.StringVar(&a.root, "root", "/", "observe the files below this directory instead of the running host")
	a.stepFlags(cmd)
}

func (a *app) stepFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.until, "until", "", "stop after this step: "+stepNames())
	f.StringArrayVar(&a.skip, "skip", nil, "leave this step out; repeatable")
}

// host is the running host, or the tree of --root.
func (a *app) host() *host.Linux {
	if a.root == "/" || a.root == "" {
		return host.New()
	}
	return host.At(a.root)
}

// steps are those that --until and --skip leave.
func (a *app) steps() ([]run.Step, error) {
	steps, err := run.Select(steps, a.until, a.skip)
	if err != nil {
		return nil, fail.Wrap(fail.Usage, nil, "steps are: "+stepNames(), "%s", err)
	}
	return steps, nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", RunE: func(*cobra.Command, []string) error {
		if a.output == "json" {
			return a.json(map[string]string{"version": version})
		}
		fmt.Fprintln(a.out, "nodeagent", version)
		return nil
	}}
}

// deadline adds --timeout to a context.
func (a *app) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout > 0 {
		return context.WithTimeout(ctx, a.timeout)
	}
	return context.WithCancel(ctx)
}
