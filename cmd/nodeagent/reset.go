package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/report"
	"nodeagent/internal/reset"
	"nodeagent/internal/run"
)

func (a *app) resetCommand() *cobra.Command {
	var o reset.Options
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Take back what was done to this host, newest first",
		Long: `Take back what the journal says was done to this host, newest first: the host leaves
its cluster, and files, units, rules, swap and the host name are as they were.

What somebody has changed since is left as it is, and told. Data disks are never wiped:
the filesystem and its label stay, and the mount too, unless --forget-disks is given.
Packages stay, unless --remove-packages is given. docs/reset.md lists all that stays.

The node isn't drained: do that first, from elsewhere. A second reset changes nothing,
and one that was killed anywhere is finished by the next one.`,
		Example: `  nodeagent reset --dry-run
  nodeagent reset --yes
  nodeagent reset --yes --forget-disks --remove-packages`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.deadline(cmd.Context())
			defer cancel()
			h := host.New()
			r := reset.New(o)
			steps := resetSteps(r)
			if dryRun {
				return a.showPlan(run.Make(ctx, h, config.Spec{}, steps), nil, "reset")
			}
			opts, err := options()
			if err != nil {
				return err
			}
			opts.Undone = r.Undone
			if !a.yes {
				opts.Confirm = a.confirmReset
			}
			last, err := run.Up(ctx, h, config.Spec{}, steps, opts, a.sink())
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
				a.printReset(last)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&dryRun, "dry-run", false, "show what would be done and left; change nothing")
	f.BoolVar(&a.yes, "yes", false, "don't ask")
	f.BoolVar(&o.ForgetDisks, "forget-disks", false, "unmount the data disks and remove what mounts them; their data stay")
	f.BoolVar(&o.RemovePackages, "remove-packages", false, "remove the packages and archives that nodeagent installed")
	f.DurationVar(&a.timeout, "timeout", 0, "limit for the whole command, such as 10m (0: none)")
	return cmd
}

// resetSteps are up's steps backwards, each taking back what its namesake did.
func resetSteps(r *reset.Reset) []run.Step {
	var out []run.Step
	for _, s := range slices.Backward(steps) {
		out = append(out, run.NewStep(s.Name, r.Observe(s.Name), reset.Plan))
	}
	return out
}

// confirmReset asks once for the whole. Without a terminal there is nobody to
// ask.
func (a *app) confirmReset(p run.Plan) error {
	if p.Changes() == 0 {
		return nil
	}
	if !isTerminal(a.in) || !isTerminal(a.out) {
		return fail.New(fail.Safety, "look at nodeagent reset --dry-run, then run it with --yes", "nothing was changed: reset would make %d change(s), and there is no terminal to ask on", p.Changes())
	}
	a.printPlan(p, nil)
	fmt.Fprint(a.errs, "Go on? Type yes: ")
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return fail.New(fail.Safety, "run it with --yes, or answer yes", "nothing was changed: the reset was not agreed to")
	}
	return nil
}

// printReset is the last screen: what was taken back, and what stays.
func (a *app) printReset(last run.LastRun) {
	fmt.Fprintln(a.out)
	for _, s := range last.Steps {
		if len(s.Changes) > 0 {
			fmt.Fprintf(a.out, "%-10s %3d change(s)  %s\n", s.Name, len(s.Changes), report.Took(s.Took))
		}
	}
	for _, w := range last.Warnings {
		fmt.Fprintf(a.out, "%s\n", w)
	}
	if last.Changes == 0 {
		fmt.Fprintln(a.out, "There is nothing to take back: 0 changes.")
		return
	}
	fmt.Fprintf(a.out, "What nodeagent did is taken back: %d change(s) in %s.\n", last.Changes, report.Took(last.Took))
}
