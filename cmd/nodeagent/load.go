package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/provision/source"
	"nodeagent/internal/run"
)

const defaultConfig = "/etc/nodeagent/config.yaml"

// patience is how long up waits for a configuration that is fetched: a first
// boot may be ahead of its network, its clock and its servers.
const patience = 10 * time.Minute

// origin is where the configuration comes from.
type origin struct {
	names  []string
	pin    string // digest of the one name
	kernel bool   // named by the kernel's command line
	second bool   // the kernel's command line names one, too, which isn't used
}

// String names it for people.
func (o origin) String() string {
	s := strings.Join(o.names, ", ")
	if o.kernel {
		s += " (from the kernel's command line)"
	}
	return s
}

// origin is what --config names, else the default file, else what the kernel's
// command line names; none of them: no names.
func (a *app) origin(v host.View) (origin, error) {
	if a.pin != "" && len(a.configs) != 1 {
		return origin{}, fail.New(fail.Usage, "give exactly one --config", "--config-sha256 is the digest of one configuration")
	}
	if err := source.CheckDigest(a.pin); err != nil {
		return origin{}, err
	}
	if len(a.configs) > 0 {
		return origin{names: a.configs, pin: a.pin}, nil
	}
	info, err := v.Stat(defaultConfig)
	if err != nil {
		return origin{}, fail.Wrap(fail.Usage, err, "", "%s can't be read", defaultConfig)
	}
	cmdline, err := v.ReadFile("/proc/cmdline")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return origin{}, fail.Wrap(fail.Step, err, "", "the kernel's command line can't be read")
	}
	s, ok, err := source.FromCmdline(string(cmdline))
	switch {
	case info.Exists:
		return origin{names: []string{defaultConfig}, second: ok || err != nil}, nil
	case err != nil || !ok:
		return origin{}, err
	}
	return origin{names: []string{s.URL}, pin: s.SHA256, kernel: true}, nil
}

// note tells what isn't a result and isn't wrong.
func (a *app) note(text string) {
	if a.tell != nil {
		a.tell(text)
		return
	}
	fmt.Fprintln(a.errs, "note:", text)
}

// load reads the configuration for this host. Without one, fallback decides:
// plan goes on with defaults, up refuses.
func (a *app) load(ctx context.Context, v host.View, fallback bool) (config.Loaded, error) {
	from, err := a.origin(v)
	if err != nil {
		return config.Loaded{}, err
	}
	if len(from.names) == 0 {
		if !fallback {
			return config.Loaded{}, fail.New(fail.Usage, "nodeagent config example > "+defaultConfig+", or name one with --config or on the kernel's command line", "there is no %s", defaultConfig)
		}
		c := config.Default()
		return config.Loaded{NodeConfig: c, Warnings: []string{fmt.Sprintf("%s doesn't exist: this is the plan for Kubernetes %s with every default; start your own with: nodeagent config example", defaultConfig, c.Spec.Kubernetes.Version)}}, nil
	}
	switch {
	case from.kernel:
		a.note("the configuration is " + from.String())
	case from.second:
		a.note(defaultConfig + " is used; the kernel's command line names a configuration, too, which is not")
	}
	sources, err := a.read(ctx, v, from)
	if err != nil {
		return config.Loaded{}, err
	}
	c, err := config.Load(sources, whoIs(v))
	if err != nil && a.patience > 0 && from.pin == "" && slices.ContainsFunc(from.names, source.Remote) {
		// Not the usage error that nodeagent.service doesn't try again: what isn't
		// pinned can be mended where it is, and a new host be added to its fleet.
		return c, fail.Wrap(fail.Step, err, "mend it there", "the configuration %s can't be used", from)
	}
	if err != nil {
		return c, err
	}
	if l, ok := v.(*host.Linux); ok && l.Live() {
		if err := l.UseProxy(c.Spec.ProxyVariables(whoIs(v).Hostname)); err != nil {
			return c, fail.Wrap(fail.Step, err, "", "the proxy can't be set")
		}
	}
	if what := c.Spec.Secret(); what != "" {
		for _, name := range from.names {
			if info, err := v.Stat(name); err == nil && info.Exists && info.Mode&0o077 != 0 {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s holds %s and others can read it (mode %s): chmod 600 it", name, what, host.Octal(info.Mode)))
			}
		}
	}
	return c, nil
}

// loadRecorded is load for up: a configuration that nobody has just typed is
// awaited, and what is wrong with it is left for status.
func (a *app) loadRecorded(ctx context.Context, h host.Host, opts run.Options) (c config.Loaded, err error) {
	if len(a.configs) > 0 && !slices.ContainsFunc(a.configs, source.Remote) {
		return a.load(ctx, h, false)
	}
	what := "reading the configuration"
	if from, err := a.origin(h); err == nil && len(from.names) > 0 {
		what += " " + from.String()
	}
	err = run.Prepare(h, opts, what, func() error {
		c, err = a.load(ctx, h, false)
		return err
	})
	return c, err
}

func whoIs(v host.View) config.Identity {
	sys, err := v.System()
	if err != nil {
		return config.Identity{}
	}
	who := config.Identity{Serial: sys.Serial, UUID: sys.UUID, Hostname: sys.Hostname}
	if net, err := v.Network(); err == nil {
		who.MACs = net.MACs
	}
	return who
}

// read returns what every name of an origin holds.
func (a *app) read(ctx context.Context, v host.View, from origin) (out []config.Source, err error) {
	for _, name := range from.names {
		data, err := a.readOne(ctx, v, name, from.pin)
		if err != nil {
			return nil, err
		}
		if err := (source.Source{URL: name, SHA256: from.pin}).Verify(data); err != nil {
			return nil, err
		}
		out = append(out, config.Source{Name: name, Data: data})
	}
	return out, nil
}

func (a *app) readOne(ctx context.Context, v host.View, name, pin string) ([]byte, error) {
	l, linux := v.(*host.Linux)
	switch {
	case name == "-":
		b, err := io.ReadAll(io.LimitReader(a.in, config.MaxSize+1))
		if err != nil {
			return nil, fail.Wrap(fail.Usage, err, "", "the configuration can't be read from standard input")
		}
		return b, nil
	case source.Remote(name):
		if err := (source.Source{URL: name, SHA256: pin}).Check(); err != nil {
			return nil, err
		}
		return host.New().Document(ctx, name, config.MaxSize, a.patience, a.note)
	case name == defaultConfig && len(a.configs) == 0 && (!linux || !l.Live()): // below --root
		b, err := v.ReadFile(name)
		if err != nil {
			return nil, fail.Wrap(fail.Usage, err, "", "configuration %s can't be read", name)
		}
		return b, nil
	}
	// Relative to where the user stands, whatever --root says.
	f, err := os.Open(name)
	if err != nil {
		return nil, fail.Wrap(fail.Usage, err, "name another with --config", "configuration %s can't be read", name)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
	if err != nil {
		return nil, fail.Wrap(fail.Usage, err, "", "configuration %s can't be read", name)
	}
	return b, nil
}
