package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/kubelet/nodename"
	"nodeagent/internal/provision/manifest"
)

// errLeftOut is the exit code 3 of convert --keep-going: something of the
// manifests isn't in what was written.
var errLeftOut = fmt.Errorf("%w: something was left out", errPending)

// conversion is the flags of nodeagent convert.
type conversion struct {
	manifest.Options
	dir       string
	keepGoing bool
	replace   bool
	check     bool
}

func (a *app) convertCommand() *cobra.Command {
	v := &conversion{}
	cmd := &cobra.Command{
		Use:   "convert FILE…",
		Short: "Turn manifests of Cluster API, a kubeadm join command or Ansible variables into NodeConfigs",
		Long: `Turn the documents that users have into NodeConfigs, one for every machine of a pool, or one
for any host when no pool is among them. Runs anywhere; nothing is fetched and no host is touched.

Read are KubeadmConfig, KubeadmConfigTemplate, MachineDeployment, JoinConfiguration, the pools and
machine templates of the DCS and vSphere providers, the text of a kubeadm join command, and the
variables of an Ansible role. Give the documents that belong together in one call, in any mix.

What can't be carried is an error at its place, and nothing is written; --keep-going writes the
rest. Secrets go along only with --with-secrets.

Exit codes: 0 everything was carried · 2 something can't be · 3 written without it (--keep-going)`,
		Example: `  nodeagent convert template.yaml pool.yaml machines.yaml deployment.yaml --output nodes/
  kubeadm token create --print-join-command | nodeagent convert - --kubernetes-version v1.35.4
  nodeagent convert --check *.yaml`,
		Args: exactly(cobra.MinimumNArgs(1)),
	}
	f := cmd.Flags()
	f.StringVar(&v.dir, "output", "", "write one file for every machine into this directory, mode 0600, instead of standard output")
	f.BoolVar(&v.replace, "replace", false, "replace files in the directory that differ; each is named")
	f.BoolVar(&v.keepGoing, "keep-going", false, "write what can be carried, list what can't, and exit with 3")
	f.BoolVar(&v.WithSecrets, "with-secrets", false, "tokens, password hashes and the content of secret files go along")
	f.StringVar(&v.Version, "kubernetes-version", "", "the release, where no document names it (or instead of theirs), such as v1.35.4")
	f.BoolVar(&v.SCSIOrder, "scsi-order", false, "take the order of a slot's disks for their SCSI units, where nothing says them")
	f.StringArrayVar(&v.Interfaces, "interface", nil, "the hosts' name of a network interface, first to last; repeatable (default eth0, eth1 …)")
	f.BoolVar(&v.check, "check", false, "only tell what the providers' admission and rollouts would stumble over")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.convert(v, args) }
	return cmd
}

func (a *app) convert(v *conversion, files []string) error {
	inputs, err := a.inputs(files)
	if err != nil {
		return err
	}
	if v.check {
		return a.checkManifests(inputs)
	}
	r := manifest.Convert(inputs, v.Options)
	for _, n := range r.Notes {
		a.note(n)
	}
	if len(r.Problems) > 0 && !v.keepGoing {
		return fail.Wrap(fail.Usage, r.Problems, "", "%s", carried(r.Problems))
	}
	if len(r.Machines) == 0 {
		if len(r.Problems) == 0 {
			return fail.New(fail.Usage, "add the pool's entries", "the documents describe no machine")
		}
		return fail.Wrap(fail.Usage, r.Problems, "", "nothing can be carried")
	}
	if v.dir != "" {
		err = a.writeMachines(v, r.Machines)
	} else {
		_, err = a.out.Write(manifest.Join(r.Machines))
	}
	if err != nil || len(r.Problems) == 0 {
		return err
	}
	for _, p := range r.Problems {
		fmt.Fprintf(a.errs, "left out: %s\n", p)
	}
	return errLeftOut
}

func carried(p config.Problems) string {
	if len(p) == 1 {
		return "something can't be carried"
	}
	return fmt.Sprintf("%d things can't be carried", len(p))
}

// inputs reads the files; - is standard input.
func (a *app) inputs(files []string) (out []manifest.Input, err error) {
	for _, name := range files {
		in := manifest.Input{Name: name}
		if name == "-" {
			in.Name = "standard input"
			if in.Data, err = io.ReadAll(io.LimitReader(a.in, config.MaxSize+1)); err != nil {
				return nil, fail.Wrap(fail.Usage, err, "", "standard input can't be read")
			}
		} else if in.Data, err = readLimited(name, config.MaxSize); err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// checkManifests tells what is wrong with manifests before anyone applies them.
func (a *app) checkManifests(inputs []manifest.Input) error {
	problems, notes := manifest.Check(inputs)
	for _, n := range notes {
		a.note(n)
	}
	if len(problems) > 0 {
		return fail.Wrap(fail.Usage, problems, "", "the manifests break the rules of their providers")
	}
	fmt.Fprintln(a.out, "the manifests keep the rules of their providers")
	return nil
}

// writeMachines writes a file for each machine. All are looked at before the
// first is written.
func (a *app) writeMachines(v *conversion, machines []manifest.Machine) error {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return fail.Wrap(fail.Usage, err, "", "%s can't be made", v.dir)
	}
	names := make([]string, len(machines))
	differ := map[string]bool{}
	for i, m := range machines {
		base := m.Name
		if !nodename.Valid(base) { // any host, or a name that --keep-going left out
			base = "nodeconfig"
			if i > 0 {
				base += fmt.Sprintf("-%d", i+1)
			}
		}
		names[i] = filepath.Join(v.dir, base+".yaml")
		was, err := os.ReadFile(names[i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fail.Wrap(fail.Usage, err, "", "%s can't be read", names[i])
		case bytes.Equal(was, m.YAML):
		case !v.replace:
			return fail.New(fail.Usage, "compare them, and add --replace if it may go", "%s is there and differs; nothing was written", names[i])
		default:
			differ[names[i]] = true
		}
	}
	for i, m := range machines {
		if err := writeFile(m.YAML, names[i]); err != nil {
			return err
		}
		if differ[names[i]] {
			a.note(names[i] + " was replaced")
		}
	}
	a.say(fmt.Sprintf("%d file(s) in %s", len(machines), v.dir))
	return nil
}
