package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"nodeagent/examples"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check, describe or start a configuration"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
	validate := &cobra.Command{
		Use:   "validate [FILE…]",
		Short: "Check configurations; every error with line and column",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.configs = args
			c, err := a.load(cmd.Context(), host.New(), false)
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(a.errs, "warning:", w)
			}
			fmt.Fprintf(a.out, "valid: %d document(s) for this host, Kubernetes %s\n", c.Documents, c.Spec.Kubernetes.Version)
			return nil
		},
	}
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema",
		RunE: func(*cobra.Command, []string) error {
			b, err := config.Schema()
			fmt.Fprintln(a.out, string(b))
			return err
		},
	}
	var os string
	example := &cobra.Command{
		Use:     "example",
		Short:   "Print a configuration to start from",
		Example: "  nodeagent config example --os rocky9 > /etc/nodeagent/config.yaml\n  nodeagent config example --os photon5",
		RunE: func(*cobra.Command, []string) error {
			b, err := examples.Files.ReadFile(os + ".yaml")
			if errors.Is(err, fs.ErrNotExist) {
				return fail.New(fail.Usage, "one of: "+strings.Join(exampleNames(), ", "), "there is no example for %q", os)
			}
			if err != nil {
				return err
			}
			_, err = a.out.Write(b)
			return err
		},
	}
	example.Flags().StringVar(&os, "os", "minimal", "one of: "+strings.Join(exampleNames(), ", "))
	if err := example.RegisterFlagCompletionFunc("os", cobra.FixedCompletions(exampleNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.AddCommand(validate, schema, example)
	for _, c := range []*cobra.Command{validate, schema, example} {
		c.Args = exactly(c.Args)
	}
	return cmd
}

func exampleNames() []string {
	entries, err := examples.Files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}
