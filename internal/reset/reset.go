package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk/udev"
	"nodeagent/internal/host"
	"nodeagent/internal/join/credential"
	"nodeagent/internal/prereq/archive"
	"nodeagent/internal/prereq/pgpkey"
	"nodeagent/internal/prereq/rpmspec"
	"nodeagent/internal/prereq/swap/area"
	"nodeagent/internal/prereq/users/account"
	"nodeagent/internal/run/journal"
)

// Options of a reset.
type Options struct {
	ForgetDisks    bool // unmount the data disks and remove what mounts them; their data stay
	RemovePackages bool // remove the packages and archives that were installed
}

// Facts is the deeds of one step of up and what they are about, as it is now.
type Facts struct {
	Options   Options
	Deeds     []Deed
	files     map[string]fileFacts
	Units     map[string]host.Unit
	Areas     []area.Area // of swap, in use
	areaThere map[string]bool
	Sysctls   map[string]string
	Hostname  string
	Firewalld host.Firewalld
	IPTables  host.IPTables
	Installed map[string]string // packages and keys
	Needed    map[string]string // packages of nodeagent's that others need: who does
	Manager   string            // that installs packages; empty when it is gone
	Archives  map[string]archive.Marker
	Mounts    []host.Mount
	Owners    map[string]host.NetworkOwner // of interfaces
	Cluster   cluster
	Token     credential.Left // what a join token has left
	Joined    bool
	accounts  map[string]bool // by database and name: it is there
	comments  map[string]string
	members   map[string]account.Group
	keys      map[string]keyFacts // by file
	Devices   []host.BlockDevice
	Rules     []udev.Rule // of others, that make links as raw disks have
	// Bundle is when the bundle of trusted authorities was last made, in µs.
	Bundle int64
	// Modified is when the newest of the step's files was last written, in µs.
	Modified int64
}

// Reset is one reset. Its deeds are read once: all that a reset itself adds to
// the journal is its end.
type Reset struct {
	options Options
	deeds   []Deed
	known   bool
}

// New begins a reset.
func New(o Options) *Reset { return &Reset{options: o} }

// read returns the standing deeds of this host's journal.
func (r *Reset) read(v host.View) ([]Deed, error) {
	if r.known {
		return r.deeds, nil
	}
	b, err := v.ReadFile(journal.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the journal can't be read: %w", err)
	}
	r.deeds, r.known = Standing(journal.Parse(b)), true
	return r.deeds, nil
}

// Observe looks at what was done in one step of up, as it is now.
func (r *Reset) Observe(step string) func(context.Context, host.View, config.Spec) (Facts, error) {
	return func(ctx context.Context, v host.View, _ config.Spec) (Facts, error) {
		deeds, err := r.read(v)
		if err != nil {
			return Facts{}, err
		}
		f := Facts{Options: r.options, files: map[string]fileFacts{}, Units: map[string]host.Unit{}, Sysctls: map[string]string{}, Installed: map[string]string{}, Archives: map[string]archive.Marker{}, areaThere: map[string]bool{}, accounts: map[string]bool{}, comments: map[string]string{}, members: map[string]account.Group{}, keys: map[string]keyFacts{}, Owners: map[string]host.NetworkOwner{}}
		o := observer{ctx, v, &f}
		for _, d := range deeds {
			if d.Step != step {
				continue
			}
			f.Deeds = append(f.Deeds, d)
			if err := o.deed(d); err != nil {
				return f, err
			}
		}
		return f, nil
	}
}

// observer fills facts.
type observer struct {
	ctx context.Context
	v   host.View
	f   *Facts
}

func (o observer) units(names ...string) error {
	got, err := o.v.Units(o.ctx, names)
	maps.Copy(o.f.Units, got)
	return err
}

func (o observer) installed(names []string) error {
	got, err := o.v.Installed(o.ctx, names)
	maps.Copy(o.f.Installed, got)
	return err
}

func (o observer) file(d Deed, file string) (err error) {
	if o.f.files[file], err = observeFile(o.v, d, file); err != nil {
		return err
	}
	for _, p := range []string{file, path.Dir(file)} { // a file that is gone was the directory's last change
		if info, err := o.v.Stat(p); err == nil && info.Exists {
			o.f.Modified = max(o.f.Modified, info.Modified)
			break
		}
	}
	if unit := unitOf(file); unit != "" {
		return o.units(unit)
	}
	return nil
}

func (o observer) deed(d Deed) (err error) {
	for _, r := range d.Records {
		switch c := r.Change.(type) {
		case change.WriteFile:
			err = o.file(d, c.Path)
		case change.RemoveFile:
			err = o.file(d, c.Path)
		case change.RunHook:
			err = o.file(d, c.Marker)
		case change.SetHostname:
			var s host.System
			if s, err = o.v.System(); err == nil {
				o.f.Hostname = s.Hostname
				err = o.file(d, "/etc/hostname")
			}
		case change.SetInterface:
			if err = o.file(d, c.Path); err == nil {
				o.f.Owners[c.Interface], err = o.v.NetworkOwner(o.ctx, c.Interface)
			}
		case change.UpdateTrust:
			var info host.FileInfo
			info, err = o.v.Stat(c.Bundle)
			o.f.Bundle = info.Modified
		case change.AddGroup:
			err = o.account("/etc/group", c.Name)
		case change.AddUser:
			err = o.account("/etc/passwd", c.Name)
		case change.ChangeUser:
			err = o.changed(c)
		case change.SetPassword:
			err = o.account("/etc/passwd", c.User)
		case change.AuthorizeKeys:
			if err = o.account("/etc/passwd", c.User); err == nil {
				err = o.authorized(d, c)
			}
		case change.ImportKeys:
			if err = o.file(d, c.StoreAs); err == nil {
				err = o.keys(c)
			}
		case change.InstallPackages:
			if err = o.installed(rpmspec.Names(slices.Concat(c.Packages, c.Optional, c.Remove))); err == nil {
				o.f.Manager = ""
				if _, err := o.v.LookPath(c.Manager); err == nil {
					o.f.Manager = c.Manager
				}
				if ours, _ := installedByUs(d, o.f.Installed); o.f.Options.RemovePackages && len(ours) > 0 {
					o.f.Needed, err = o.v.Needed(o.ctx, ours)
				}
			}
		case change.InstallArchive:
			var t host.Text
			if t, err = host.ReadText(o.v, c.Marker); err == nil && t.Exists {
				o.f.Archives[c.Marker], err = archive.Decode(t.Content)
			}
		case change.SwapOff:
			err = o.areas(c.Area)
		case change.MaskUnit:
			err = errors.Join(o.areas(r.Prior.Units[c.Unit].What), o.units(c.Unit))
		case change.SetUnit:
			err = errors.Join(o.areas(r.Prior.Units[c.Unit].What), o.units(c.Unit))
		case change.SetSysctl:
			o.f.Sysctls[c.Key], err = sysctl(o.v, c.Key)
		case change.Mount:
			if err = o.units(c.Unit); err == nil {
				o.f.Mounts, err = o.v.Mounts()
			}
			if err == nil {
				var f fileFacts
				f.empty, err = emptied(o.v, d.made())
				o.f.files[c.Target] = f
			}
		case change.LinkDisk, change.UnlinkDisk:
			if o.f.Devices, err = o.v.BlockDevices(o.ctx, false); err == nil {
				o.f.Rules, err = udev.Others(o.v)
			}
		case change.AllowPorts:
			if c.Family != "" {
				o.f.IPTables, err = o.v.IPTables(o.ctx)
			} else {
				o.f.Firewalld, err = o.v.Firewalld(o.ctx)
			}
		case change.FetchToken:
			var n host.Node
			if n, err = o.v.Node(o.ctx, ""); err == nil {
				o.f.Joined = n.Joined
				o.f.Token, err = credential.ReadLeft(o.v)
			}
		case change.Join:
			err = o.cluster(d, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o observer) areas(path string) error {
	if info, err := o.v.Stat(path); err == nil && path != "" {
		o.f.areaThere[path] = info.Exists
	}
	b, err := o.v.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without swap
		return nil
	}
	o.f.Areas = area.Parse(string(b))
	return err
}

// pubkeys is the name of the packages that stand for signing keys in the RPM
// database.
const pubkeys = "gpg-pubkey"

// keys asks for the keys that the stored copy holds.
func (o observer) keys(c change.ImportKeys) error {
	keys, err := pgpkey.Parse([]byte(o.f.files[c.StoreAs].now.Content))
	if err != nil {
		return nil // gone, or somebody else's now: its keys aren't known
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Provides()...)
	}
	return o.installed(names)
}

// Plan takes the deeds of a step back. What runs is stopped first, then files
// and settings go back newest first, then systemd reads its units anew, then
// what ran before runs again.
func Plan(_ config.Spec, f Facts) change.Plan {
	p := planner{f: f}
	var out change.Plan
	phases := map[int][]change.Change{}
	reload := ""
	var restarts []verdict
	for _, d := range f.Deeds {
		v := p.undo(d)
		out.Warnings = append(out.Warnings, v.left...)
		for _, a := range v.acts {
			phases[a.phase] = append(phases[a.phase], a.change)
		}
		if v.reload != "" {
			reload = v.reload
		}
		if v.restart != nil {
			restarts = append(restarts, v)
		}
	}
	for _, v := range restarts {
		if v.older || len(phases[1]) > 0 {
			phases[3] = append(phases[3], v.restart)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Units)) {
		if f.Units[name].NeedsReload {
			reload = name
		}
	}
	if reload != "" {
		phases[2] = []change.Change{change.SetUnit{Unit: reload, Reload: true, Why: "its files have changed"}}
	}
	for n := range 4 {
		out.Changes = append(out.Changes, unique(phases[n])...)
	}
	return out
}

// unique leaves out what two deeds ask for alike.
func unique(list []change.Change) []change.Change {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(c change.Change) bool {
		was := seen[c.ID()]
		seen[c.ID()] = true
		return was
	})
}

// Undone are the ids of the journalled changes that don't stand any more: what
// they did is taken back, or can't ever be.
func (r *Reset) Undone(ctx context.Context, v host.View) ([]string, error) {
	deeds, err := r.read(v)
	if err != nil {
		return nil, err
	}
	steps := map[string]bool{}
	var ids []string
	for _, d := range deeds {
		if steps[d.Step] {
			continue
		}
		steps[d.Step] = true
		f, err := r.Observe(d.Step)(ctx, v, config.Spec{})
		if err != nil {
			return nil, err
		}
		p := planner{f: f}
		for _, d := range f.Deeds {
			if v := p.undo(d); len(v.acts) == 0 && !v.stands {
				ids = append(ids, d.IDs...)
			}
		}
	}
	return ids, nil
}

// planner decides over deeds.
type planner struct{ f Facts }

// verdict is what becomes of one deed.
type verdict struct {
	acts   []act
	left   []string // what isn't given back, and why
	stands bool     // it is still nodeagent's when the reset is over
	reload string   // a unit whose files change
	// restart is for what was made of files, such as a service that ran before,
	// too: it is due when they go back, or when it is older than they are.
	restart change.Change
	older   bool
}

// act is a change and when in its step it comes: 0 stops, 1 puts back, 3 starts.
type act struct {
	phase  int
	change change.Change
}

func (v *verdict) add(phase int, c change.Change) { v.acts = append(v.acts, act{phase, c}) }

// kept says that something stays on purpose.
func kept(format string, a ...any) verdict {
	return verdict{left: []string{fmt.Sprintf(format, a...)}, stands: true}
}

// gone says that something can't be taken back and is told of once.
func gone(format string, a ...any) verdict { return verdict{left: []string{fmt.Sprintf(format, a...)}} }

func (p *planner) undo(d Deed) verdict {
	for _, r := range d.Records {
		if r.Unknown != "" {
			return kept("%s is left as it is: %s", d.IDs[0], r.Unknown)
		}
	}
	if d.Step == disks && !p.f.Options.ForgetDisks && !rawDisk(d) {
		return p.keepDisk(d)
	}
	switch c := d.Records[len(d.Records)-1].Change.(type) {
	case change.LinkDisk:
		return p.undoLink(c.Link)
	case change.UnlinkDisk:
		return p.undoLink(c.Link)
	case change.WriteFile:
		return p.undoFile(d, c.Path)
	case change.RemoveFile:
		return p.undoFile(d, c.Path)
	case change.SetHostname:
		return p.undoHostname(d, c)
	case change.SetInterface:
		return p.undoInterface(d, c)
	case change.UpdateTrust:
		return verdict{restart: change.UpdateTrust{Program: c.Program, Bundle: c.Bundle}, older: p.f.Bundle != 0 && p.f.Bundle < p.f.Modified}
	case change.AddGroup:
		return p.keepAccount("/etc/group", c.Name, "group %s, which nodeagent added: groupdel removes it", c.Name)
	case change.AddUser:
		return p.keepAccount("/etc/passwd", c.Name, "user %s and the home %s, which nodeagent added, since processes and files may be in use: userdel -r %s removes both", c.Name, c.Home, c.Name)
	case change.ChangeUser:
		return p.undoChange(d, c)
	case change.SetPassword:
		return p.keepAccount("/etc/passwd", c.User, "the password of user %s as it is: the one before isn't kept anywhere", c.User)
	case change.AuthorizeKeys:
		return p.undoAuthorized(d, c)
	case change.ImportKeys:
		return p.undoKeys(d, c)
	case change.InstallPackages:
		return p.undoPackages(d)
	case change.InstallArchive:
		return p.undoArchive(c)
	case change.SwapOff:
		return p.swapOn(c.Area, c.Unit)
	case change.MaskUnit:
		return p.undoMask(d, c.Unit)
	case change.SetUnit:
		return p.undoUnit(d, c.Unit)
	case change.SetSysctl:
		return p.undoSysctl(d, c)
	case change.MakeFilesystem, change.EmptyFilesystem:
		return p.keepDisk(d)
	case change.Mount:
		return p.undoMount(d, c)
	case change.AllowPorts:
		return p.undoPorts(d)
	case change.Join:
		return p.leave(d, c)
	case change.RunHook:
		return p.undoHook(c)
	case change.FetchToken:
		return p.undoToken()
	}
	return verdict{} // it waited, or looked: nothing to take back
}

// disks is the step of up that mounts data disks.
const disks = "disks"

// keepDisk tells of what stays of a data disk.
func (p *planner) keepDisk(d Deed) verdict {
	switch c := d.Records[len(d.Records)-1].Change.(type) {
	case change.MakeFilesystem:
		return kept("kept: the %s filesystem %s on %s and all it holds", c.Type, c.Label, c.Device)
	case change.EmptyFilesystem:
		return kept("kept: the note that %s was emptied, so that it isn't emptied again", c.Target)
	case change.Mount:
		return kept("kept: the mount of %s; --forget-disks removes it, not its data", c.Target)
	}
	return verdict{stands: true}
}

func (p *planner) undoMount(d Deed, c change.Mount) verdict {
	var v verdict
	_, prior, _ := first[change.Mount](d)
	mounted := slices.ContainsFunc(p.f.Mounts, func(m host.Mount) bool { return m.Target == c.Target })
	before := prior.Units[c.Unit]
	if c.Foreign || before.ActiveState == "active" {
		return kept("kept: %s is mounted by %s, which isn't nodeagent's", c.Target, c.Unit)
	}
	dirs := p.f.files[c.Target].empty // of the mount point, when nothing is mounted
	if mounted {
		dirs = d.made()
	}
	if mounted || p.f.Units[c.Unit].UnitFileState == "enabled" || len(dirs) > 0 {
		v.add(0, change.Unmount{Unit: c.Unit, Target: c.Target, Dirs: dirs, Source: c.Source})
	}
	return v
}

func (p *planner) undoHook(c change.RunHook) verdict {
	v := gone("what the %s hook %q did stays", c.When, c.Command)
	if f := p.f.files[c.Marker]; f.now.Exists || len(f.empty) > 0 {
		v.add(1, change.RemoveFile{Path: c.Marker, Dirs: f.empty, What: "forget that the " + c.When + " hook has run"})
	}
	return v
}

func unlike(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
