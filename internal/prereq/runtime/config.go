package runtime

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// settings are what nodeagent wants of containerd's configuration; all else in
// the file is somebody else's.
type settings struct {
	socket       string // path
	sandboxImage string // empty: as it is
	mirrors      bool   // hosts.toml files are used
}

// The plugins that hold the settings. Schema 2 (containerd 1.x, also read by
// 2.x) has one for all; schema 3 (2.x) has two.
const (
	criV2     = "io.containerd.grpc.v1.cri"
	imagesV3  = "io.containerd.cri.v1.images"
	runtimeV3 = "io.containerd.cri.v1.runtime"
	runcType  = "io.containerd.runc.v2"
)

const (
	defaultSocket   = "/run/containerd/containerd.sock"
	defaultHostsDir = "/etc/containerd/certs.d"
)

// header is the first line of a file that was written by edit.
const header = "# Edited by nodeagent as data: every setting is kept, comments are not.\n"

// tree is a TOML table.
type tree = map[string]any

// edit returns the configuration with the settings in it, and whether
// anything had to be changed. schema is that of a file that says none and holds
// nothing in a schema of its own.
func edit(text string, s settings, schema int64) (string, bool, error) {
	before, err := parse(text)
	if err != nil {
		return "", false, err
	}
	after, err := parse(text)
	if err != nil {
		return "", false, err
	}
	if err := apply(after, s, schema); err != nil {
		return "", false, err
	}
	if reflect.DeepEqual(before, after) {
		return text, false, nil
	}
	var b bytes.Buffer
	b.WriteString(header)
	enc := toml.NewEncoder(&b)
	enc.SetIndentTables(true)
	if err := enc.Encode(after); err != nil {
		return "", false, err
	}
	return b.String(), true, nil
}

func parse(text string) (tree, error) {
	t := tree{}
	if err := toml.Unmarshal([]byte(text), &t); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	return t, nil
}

func apply(t tree, s settings, schema int64) error {
	version, err := migrate(t, schema)
	if err != nil {
		return err
	}
	enable(t)
	images, runtimes := []string{"plugins", criV2}, []string{"plugins", criV2, "containerd", "runtimes"}
	sandbox := []string{"plugins", criV2, "sandbox_image"}
	if version >= 3 {
		images, runtimes = []string{"plugins", imagesV3}, []string{"plugins", runtimeV3, "containerd", "runtimes"}
		sandbox = []string{"plugins", imagesV3, "pinned_images", "sandbox"}
	}
	if err := systemdCgroup(t, runtimes); err != nil {
		return err
	}
	if s.sandboxImage != "" {
		if err := set(t, s.sandboxImage, sandbox...); err != nil {
			return err
		}
	}
	if s.mirrors {
		if err := useHostsFiles(t, append(images, "registry")); err != nil {
			return err
		}
	}
	address, _ := get(t, "grpc", "address").(string)
	if address == "" {
		address = defaultSocket
	}
	if s.socket != "" && sameSocket(address) != sameSocket(s.socket) {
		return set(t, s.socket, "grpc", "address")
	}
	return nil
}

// sameSocket makes the two names of /run one.
func sameSocket(path string) string {
	return strings.TrimPrefix(strings.Replace(path, "/var/run/", "/run/", 1), "unix://")
}

// versionOne are the short plugin names of schema 1 and what they are since.
var versionOne = map[string]string{
	"cri": criV2, "cgroups": "io.containerd.monitor.v1.cgroups", "linux": "io.containerd.runtime.v1.linux",
	"scheduler": "io.containerd.gc.v1.scheduler", "bolt": "io.containerd.metadata.v1.bolt", "task": "io.containerd.runtime.v2.task",
	"opt": "io.containerd.internal.v1.opt", "restart": "io.containerd.internal.v1.restart", "tracing": "io.containerd.internal.v1.tracing",
	"otlp": "io.containerd.tracing.processor.v1.otlp", "aufs": "io.containerd.snapshotter.v1.aufs", "btrfs": "io.containerd.snapshotter.v1.btrfs",
	"devmapper": "io.containerd.snapshotter.v1.devmapper", "native": "io.containerd.snapshotter.v1.native",
	"overlayfs": "io.containerd.snapshotter.v1.overlayfs", "zfs": "io.containerd.snapshotter.v1.zfs",
}

// migrate returns the file's schema. Schema 1, which a file without a version
// has, is rewritten: containerd 2 reads it only in part. A file that holds
// nothing of plugins takes the daemon's schema, another one schema 2, which
// keeps its plugins' settings where they are and which all daemons read.
func migrate(t tree, schema int64) (int64, error) {
	version, ok := t["version"].(int64)
	if raw, there := t["version"]; there && !ok {
		return 0, fmt.Errorf("its version is %v", raw)
	}
	if version >= 2 {
		return version, nil
	}
	plugins, _ := t["plugins"].(tree)
	if len(plugins) > 0 {
		schema = 2
	}
	renamed := tree{}
	for name, value := range plugins {
		full, err := fullName(name)
		if err != nil {
			return 0, err
		}
		renamed[full] = value
	}
	if len(renamed) > 0 {
		t["plugins"] = renamed
	}
	for _, key := range []string{"disabled_plugins", "required_plugins"} {
		list, _ := t[key].([]any)
		for i, item := range list {
			name, _ := item.(string)
			full, err := fullName(name)
			if err != nil {
				return 0, err
			}
			list[i] = full
		}
	}
	t["version"] = schema
	return schema, nil
}

func fullName(name string) (string, error) {
	if strings.Contains(name, ".") {
		return name, nil
	}
	if full, ok := versionOne[name]; ok {
		return full, nil
	}
	return "", fmt.Errorf("it is of schema 1 and names a plugin %q that has no known name in later ones", name)
}

// enable takes CRI out of disabled_plugins and keeps the others (case K1).
func enable(t tree) {
	list, ok := t["disabled_plugins"].([]any)
	if !ok {
		return
	}
	keep := []any{}
	for _, item := range list {
		if s, _ := item.(string); !slices.Contains([]string{"cri", criV2, imagesV3, runtimeV3}, s) {
			keep = append(keep, item)
		}
	}
	t["disabled_plugins"] = keep
}

// systemdCgroup lets systemd manage the cgroups of every runtime that is runc
// or a relative of it, as the kubelet does on hosts with systemd.
func systemdCgroup(t tree, runtimes []string) error {
	all, err := table(t, runtimes...)
	if err != nil {
		return err
	}
	if _, ok := all["runc"]; !ok {
		all["runc"] = tree{}
	}
	for name, value := range all {
		r, ok := value.(tree)
		if !ok {
			return fmt.Errorf("runtime %s in it is no table", name)
		}
		kind, _ := r["runtime_type"].(string)
		if name == "runc" && kind == "" {
			// A table of its own replaces the built-in one, the type included.
			kind = runcType
			r["runtime_type"] = kind
		}
		if kind != runcType {
			continue
		}
		if err := set(r, true, "options", "SystemdCgroup"); err != nil {
			return err
		}
	}
	return nil
}

// useHostsFiles sets config_path. The mirrors of older configurations can't
// stand beside it: containerd refuses both.
func useHostsFiles(t tree, registry []string) error {
	r, err := table(t, registry...)
	if err != nil {
		return err
	}
	if m, _ := r["mirrors"].(tree); len(m) > 0 {
		return fmt.Errorf("it has %d registry mirrors in the old form (registry.mirrors), which containerd refuses beside hosts.toml files", len(m))
	}
	if p, _ := r["config_path"].(string); p == "" {
		r["config_path"] = defaultHostsDir
	}
	return nil
}

// hostsDir is the directory of hosts.toml files that a configuration uses: the
// first of config_path.
func hostsDir(text string) string {
	t, err := parse(text)
	if err != nil {
		return defaultHostsDir
	}
	for _, plugin := range []string{imagesV3, criV2, "cri"} {
		if p, _ := get(t, "plugins", plugin, "registry", "config_path").(string); p != "" {
			first, _, _ := strings.Cut(p, ":")
			return strings.TrimSuffix(first, "/")
		}
	}
	return defaultHostsDir
}

// fresh is the configuration for a host that has none. Drop-ins of others are
// read, as containerd 2.2 does by default.
func fresh(schema int64) string {
	if schema >= 3 {
		return "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n"
	}
	return fmt.Sprintf("version = %d\n", schema)
}

// get returns a value deep in a tree, nil when a part of the way is missing.
func get(t tree, keys ...string) any {
	var at any = t
	for _, k := range keys {
		m, ok := at.(tree)
		if !ok {
			return nil
		}
		at = m[k]
	}
	return at
}

// table returns a table deep in a tree and makes what is missing on the way.
func table(t tree, keys ...string) (tree, error) {
	for i, k := range keys {
		next, there := t[k]
		if !there {
			next = tree{}
			t[k] = next
		}
		m, ok := next.(tree)
		if !ok {
			return nil, fmt.Errorf("%s in it is no table", strings.Join(keys[:i+1], "."))
		}
		t = m
	}
	return t, nil
}

func set(t tree, value any, keys ...string) error {
	last := len(keys) - 1
	m, err := table(t, keys[:last]...)
	if err != nil {
		return err
	}
	m[keys[last]] = value
	return nil
}
