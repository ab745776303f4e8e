package hosttest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/firewall/iptables"
	"nodeagent/internal/host"
	"nodeagent/internal/prereq/archive"
	"nodeagent/internal/prereq/pgpkey"
)

// Apply carries a change out on the world, as one effect but for a change of
// the network.
func (w *World) Apply(_ context.Context, c change.Change, _ func(string)) error {
	if s, ok := c.(change.SetInterface); ok { // two: it may die before it is confirmed
		if err := w.effect(func() error { return w.setInterface(s) }); err != nil {
			return err
		}
		return w.effect(func() error { w.log = append(w.log, c.ID()); return w.confirmInterface(s) })
	}
	return w.effect(func() error {
		w.log = append(w.log, c.ID())
		return w.apply(c)
	})
}

func (w *World) apply(c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile:
		if err := w.writable(c.Path); err != nil {
			return err
		}
		if c.Secret {
			if err := w.keep(c); err != nil {
				return err
			}
		}
		w.Files[w.resolve(c.Path)] = File{Content: c.Content, Mode: c.Mode, Owner: c.Owner, Modified: w.now()}
		w.loadUnit(c.Path)
	case change.RemoveFile:
		if err := w.writable(c.Path); err != nil {
			return err
		}
		delete(w.Files, c.Path)
		if dir, ok := w.Files[path.Dir(c.Path)]; ok {
			dir.Modified = w.now()
			w.Files[path.Dir(c.Path)] = dir
		}
		w.forgetUnit(c.Path)
	case change.SetHostname:
		w.Sys.Hostname = c.Name
		w.put("/etc/hostname", c.Name+"\n")
	case change.UpdateTrust:
		w.updateTrust(c)
	case change.WaitClock:
		return w.waitClock(c)
	case change.AddGroup, change.AddUser, change.ChangeUser, change.SetPassword:
		return w.applyAccount(c)
	case change.AuthorizeKeys:
		return w.authorizeKeys(c)
	case change.ProbeRepository:
	case change.ImportKeys:
		return w.importKeys(c)
	case change.InstallPackages:
		return w.install(c)
	case change.InstallArchive:
		if err := w.writable(c.Into); err != nil {
			return err
		}
		w.put(c.Marker, archive.Marker{URL: c.URL, SHA256: c.SHA256, Into: c.Into}.Encode())
		for name, p := range w.Repo {
			if strings.Contains(c.URL, name) {
				w.bring(name, p)
			}
		}
	case change.SwapOff:
		w.swapOff(func(s Swap) bool { return s.Area == c.Area })
	case change.MaskUnit:
		w.mask(c.Unit)
		w.swapOff(func(s Swap) bool { return s.Unit == c.Unit })
	case change.SetUnit:
		return w.setUnit(c)
	case change.LoadModule:
		w.Modules[c.Name] = true
		w.bridge()
	case change.SetSysctl:
		if _, ok := w.Sysctls[c.Key]; !ok {
			return fmt.Errorf("there is no sysctl %s", c.Key)
		}
		w.Sysctls[c.Key] = c.Value
	case change.MakeFilesystem:
		return w.format(c)
	case change.EmptyFilesystem:
		for p := range w.Files {
			if strings.HasPrefix(p, c.Target+"/") {
				delete(w.Files, p)
			}
		}
		w.put(c.Marker, c.UUID+"\n")
	case change.LinkDisk:
		return w.linkDisk(c)
	case change.UnlinkDisk:
		return w.unlinkDisk(c)
	case change.Mount:
		return w.mount(c)
	case change.Relabel:
		key, _ := w.labelled(c.Path)
		if w.labels == nil {
			w.labels = map[string]string{}
		}
		w.labels[key] = "system_u:object_r:container_var_lib_t:s0"
	case change.AllowPorts:
		return w.allow(c)
	case change.WaitRoute:
		if len(w.Net.Defaults) == 0 && w.LateRoute == nil {
			return fail.New(fail.Timeout, "", "no default route within %s", c.Timeout)
		}
		if w.LateRoute != nil {
			w.Net.Defaults = append(w.Net.Defaults, *w.LateRoute)
			w.LateRoute = nil
		}
	case change.FetchToken:
		return w.fetchToken(c)
	case change.DropToken:
		return w.dropToken()
	case change.LabelNode:
		return w.labelNode(c)
	case change.Join:
		return w.join(c)
	case change.WaitReady:
		w.NodeObject.Reached, w.NodeObject.Ready, w.NodeObject.Unmet = true, true, ""
	case change.RunHook:
		w.Files[c.Marker] = File{Content: c.Command + "\n", Mode: "0600"}
	default:
		return w.applyReset(c)
	}
	return nil
}

// loadUnit makes a unit file known to the manager.
func (w *World) loadUnit(p string) {
	dir, name := path.Split(p)
	if dir != "/etc/systemd/system/" || strings.HasSuffix(name, ".conf") {
		return
	}
	u := w.UnitStates[name]
	u.LoadState = "loaded"
	u.ActiveState = or(u.ActiveState, "inactive")
	u.UnitFileState = or(u.UnitFileState, "disabled")
	u.FragmentPath = p
	w.UnitStates[name] = u
}

// now is the time in µs since the epoch; every effect takes one.
func (w *World) now() int64 { return w.Sys.Now.UnixMicro() + int64(w.effects) }

// signingKey is the public key of every repository.
const signingKey = `-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaw66GBYJKwYBBAHaRw8BAQdAmQbHplgJYUSIs29ndpxxDfB72K9RCYg7IWDS
rGQB1OK0DHR3byB0ZXN0IGtleYiQBBMWCAA4FiEEKBLXrzQ7ZY56c9URhlx4wvV7
/YMFAmsOuhgCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQhlx4wvV7/YNk
zAD+IINAmxicABB+z6sc2rbeW+9XacRkTxTX8absvk0DKMwA/0MaH46VnooF4RxO
UAekHJ537sRBqjuVOlt2XOKPaa0K
=5vLj
-----END PGP PUBLIC KEY BLOCK-----
`

func (w *World) importKeys(c change.ImportKeys) error {
	all := ""
	for _, source := range c.Keys {
		b, err := pgpkey.Armor(source, []byte(signingKey))
		if err != nil {
			return err
		}
		all += string(b)
	}
	keys, err := pgpkey.Parse([]byte(all))
	if err != nil {
		return err
	}
	for _, k := range keys {
		w.Packages[k.Provides()[0]] = "key"
	}
	w.put(c.StoreAs, all)
	return nil
}

func (w *World) setUnit(c change.SetUnit) error {
	if c.Reload {
		for n, u := range w.UnitStates {
			u.NeedsReload = false
			w.UnitStates[n] = u
			// What a generator made of a file that is gone now is gone too.
			if strings.HasPrefix(u.FragmentPath, "/run/systemd/generator/") && !w.generated(u) && u.ActiveState != "active" {
				delete(w.UnitStates, n)
			}
			if f := u.FragmentPath; strings.HasPrefix(f, "/etc/") && w.Files[f] == (File{}) {
				delete(w.UnitStates, n)
			}
		}
		w.generate()
	}
	if c == (change.SetUnit{Unit: c.Unit, Reload: c.Reload, Why: c.Why}) {
		return nil
	}
	u, ok := w.UnitStates[c.Unit]
	if !ok || u.LoadState != "loaded" {
		return fmt.Errorf("unit %s is not there", c.Unit)
	}
	if c.Enable {
		u.UnitFileState = "enabled"
	}
	if c.OffBoot {
		u.UnitFileState = "disabled"
	}
	if c.Stop {
		u.ActiveState = "inactive"
	}
	if c.Start || c.Restart {
		u.ActiveState = "active"
		u.StartedAt = w.now()
		w.Synced = w.Synced && !slices.Contains(clients, c.Unit)
	}
	if c.Disable {
		w.swapOff(func(s Swap) bool { return s.Unit == c.Unit })
		u.UnitFileState, u.ActiveState = "disabled", "inactive"
	}
	w.UnitStates[c.Unit] = u
	return nil
}

// generated tells whether fstab still asks for a swap unit.
func (w *World) generated(u host.Unit) bool {
	for line := range strings.Lines(w.Files["/etc/fstab"].Content) {
		if f := strings.Fields(line); len(f) > 2 && !strings.HasPrefix(f[0], "#") && f[2] == "swap" && f[0] == u.What {
			return true
		}
	}
	return false
}

func (w *World) format(c change.MakeFilesystem) error {
	d := w.disk(c.Device)
	if d == nil {
		return fail.New(fail.Safety, "", "%s is not there", c.Device)
	}
	blank := d.FSType == "" && d.PTType == "" && len(d.Signatures) == 0 && !d.NonZero
	if !blank && !(c.Resume && d.FSUUID == c.UUID) {
		return fail.New(fail.Safety, "", "%s holds data", c.Device)
	}
	if _, err := w.LookPath("mkfs." + c.Type); err != nil {
		return fail.Wrap(fail.Step, err, "", "mkfs.%s is not on this host", c.Type)
	}
	delete(w.labels, c.UUID)
	d.FSType, d.Label, d.FSUUID, d.Signatures, d.NonZero, d.Probed = c.Type, c.Label, c.UUID, []string{c.Type + "@0x0"}, true, true
	return nil
}

func (w *World) mount(c change.Mount) error {
	m := w.shown(c.Source, c.Target, c.Type)
	if c.Source == "" {
		d := w.disk("/dev/disk/by-label/" + c.Label)
		if d == nil {
			return fail.New(fail.Step, "", "no device has label %s", c.Label)
		}
		m = host.Mount{Source: d.Path, Target: c.Target, Type: c.Type, Root: "/"}
	}
	if !slices.ContainsFunc(w.MountTable, func(m host.Mount) bool { return m.Target == c.Target }) {
		w.MountTable = append(w.MountTable, m)
	}
	if u, ok := w.UnitStates[c.Unit]; ok {
		u.ActiveState, u.UnitFileState = "active", "enabled"
		w.UnitStates[c.Unit] = u
	}
	return nil
}

func (w *World) allow(c change.AllowPorts) error {
	if c.Family != "" {
		input, err := iptables.Restore(w.Tables.Filter[c.Family], c.Rules, c.Node)
		if err == nil {
			w.Tables.Filter[c.Family], err = restore(w.Tables.Filter[c.Family], input)
		}
		return err
	}
	z := w.Firewall.Zones[c.Zone]
	s := &z.Runtime
	if c.Permanent {
		s = &z.Permanent
	}
	add := func(to *[]string, what []string) {
		for _, x := range what {
			if !slices.Contains(*to, x) {
				*to = append(*to, x)
			}
		}
		slices.Sort(*to)
	}
	add(&s.Ports, c.Ports)
	add(&s.Protocols, c.Protocols)
	add(&s.Sources, c.Sources)
	add(&s.Interfaces, c.Interfaces)
	bound := &w.Firewall.Interfaces
	if c.Permanent {
		bound = &w.Firewall.Permanent
	}
	for _, i := range c.Interfaces {
		if *bound == nil {
			*bound = map[string]string{}
		}
		(*bound)[i] = c.Zone
	}
	s.Forward = s.Forward || c.Forward
	if w.Firewall.Zones == nil {
		w.Firewall.Zones = map[string]host.Zone{}
	}
	w.Firewall.Zones[c.Zone] = z
	return nil
}

func (w *World) join(c change.Join) error {
	if !w.token {
		return fail.New(fail.Step, "", "no token is held")
	}
	if w.NodeObject.Joined {
		return fail.New(fail.Safety, "", "the host has joined already")
	}
	w.put("/etc/kubernetes/kubelet.conf", "server: "+w.NodeObject.Server+"\n")
	w.put("/etc/kubernetes/pki/ca.crt", "ca\n")
	config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	if patch, ok := w.Files[c.PatchDirectory+"/kubeletconfiguration0+strategic.json"]; ok {
		config = patch.Content // JSON is YAML; the cluster's own part doesn't matter here
	}
	w.put("/var/lib/kubelet/config.yaml", config)
	var flags []string
	for _, a := range c.KubeletArgs {
		flags = append(flags, "--"+a.Name+"="+a.Value)
	}
	w.put("/var/lib/kubelet/kubeadm-flags.env", fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", strings.Join(flags, " ")))
	w.NodeObject.Joined, w.NodeObject.Name = true, c.NodeName
	w.register(c.KubeletArgs)
	w.populate()
	if u, ok := w.UnitStates["kubelet.service"]; ok {
		u.ActiveState = "active"
		w.UnitStates["kubelet.service"] = u
	}
	return nil
}

// swapOff turns areas off; their units become inactive.
func (w *World) swapOff(which func(Swap) bool) {
	for _, s := range w.Swaps {
		if u, ok := w.UnitStates[s.Unit]; ok && which(s) {
			u.ActiveState = "inactive"
			w.UnitStates[s.Unit] = u
		}
	}
	w.Swaps = slices.DeleteFunc(w.Swaps, which)
}
