package main

import (
	"github.com/spf13/cobra"

	"nodeagent/internal/run"
)

func (a *app) factsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "Print what is observed, as JSON",
		Long: `Print what each step observes, as JSON: a fixture for plan --facts and an
attachment for a bug report. It holds no token and no content of secret files.`,
		Example: "  nodeagent facts > facts.json\n  nodeagent plan --facts facts.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := a.host()
			c, err := a.load(cmd.Context(), h, true)
			if err != nil {
				return err
			}
			steps, err := a.steps()
			if err != nil {
				return err
			}
			return a.json(run.Observe(cmd.Context(), h, c.Spec, steps))
		},
	}
	a.hostFlags(cmd)
	return cmd
}
