package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

const defaultConfig = "/etc/nodeagent/config.yaml"

// load reads the configuration for this host. Without --config and without the
// default file, fallback decides: plan goes on with defaults, up refuses.
func (a *app) load(ctx context.Context, v host.View, fallback bool) (config.Loaded, error) {
	names := a.configs
	if len(names) == 0 {
		info, err := v.Stat(defaultConfig)
		switch {
		case err != nil:
			return config.Loaded{}, fail.Wrap(fail.Usage, err, "", "%s can't be read", defaultConfig)
		case info.Exists:
			names = []string{defaultConfig}
		case fallback:
			c := config.Default()
			return config.Loaded{NodeConfig: c, Warnings: []string{fmt.Sprintf("%s doesn't exist: this is the plan for Kubernetes %s with every default; start your own with: nodeagent config example", defaultConfig, c.Spec.Kubernetes.Version)}}, nil
		default:
			return config.Loaded{}, fail.New(fail.Usage, "nodeagent config example > "+defaultConfig+", or name one with --config", "there is no %s", defaultConfig)
		}
	}
	var sources []config.Source
	for _, name := range names {
		data, err := a.read(ctx, v, name)
		if err != nil {
			return config.Loaded{}, err
		}
		sources = append(sources, config.Source{Name: name, Data: data})
	}
	c, err := config.Load(sources, whoIs(v))
	if err != nil {
		return c, err
	}
	if what := c.Spec.Secret(); what != "" {
		for _, name := range names {
			if info, err := v.Stat(name); err == nil && info.Exists && info.Mode&0o077 != 0 {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s holds %s and others can read it (mode %s): chmod 600 it", name, what, host.Octal(info.Mode)))
			}
		}
	}
	return c, nil
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

func (a *app) read(ctx context.Context, v host.View, name string) ([]byte, error) {
	limited := func(r io.Reader) ([]byte, error) {
		b, err := io.ReadAll(io.LimitReader(r, config.MaxSize+1))
		if err != nil {
			return nil, fail.Wrap(fail.Usage, err, "", "configuration %s can't be read", name)
		}
		return b, nil
	}
	switch {
	case name == "-":
		return limited(a.in)
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
		if err != nil {
			return nil, fail.Wrap(fail.Usage, err, "", "configuration %s can't be fetched", name)
		}
		client := &http.Client{Timeout: 30 * time.Second}
		resp, err := client.Do(req)
		if err != nil {
			return nil, fail.Wrap(fail.Step, err, "does the host reach it? try: curl -fsS "+name, "configuration %s can't be fetched", name)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fail.New(fail.Step, "try: curl -fsS "+name, "configuration %s can't be fetched: the server answered %s", name, resp.Status)
		}
		return limited(resp.Body)
	}
	// Relative to where the user stands, whatever --root says.
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && len(a.configs) == 0 {
		b, err := v.ReadFile(name)
		if err != nil {
			return nil, fail.Wrap(fail.Usage, err, "", "configuration %s can't be read", name)
		}
		return b, nil
	}
	if err != nil {
		return nil, fail.Wrap(fail.Usage, err, "name another with --config", "configuration %s can't be read", name)
	}
	defer f.Close()
	return limited(f)
}
