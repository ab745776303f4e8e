package kubelet

import (
	"fmt"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/kubelet/envfile"
	"nodeagent/internal/kubelet/field"
	"nodeagent/internal/kubelet/release"
)

// planner collects one plan.
type planner struct {
	spec    config.Spec
	f       Facts
	p       change.Plan
	want    map[string]any // the patch
	restart bool           // a running kubelet has to read its files again
	pending []change.Change
}

// Plan settles the patch, the flag files and the unit.
func Plan(spec config.Spec, f Facts) change.Plan {
	k := &planner{spec: spec, f: f}
	k.checks()
	k.patchFile()
	k.extraArgs(sysconfigPath, f.Sysconfig)
	k.extraArgs(defaultPath, f.Default)
	if f.Joined {
		k.mend()
	}
	k.unit()
	if len(k.p.Blocked) > 0 {
		k.p.Changes = nil
	}
	return k.p
}

func (k *planner) block(err error) { k.p.Blocked = append(k.p.Blocked, err) }

func (k *planner) warn(format string, a ...any) {
	k.p.Warnings = append(k.p.Warnings, fmt.Sprintf(format, a...))
}

func (k *planner) checks() {
	for _, p := range Check(k.spec) {
		if p.Warning {
			k.warn("%s: %s", p.Path, p.Text)
			continue
		}
		k.block(p.err())
	}
	fields := make([]string, 0, len(k.f.Missing))
	for field := range k.f.Missing {
		fields = append(fields, field)
	}
	sort.Strings(fields)
	for _, field := range fields {
		path := k.f.Missing[field]
		switch {
		case k.brings(path):
		case len(k.spec.Hooks.PreJoin) > 0:
			k.warn("spec.kubelet.config.%s names %s, which does not exist yet; kubelet won't start unless a preJoin hook brings it", field, path)
		default:
			k.block(fail.New(fail.Step, "put the file there (spec.files), or take the field out", "spec.kubelet.config.%s names %s, which does not exist: kubelet would not start", field, path))
		}
	}
	if _, set := k.spec.Kubelet.Config["failSwapOn"]; k.spec.Swap.Mode == "keep" && k.f.Swap && !set {
		k.block(fail.New(fail.Usage, "add spec.kubelet.config.failSwapOn: false, or set swap.mode to disable", "swap is in use and swap.mode is keep, but kubelet doesn't start beside swap unless failSwapOn is false"))
	}
	if k.f.PatchDirLink != "" {
		k.block(fail.New(fail.Safety, "make it a directory", "%s is a symbolic link (to %s), which kubeadm doesn't follow", PatchDirectory, k.f.PatchDirLink))
	}
	for _, n := range k.f.OtherPatches {
		k.warn("%s/%s is applied beside nodeagent's patch and may override it", PatchDirectory, n)
	}
	if k.f.Unit.LoadState == "masked" {
		k.block(fail.New(fail.Step, "systemctl unmask "+unitName, "%s is masked", unitName))
	}
}

// brings tells whether an earlier step writes a file.
func (k *planner) brings(path string) bool {
	for _, f := range k.spec.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}

func (k *planner) patchFile() {
	var current string
	if c, err := readConfig(k.f.Config.Content); err == nil {
		current, _ = c["resolvConf"].(string)
	}
	resolv, warning := chooseResolv(k.f, current)
	if _, own := k.spec.Kubelet.Config["resolvConf"]; warning != "" && !own {
		k.warn("%s", warning)
	}
	k.want = patch(k.spec, resolv)
	content, err := encode(k.want)
	if err != nil {
		k.block(fail.Wrap(fail.Usage, err, "", "spec.kubelet.config can't be written as JSON"))
		return
	}
	if err := foreign(k.f, k.want); err != nil {
		k.block(err)
		return
	}
	if c, ok := k.f.Patch.Write(PatchPath, "0644", "root:root", content, ""); ok {
		k.p.Changes = append(k.p.Changes, c)
	}
	if c, ok := k.f.PatchSum.Write(patchSum, "0644", "root:root", sum(content), "remember which kubelet patch is nodeagent's"); ok {
		k.p.Changes = append(k.p.Changes, c)
	}
}

// extraArgs takes flags that this kubelet doesn't have out of an environment
// file of the administrator's, and tells of those that override ours.
func (k *planner) extraArgs(path string, t host.Text) {
	minor, known := release.Minor(k.spec.Kubernetes.Version)
	if !t.Exists || !known {
		return
	}
	content, dropped := envfile.Drop(t.Content, extraVariable, removedIn(minor), switches)
	if c, ok := t.Keep(path, content, "take flags out of "+path+" that kubelet doesn't have any more: "+names(dropped)); ok {
		k.warn("%s: kubelet 1.%d doesn't have %s and would not start; they are taken out (%s)", path, minor, names(dropped), hints(dropped))
		k.write(c)
	}
	mine := map[string]string{"resolv-conf": fmt.Sprint(k.want["resolvConf"]), "cgroup-driver": "systemd"}
	for _, a := range Flags(k.spec) {
		mine[a.Name] = a.Value
	}
	for _, f := range envfile.Flags(content, extraVariable) {
		if want, ok := mine[f.Name]; ok && f.Value != want {
			k.warn("%s says --%s=%s, which overrides the %s asked for", path, f.Name, f.Value, want)
		}
	}
}

func names(flags []envfile.Flag) string {
	var out []string
	for _, f := range flags {
		out = append(out, "--"+f.Name)
	}
	return strings.Join(out, ", ")
}

func hints(flags []envfile.Flag) string {
	var out []string
	for _, f := range flags {
		out = append(out, gone[f.Name].hint)
	}
	return strings.Join(out, "; ")
}

// write plans a file that kubelet reads at its start.
func (k *planner) write(c change.WriteFile) {
	if !k.f.Joined {
		k.p.Changes = append(k.p.Changes, c)
		return
	}
	k.restart = true
	k.pending = append(k.pending, c)
}

// mend brings the files that kubeadm join wrote to what is asked now. They are
// edited field by field, since the rest is the cluster's.
func (k *planner) mend() {
	if !k.f.Config.Exists {
		k.block(fail.New(fail.Step, "kubeadm upgrade node phase kubelet-config brings it back", "this host has joined, but %s is missing: kubelet can't start", ConfigPath))
		return
	}
	current, err := readConfig(k.f.Config.Content)
	if err != nil {
		k.block(fail.Wrap(fail.Step, err, "kubeadm upgrade node phase kubelet-config writes it anew", "kubelet can't start"))
		return
	}
	if diff := field.Differs(k.want, current); len(diff) > 0 {
		b, err := yaml.Marshal(field.Merge(current, k.want))
		if err != nil {
			k.block(err)
			return
		}
		if c, ok := k.f.Config.Keep(ConfigPath, string(b), "set "+strings.Join(diff, ", ")+" in "+ConfigPath); ok {
			k.write(c)
		}
	}
	minor, known := release.Minor(k.spec.Kubernetes.Version)
	if !k.f.Flags.Exists || !known {
		return
	}
	content, dropped := envfile.Drop(k.f.Flags.Content, flagsVariable, removedIn(minor), switches)
	what := []string{}
	if len(dropped) > 0 {
		what = append(what, "without "+names(dropped))
	}
	have := envfile.Flags(content, flagsVariable)
	for _, a := range Flags(k.spec) {
		if !holds(have, a) {
			content = envfile.Set(content, flagsVariable, a.Name, a.Value)
			what = append(what, "with --"+a.Name+"="+a.Value)
		}
	}
	if c, ok := k.f.Flags.Keep(FlagsPath, content, "kubelet's flags "+strings.Join(what, ", ")); ok {
		k.write(c)
	}
}

// holds tells whether the last of the flags of that name has the value.
func holds(have []envfile.Flag, a change.NameValue) bool {
	for i := len(have) - 1; i >= 0; i-- {
		if have[i].Name == a.Name {
			return have[i].Value == a.Value
		}
	}
	return false
}

// unit enables kubelet. kubeadm join starts it; on a joined node it has to run,
// and is restarted for what was written. A note on disk stands from before the
// first write until after the restart, so that a run killed in between is
// finished by the next one.
func (k *planner) unit() {
	u := change.SetUnit{Unit: unitName}
	u.Enable = k.f.Unit.UnitFileState != "enabled"
	switch {
	case !k.f.Joined:
	case k.restart || k.f.Restart.Exists:
		u.Restart, u.Reload, u.Why = true, k.f.Unit.NeedsReload, "it shall read its configuration again"
	case k.f.Unit.ActiveState == "inactive" || k.f.Unit.ActiveState == "failed":
		u.Start, u.Reload, u.Why = true, k.f.Unit.NeedsReload, "this host has joined, and kubelet doesn't run"
	}
	if u.Restart {
		if c, ok := k.f.Restart.Write(restartNote, "0600", "root:root", "kubelet is to be restarted\n", "note that kubelet is to be restarted"); ok {
			k.p.Changes = append(k.p.Changes, c)
		}
	}
	k.p.Changes = append(k.p.Changes, k.pending...)
	if u.Enable || u.Start || u.Restart {
		k.p.Changes = append(k.p.Changes, u)
	}
	if u.Restart {
		k.p.Changes = append(k.p.Changes, change.RemoveFile{Path: restartNote, What: "note that kubelet has been restarted"})
	}
	if !k.f.Joined && k.f.Restart.Exists {
		k.p.Changes = append(k.p.Changes, change.RemoveFile{Path: restartNote, What: "forget a restart of kubelet that isn't needed any more"})
	}
}
