package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/run"
)

func (a *app) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show everything that up would change; change nothing",
		Long: `Show everything that up would change, with diffs, and what would stop it.

Nothing is written, fetched, locked or started that could change the host; only a
configuration that is a URL, here or on the kernel's command line, is fetched. Works on
any Linux host, without a cluster and without a configuration too.

Exit code 0: nothing to do; 3: changes pending; 4 or 1: something is in the way.`,
		Example: `  nodeagent plan
  nodeagent plan --config worker.yaml -o json
  nodeagent plan --config worker.yaml --root /mnt/image
  nodeagent facts > facts.json && nodeagent plan --facts facts.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.deadline(cmd.Context())
			defer cancel()
			h := a.host()
			c, err := a.load(ctx, h, true)
			if err != nil {
				return err
			}
			steps, err := a.steps()
			if err != nil {
				return err
			}
			var plan run.Plan
			if a.facts != "" {
				data, err := os.ReadFile(a.facts)
				if err != nil {
					return fail.Wrap(fail.Usage, err, "", "facts can't be read")
				}
				if plan, err = run.FromFacts(data, c.Spec, steps); err != nil {
					return err
				}
			} else {
				plan = run.Make(ctx, h, c.Spec, steps)
			}
			return a.showPlan(plan, c.Warnings, "up")
		},
	}
	a.hostFlags(cmd)
	cmd.Flags().StringVar(&a.facts, "facts", "", "plan from facts saved by: nodeagent facts")
	cmd.Flags().DurationVar(&a.timeout, "timeout", 0, "limit for the whole command, such as 2m (0: none)")
	return cmd
}

// showPlan prints what a command would do and returns its exit code.
func (a *app) showPlan(p run.Plan, warnings []string, command string) error {
	blocked := p.Blocked()
	if a.output == "json" {
		if err := a.json(p); err != nil {
			return err
		}
		for _, w := range warnings {
			fmt.Fprintln(a.errs, "warning:", w)
		}
	} else {
		a.printPlan(p, warnings)
	}
	if blocked != nil {
		// Each one is in the plan already, with its hint.
		return fail.New(fail.KindOf(blocked), "", "%s would refuse: see what the plan calls refused", command)
	}
	if p.Changes() > 0 {
		return errPending
	}
	return nil
}

// mark shows at a glance what kind of change a line is.
var mark = map[change.Class]string{change.Wait: "…", change.Additive: "+", change.Reversible: "~", change.Removal: "-", change.Destructive: "!"}

func (a *app) printPlan(p run.Plan, warnings []string) {
	quiet := []string{}
	destructive := 0
	for _, w := range warnings {
		fmt.Fprintf(a.out, "warning: %s\n", w)
	}
	for _, s := range p.Steps {
		if len(s.Changes) == 0 && len(s.Plan.Blocked) == 0 && len(s.Warnings) == 0 && len(s.Notes) == 0 {
			quiet = append(quiet, s.Name)
			continue
		}
		fmt.Fprintf(a.out, "%s\n", s.Name)
		for _, w := range s.Warnings {
			fmt.Fprintf(a.out, "  warning: %s\n", w)
		}
		for _, n := range s.Notes {
			fmt.Fprintf(a.out, "  note: %s\n", n)
		}
		for _, c := range s.Changes {
			if c.Class() == change.Destructive {
				destructive++
			}
			fmt.Fprintf(a.out, "  %s %s\n", mark[c.Class()], c.Summary())
			if d := strings.TrimRight(c.Diff(), "\n"); d != "" {
				for line := range strings.SplitSeq(d, "\n") {
					fmt.Fprintf(a.out, "      %s\n", line)
				}
			}
		}
		for _, err := range s.Plan.Blocked {
			fmt.Fprintf(a.out, "  x refused: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n      "))
			if h := fail.HintOf(err); h != "" {
				fmt.Fprintf(a.out, "      hint: %s\n", h)
			}
		}
	}
	if len(quiet) > 0 {
		fmt.Fprintf(a.out, "nothing to do: %s\n", strings.Join(quiet, ", "))
	}
	switch n := p.Changes(); {
	case n == 0 && p.Blocked() == nil:
		fmt.Fprintln(a.out, "The host is as asked: 0 changes.")
	case destructive > 0:
		fmt.Fprintf(a.out, "%d change(s), %d of them DESTRUCTIVE (marked !).\n", n, destructive)
	default:
		fmt.Fprintf(a.out, "%d change(s), none destructive.\n", n)
	}
}

func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
