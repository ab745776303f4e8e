package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/provision/boot"
	"nodeagent/internal/provision/source"
)

// maxBinary bounds the binary that is inlined, in bytes.
const maxBinary = 256 << 20

// renderer is the flags of nodeagent render.
type renderer struct {
	configURL, configSum string
	binaryURL, binarySum string
	binary, binaryPath   string
	secrets              []string
	withSecrets, users   bool
	oldSystemd, mime     bool
	spec, to             string
	net                  boot.Net
}

func (a *app) renderCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Write a configuration as what boots hosts: Ignition, cloud-init, iPXE, kickstart, a script",
		Long: `Write a configuration as what boots hosts. Runs anywhere; nothing is changed here, and
nothing is fetched but a --config that is a URL.

Without --binary-url the running nodeagent goes along, compressed. With --config-url the
host fetches its configuration at every boot, and only URL and digest go along.

Secrets go along only with --with-secrets; what the host needs besides is said on stderr.`,
		Example: `  nodeagent render ignition --config worker.yaml > worker.ign
  nodeagent render cloud-init --config worker.yaml --binary-url http://boot.example/nodeagent --binary-sha256 …
  nodeagent render ipxe --config fleet.yaml --config-url http://boot.example/fleet.yaml --kernel http://boot.example/vmlinuz
  nodeagent render script --config worker.yaml --with-secrets --secret /etc/nodeagent/join-command=./join-command | ssh root@host sh -s`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	r := &renderer{}
	for _, c := range []struct {
		name, short string
		flags       func(*cobra.Command)
		make        func(boot.Options) ([]byte, error)
	}{
		{"ignition", "An Ignition config", func(c *cobra.Command) {
			c.Flags().StringVar(&r.spec, "spec", boot.DefaultSpec, "version of Ignition's specification: "+strings.Join(boot.Specs(), ", "))
			r.userFlag(c)
		}, func(o boot.Options) ([]byte, error) { return boot.Ignition(o, r.spec) }},
		{"cloud-init", "User-data for cloud-init", func(c *cobra.Command) {
			c.Flags().BoolVar(&r.mime, "mime", false, "as a multipart message")
			r.userFlag(c)
		}, func(o boot.Options) ([]byte, error) { return boot.CloudInit(o, r.mime) }},
		{"kickstart", "A %post section for an installer of Enterprise Linux", nil, boot.Kickstart},
		{"script", "A shell script for ssh root@host sh -s", nil, boot.Script},
		{"ipxe", "An iPXE script", func(c *cobra.Command) {
			c.Flags().StringVar(&r.net.Kernel, "kernel", "", "URL of the kernel")
			c.Flags().StringArrayVar(&r.net.Initrds, "initrd", nil, "URL of an initrd; repeatable")
			c.Flags().StringArrayVar(&r.net.Arguments, "append", nil, "further arguments for the kernel; repeatable")
		}, nil},
	} {
		sub := &cobra.Command{Use: c.name, Short: c.short, Args: exactly(cobra.NoArgs)}
		f := sub.Flags()
		f.StringArrayVar(&a.configs, "config", nil, "configuration: a file, a URL, or - for standard input; repeatable (default "+defaultConfig+")")
		f.StringVar(&r.configURL, "config-url", "", "the host fetches the configuration from this URL")
		f.StringVar(&r.configSum, "config-sha256", "", "its digest (default: that of --config)")
		f.StringVar(&r.to, "to", "", "write to this file, mode 0600, instead of standard output")
		if c.name != "ipxe" {
			f.StringVar(&r.binaryURL, "binary-url", "", "the host fetches the binary from this URL instead")
			f.StringVar(&r.binarySum, "binary-sha256", "", "digest of the binary there")
			f.StringVar(&r.binary, "binary", "", "the binary that goes along (default: the running one)")
			f.StringVar(&r.binaryPath, "binary-path", boot.DefaultBinary, "where the binary is put on the host")
			f.BoolVar(&r.withSecrets, "with-secrets", false, "secrets of the configuration go along")
			f.StringArrayVar(&r.secrets, "secret", nil, "PATH=FILE: this file goes along and is put at PATH, mode 0600; needs --with-secrets; repeatable")
			f.BoolVar(&r.oldSystemd, "old-systemd", false, "the host's systemd is older than 244 (Enterprise Linux 8)")
		}
		if c.flags != nil {
			c.flags(sub)
		}
		sub.RunE = func(cmd *cobra.Command, _ []string) error { return a.render(cmd, r, c.make) }
		cmd.AddCommand(sub)
	}
	return cmd
}

func (r *renderer) userFlag(c *cobra.Command) {
	c.Flags().BoolVar(&r.users, "users", false, "users of the configuration in the artefact's own words, so that they are there before nodeagent runs")
}

// render makes one artefact; ipxe is the one without a function of Options.
func (a *app) render(cmd *cobra.Command, r *renderer, artefact func(boot.Options) ([]byte, error)) error {
	o := boot.Options{Source: source.Source{URL: r.configURL, SHA256: r.configSum}, BinaryPath: r.binaryPath, OldSystemd: r.oldSystemd}
	if r.configSum != "" && r.configURL == "" {
		return fail.New(fail.Usage, "the digest of a --config is computed", "--config-sha256 goes with --config-url")
	}
	var all []config.Loaded
	if r.configURL == "" || len(a.configs) > 0 {
		var err error
		if o.Config, all, err = a.documents(cmd, r); err != nil {
			return err
		}
	}
	for _, l := range all {
		for _, m := range l.Spec.NeededFiles() {
			if !slices.Contains(o.Missing, m) {
				o.Missing = append(o.Missing, m)
			}
		}
		for _, w := range l.Warnings {
			a.say("warning: " + w)
		}
	}
	if r.configURL != "" {
		if o.Config != nil && o.Source.SHA256 == "" {
			o.Source.SHA256 = source.Digest(o.Config)
		} else if err := o.Source.Verify(o.Config); o.Config != nil && err != nil {
			return err
		}
		o.Config = nil
	}
	var err error
	if err = r.putSecrets(&o); err != nil {
		return err
	}
	if r.users {
		if o.Users, err = usersOf(all); err != nil {
			return err
		}
	}
	var out []byte
	if artefact == nil {
		if o.Source.URL == "" {
			return fail.New(fail.Usage, "where the file will be served: --config-url URL", "an iPXE script carries no configuration, only its URL")
		}
		out, err = boot.IPXE(o.Source, r.net, o.Missing)
	} else {
		if err := r.putBinary(&o, a.say); err != nil {
			return err
		}
		if o.BinarySource.URL != "" {
			if o.Proxy, err = proxyOf(all); err != nil {
				return err
			}
		}
		out, err = artefact(o)
	}
	if err != nil {
		return err
	}
	for _, m := range o.Missing {
		a.say("not in it: " + m + " must be put on the host by other means")
	}
	return a.write(out, r.to)
}

func (a *app) say(text string) { fmt.Fprintln(a.errs, text) }

// documents reads --config for all hosts it is for. Several files become one,
// which must mean the same.
func (a *app) documents(cmd *cobra.Command, r *renderer) ([]byte, []config.Loaded, error) {
	from := origin{names: a.configs}
	if len(a.configs) == 0 {
		from.names = []string{defaultConfig}
	}
	sources, err := a.read(cmd.Context(), host.New(), from)
	if err != nil {
		return nil, nil, err
	}
	all, err := config.LoadAll(sources)
	if err != nil {
		return nil, nil, err
	}
	data := sources[0].Data
	if len(sources) > 1 {
		if r.configURL != "" {
			return nil, nil, fail.New(fail.Usage, "put the documents into one file, separated by ---", "one URL serves one file, and --config names %d", len(sources))
		}
		var parts [][]byte
		for _, s := range sources {
			parts = append(parts, append(bytes.TrimRight(s.Data, "\n"), '\n'))
		}
		data = bytes.Join(parts, []byte("---\n"))
		again, err := config.LoadAll([]config.Source{{Name: "the documents together", Data: data}})
		if err != nil {
			return nil, nil, err
		}
		if !slices.EqualFunc(all, again, func(x, y config.Loaded) bool { return reflect.DeepEqual(x.NodeConfig, y.NodeConfig) }) {
			return nil, nil, fail.New(fail.Usage, "put the documents into one file, separated by ---", "the files given by --config mean something else when they are one file")
		}
	}
	var secrets []string
	for _, l := range all {
		for _, s := range l.Spec.Secrets() {
			if !slices.Contains(secrets, s) {
				secrets = append(secrets, s)
			}
		}
	}
	what := strings.Join(secrets, ", ")
	switch {
	case len(secrets) == 0:
	case r.configURL != "":
		a.say("warning: the configuration holds " + what + ": whoever can read " + r.configURL + " has it")
	case !r.withSecrets:
		return nil, nil, fail.New(fail.Usage, "name a file instead (join.token.file), which is put on the host by other means; or let secrets go along: --with-secrets",
			"the configuration holds %s, and secrets go into an artefact only when asked", what)
	default:
		a.say("warning: what is rendered holds " + what + ": keep it from others")
	}
	return data, all, nil
}

// putSecrets reads the files of --secret.
func (r *renderer) putSecrets(o *boot.Options) error {
	if len(r.secrets) > 0 && !r.withSecrets {
		return fail.New(fail.Usage, "add --with-secrets", "secrets go into an artefact only when asked")
	}
	for _, s := range r.secrets {
		path, file, ok := strings.Cut(s, "=")
		if !ok || file == "" {
			return fail.New(fail.Usage, "--secret /etc/nodeagent/join-command=./join-command", "%q is not PATH=FILE", s)
		}
		data, err := readLimited(file, config.MaxSize)
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return fail.New(fail.Usage, "", "the secret %s is empty", file)
		}
		o.Secrets = append(o.Secrets, boot.File{Path: path, Content: data, Mode: 0o600})
		o.Missing = slices.DeleteFunc(o.Missing, func(m string) bool { return m == path })
	}
	return nil
}

// putBinary chooses where the host gets the binary.
func (r *renderer) putBinary(o *boot.Options, say func(string)) error {
	if r.binaryURL != "" {
		if r.binary != "" {
			return fail.New(fail.Usage, "one of both", "--binary and --binary-url are given")
		}
		o.BinarySource = source.Source{URL: r.binaryURL, SHA256: r.binarySum}
		return nil
	}
	if r.binarySum != "" {
		return fail.New(fail.Usage, "the binary that goes along needs none", "--binary-sha256 goes with --binary-url")
	}
	name := r.binary
	if name == "" {
		var err error
		if name, err = os.Executable(); err != nil {
			return fail.Wrap(fail.Step, err, "name it: --binary FILE", "the running nodeagent can't be found")
		}
	}
	data, err := readLimited(name, maxBinary)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(data, []byte("\x7fELF")) {
		return fail.New(fail.Usage, "name nodeagent for Linux: --binary FILE", "%s is no program for Linux", name)
	}
	o.Binary = data
	say(fmt.Sprintf("the binary goes along: %s, %s as it is; --binary-url keeps the artefact small", filepath.Base(name), change.Size(int64(len(data)))))
	return nil
}

// proxyOf is the proxy through which the hosts of a configuration fetch the
// binary.
func proxyOf(all []config.Loaded) ([]string, error) {
	if len(all) == 0 {
		return nil, nil // the configuration is fetched later than the binary
	}
	for _, l := range all[1:] {
		if !reflect.DeepEqual(l.Spec.Proxy, all[0].Spec.Proxy) {
			return nil, fail.New(fail.Usage, "let the binary go along (no --binary-url), or render the documents apart", "the documents have different proxies for different hosts, and the binary would be fetched in one way for all")
		}
	}
	s := all[0].Spec
	s.Hostname = "" // another one for each host, and the binary is on none of them
	return s.ProxyVariables(""), nil
}

// usersOf are the users of the one configuration, or of all of a fleet when
// they are the same.
func usersOf(all []config.Loaded) ([]config.User, error) {
	if len(all) == 0 {
		return nil, fail.New(fail.Usage, "name the configuration too: --config", "--users needs the configuration")
	}
	for _, l := range all[1:] {
		if !reflect.DeepEqual(l.Spec.Users, all[0].Spec.Users) {
			return nil, fail.New(fail.Usage, "leave --users out: nodeagent makes them on the host", "the documents have different users for different hosts, and the artefact is one for all")
		}
	}
	return all[0].Spec.Users, nil
}

// readLimited reads a file of at most limit bytes.
func readLimited(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fail.Wrap(fail.Usage, err, "", "%s can't be read", name)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fail.Wrap(fail.Usage, err, "", "%s can't be read", name)
	}
	if int64(len(data)) > limit {
		return nil, fail.New(fail.Usage, "", "%s is larger than %s", name, change.Size(limit))
	}
	return data, nil
}

// write puts the artefact on standard output, or into a file that nobody else
// can read.
func (a *app) write(data []byte, to string) error {
	a.say(fmt.Sprintf("the artefact is %s", change.Size(int64(len(data)))))
	if to == "" {
		_, err := a.out.Write(data)
		return err
	}
	return writeFile(data, to)
}

// writeFile writes a file that nobody else can read, whole or not at all.
func writeFile(data []byte, to string) error {
	f, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*") // mode 0600
	if err != nil {
		return fail.Wrap(fail.Usage, err, "", "%s can't be written", to)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fail.Wrap(fail.Usage, errors.Join(err, os.Remove(f.Name())), "", "%s can't be written", to)
	}
	return nil
}
