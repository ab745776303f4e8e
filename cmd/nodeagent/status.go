package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodeagent/internal/report"
	"nodeagent/internal/run"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the run that goes on, or what the last one did",
		Example: "  nodeagent status\n  nodeagent status -o json",
		RunE: func(*cobra.Command, []string) error {
			s, err := run.ReadStatus(a.host())
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.json(s)
			}
			a.printStatus(s, time.Now())
			return nil
		},
	}
	cmd.Flags().StringVar(&a.root, "root", "/", "read the state below this directory")
	return cmd
}

func (a *app) printStatus(s run.Status, now time.Time) {
	if r := s.Running; r != nil {
		what := r.Change
		if what == "" {
			what = "observing"
		}
		fmt.Fprintf(a.out, "running: %s, pid %d, step %s for %s: %s\n", r.Command, r.Pid, r.Step, report.Took(now.Sub(r.Since)), what)
	}
	l := s.LastRun
	if l == nil {
		if s.Running == nil {
			fmt.Fprintln(a.out, "no run has ended on this host yet")
		}
		return
	}
	fmt.Fprintf(a.out, "last run: %s %s, ended %s, %d change(s) in %s\n", l.Command, l.Result, l.Finished.Local().Format(time.DateTime), l.Changes, report.Took(l.Took))
	if l.Error != "" {
		where := ""
		if l.Step != "" {
			where = " in step " + l.Step
		}
		fmt.Fprintf(a.out, "error%s: %s\n", where, strings.ReplaceAll(l.Error, "\n", "\n       "))
		if l.Hint != "" {
			fmt.Fprintf(a.out, "hint: %s\n", l.Hint)
		}
	}
	for _, w := range l.Warnings {
		fmt.Fprintf(a.out, "warning: %s\n", w)
	}
}
