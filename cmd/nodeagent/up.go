package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/report"
	"nodeagent/internal/run"
)

func (a *app) upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make the host a Ready Kubernetes worker",
		Long: `Make the host what the configuration says, join the cluster and wait until the
node is Ready. What is right already is left alone: a second run changes nothing, and a
run that was killed anywhere is finished by the next one.

Without --config and without /etc/nodeagent/config.yaml the configuration is the one
that the kernel's command line names: nodeagent.config=URL nodeagent.config_sha256=HEX.
One that is fetched is awaited for ten minutes.

Progress goes to stderr, the report to stdout. On a terminal, up asks before it formats
a disk; --yes answers that.`,
		Example: `  nodeagent up
  nodeagent up --config worker.yaml --yes
  nodeagent up --config https://boot.example/fleet.yaml -o json
  ssh root@host nodeagent up --config - < worker.yaml
  nodeagent up --until kubelet        # everything but the join`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd) },
	}
	a.hostFlags(cmd)
	_ = cmd.Flags().MarkHidden("root") // a tree of files is never changed
	cmd.Flags().BoolVar(&a.yes, "yes", false, "don't ask before blank disks are formatted")
	cmd.Flags().DurationVar(&a.timeout, "timeout", 0, "limit for the whole run, such as 30m (0: none)")
	return cmd
}

func (a *app) up(cmd *cobra.Command) error {
	ctx, cancel := a.deadline(cmd.Context())
	defer cancel()
	if a.root != "/" {
		return fail.New(fail.Usage, "nodeagent plan --root shows what would be done", "up changes the running host only, not a tree of files")
	}
	h := host.New()
	steps, err := a.steps()
	if err != nil {
		return err
	}
	opts, err := options()
	if err != nil {
		return err
	}
	sink := a.sink()
	a.patience = patience
	a.tell = func(text string) {
		sink(report.Event{Time: time.Now(), Kind: report.Progress, Step: run.ConfigurationStep, Text: text})
	}
	c, err := a.loadRecorded(ctx, h, opts)
	if err != nil {
		return err
	}
	if !a.yes && isTerminal(a.in) && isTerminal(a.out) {
		opts.Confirm = a.confirm
	}
	for _, w := range c.Warnings {
		sink(report.Event{Time: time.Now(), Kind: report.Warning, Text: w})
	}
	last, err := run.Up(ctx, h, c.Spec, steps, opts, sink)
	if last.Run == "" {
		return err
	}
	if a.output == "json" {
		if jsonErr := a.json(last); jsonErr != nil {
			return jsonErr
		}
		return err
	}
	if err == nil {
		a.printReport(last, h.Stats())
	}
	return err
}

// options names a new run.
func options() (run.Options, error) {
	id := make([]byte, 6)
	_, err := rand.Read(id)
	return run.Options{ID: hex.EncodeToString(id), Version: version, Now: time.Now}, err
}

// sink shows progress on stderr.
func (a *app) sink() report.Sink {
	if a.output == "json" {
		return report.JSONLines(a.errs)
	}
	return report.Text(a.errs, isTerminal(a.errs) && os.Getenv("NO_COLOR") == "")
}

// isTerminal tells whether a stream is a terminal.
func isTerminal(s any) bool {
	f, ok := s.(*os.File)
	return ok && host.IsTerminal(f)
}

// confirm asks before blank disks are formatted.
func (a *app) confirm(p run.Plan) error {
	var lines []string
	for _, s := range p.Steps {
		for _, c := range s.Changes {
			if c.Class() == change.Destructive {
				lines = append(lines, c.Summary())
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintf(a.errs, "This run will:\n  %s\nThe disks are blank. Go on? Type yes: ", strings.Join(lines, "\n  "))
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return fail.New(fail.Safety, "run it with --yes, or answer yes", "nothing was changed: formatting was not agreed to")
	}
	return nil
}

// printReport is the last screen: what changed, what was right, what it took.
func (a *app) printReport(last run.LastRun, stats host.Stats) {
	fmt.Fprintln(a.out)
	var quiet []string
	for _, s := range last.Steps {
		if len(s.Changes) == 0 {
			quiet = append(quiet, s.Name)
			continue
		}
		fmt.Fprintf(a.out, "%-10s %3d change(s)  %s\n", s.Name, len(s.Changes), report.Took(s.Took))
	}
	if len(quiet) > 0 {
		fmt.Fprintf(a.out, "right already: %s\n", strings.Join(quiet, ", "))
	}
	for _, w := range last.Warnings {
		fmt.Fprintf(a.out, "warning: %s\n", w)
	}
	fmt.Fprintf(a.out, "The host is as asked: %d change(s) in %s, of which %s in %d other programs and in waiting.\n",
		last.Changes, report.Took(last.Took), report.Took(stats.External), stats.Programs)
}
