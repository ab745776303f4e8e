// Package clock has the host's own NTP client follow the servers that are asked
// for, and waits until the clock is synchronised. It observes and plans; it
// writes nothing.
package clock

import (
	"context"
	"path"
	"slices"
	"strings"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
)

const (
	chronyd = "chronyd.service"
	dropIn  = "/etc/systemd/timesyncd.conf.d/10-nodeagent.conf" // timesyncd.conf(5)
)

// rivals are clients that nodeagent doesn't configure.
var rivals = []string{"ntpd.service", "ntp.service", "ntpsec.service", "openntpd.service"}

// Facts is what was observed; nothing when nothing is asked of the clock.
type Facts struct {
	Live    bool                 `json:"live,omitempty"`
	Now     int64                `json:"now,omitempty"` // µs since the epoch
	Clock   host.Clock           `json:"clock"`
	Units   map[string]host.Unit `json:"units,omitempty"`
	Route   bool                 `json:"route,omitempty"`  // there is a usable default route
	Chrony  host.Text            `json:"chrony,omitzero"`  // its main file
	Dir     string               `json:"dir,omitempty"`    // whose *.conf it reads as well
	Others  []Other              `json:"others,omitempty"` // the files of others there
	Own     host.Text            `json:"own,omitzero"`     // our file there
	DropIn  host.Text            `json:"dropIn,omitzero"`  // our file of systemd-timesyncd
	Changed map[string]int64     `json:"changed,omitempty"`
}

// Other is a file of somebody else's that chronyd reads.
type Other struct {
	Path    string   `json:"path"`
	Sources []string `json:"sources,omitempty"`
	Step    bool     `json:"step,omitempty"`
}

// Observe reads the clock, the clients and their configuration.
func Observe(ctx context.Context, v host.View, spec config.Spec) (Facts, error) {
	if !spec.Time.Asked() {
		return Facts{}, nil
	}
	f := Facts{Live: v.Live(), Changed: map[string]int64{}}
	sys, err := v.System()
	if err != nil {
		return f, err
	}
	f.Now = sys.Now.UnixMicro()
	if f.Clock, err = v.Clock(); err != nil {
		return f, err
	}
	if f.Units, err = v.Units(ctx, append([]string{chronyd, host.Timesyncd}, rivals...)); err != nil {
		return f, err
	}
	n, err := v.Network()
	if err != nil {
		return f, err
	}
	f.Route = len(n.Usable(spec.Network.DefaultRoute.Family)) > 0
	if f.DropIn, err = f.file(v, dropIn); err != nil {
		return f, err
	}
	return f, f.chrony(v)
}

func (f *Facts) file(v host.View, file string) (host.Text, error) {
	info, err := v.Stat(file)
	if err != nil || !info.Exists {
		return host.Text{}, err
	}
	f.Changed[file] = info.Modified
	return host.ReadText(v, file)
}

// chrony reads the main file and the directories that it includes.
func (f *Facts) chrony(v host.View) (err error) {
	if f.Chrony, err = f.file(v, chronyConf); err != nil || !f.Chrony.Exists {
		return err
	}
	for _, dir := range f.main().Dirs {
		info, err := v.Stat(dir)
		if err != nil {
			return err
		}
		if !info.Dir {
			continue
		}
		if f.Dir == "" {
			f.Dir = dir
		}
		names, err := v.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			file := dir + "/" + name
			if path.Ext(name) != ".conf" || file == f.own() {
				continue
			}
			t, err := host.ReadText(v, file)
			if err != nil {
				return err
			}
			d := parse(t.Content)
			f.Others = append(f.Others, Other{file, d.Sources, d.Step})
		}
	}
	if f.Dir != "" {
		f.Own, err = f.file(v, f.own())
	}
	return err
}

func (f Facts) own() string { return f.Dir + "/nodeagent.conf" }

// main is what the main file says without us.
func (f Facts) main() directives {
	rest, _ := strip(f.Chrony.Content)
	return parse(strings.Join(rest, ""))
}

// Plan has the client follow the servers and waits for it. The route is awaited
// first, since a client that starts without one asks again only after a while.
func Plan(spec config.Spec, f Facts) change.Plan {
	var p change.Plan
	if !spec.Time.Asked() {
		return p
	}
	unit, err := client(f)
	if err == nil && unit == "" && len(spec.Time.Servers) > 0 {
		err = none(f)
	}
	if err != nil {
		p.Blocked = append(p.Blocked, err)
		return p
	}
	if len(spec.Time.Servers) > 0 {
		configure(&p, spec.Time.Servers, f, unit)
	}
	if len(p.Blocked) > 0 {
		return p
	}
	timeout := spec.Time.SyncTimeout.Duration
	if timeout > 0 && (len(p.Changes) > 0 || !f.Clock.By(unit)) {
		if r := spec.Network.DefaultRoute; r.Family != "none" && !f.Route {
			p.Changes = slices.Insert(p.Changes, 0, change.Change(change.WaitRoute{Family: r.Family, Timeout: r.Timeout.Duration}))
		}
		p.Changes = append(p.Changes, change.WaitClock{Unit: unit, Servers: spec.Time.Servers, Timeout: timeout})
	}
	return p
}

// client is the one that runs; else one that could, chronyd first; empty when
// there is none that nodeagent knows how to configure.
func client(f Facts) (string, error) {
	runs := func(name string) bool {
		u := f.Units[name]
		if !f.Live { // what is enabled will
			return u.UnitFileState == "enabled"
		}
		return u.ActiveState == "active" || u.ActiveState == "activating"
	}
	switch {
	case f.Live && runs(chronyd) && runs(host.Timesyncd): // enabled ones may exclude each other
		return "", fail.New(fail.Step, "keep one: systemctl disable --now "+host.Timesyncd, "chronyd and systemd-timesyncd both set the clock of this host")
	case runs(chronyd):
		return chronyd, nil
	case runs(host.Timesyncd):
		return host.Timesyncd, nil
	case slices.ContainsFunc(rivals, runs):
		return "", nil
	}
	for _, name := range []string{chronyd, host.Timesyncd} {
		if f.Units[name].LoadState == "loaded" {
			return name, nil
		}
	}
	return "", nil
}

// none says why there is no client for the servers.
func none(f Facts) error {
	for _, name := range rivals {
		if u := f.Units[name]; u.ActiveState == "active" || !f.Live && u.UnitFileState == "enabled" {
			return fail.New(fail.Step, "configure it by other means and leave spec.time.servers away, or replace it by chrony",
				"spec.time.servers is for chrony and systemd-timesyncd, and %s sets the clock of this host", name)
		}
	}
	for _, name := range []string{chronyd, host.Timesyncd} {
		if f.Units[name].LoadState == "masked" {
			return fail.New(fail.Step, "systemctl unmask "+name+", or leave spec.time.servers away", "spec.time.servers needs an NTP client, and somebody has masked %s", name)
		}
	}
	return fail.New(fail.Step, "install the package chrony", "spec.time.servers needs an NTP client, and this host has neither chrony nor systemd-timesyncd")
}

// configure plans the files of a client and its restart.
func configure(p *change.Plan, servers []string, f Facts, unit string) {
	var files []string
	if unit == host.Timesyncd {
		// NTP= is a list that every assignment adds to, and an empty one clears.
		content := "# spec.time of nodeagent\n[Time]\nNTP=\nNTP=" + strings.Join(servers, " ") + "\n"
		put(p, dropIn, f.DropIn, content, servers)
		files = []string{dropIn}
	} else {
		files = chrony(p, servers, f)
	}
	u := f.Units[unit]
	set := change.SetUnit{Unit: unit, Enable: u.UnitFileState == "disabled"}
	switch stale := outdated(f, u, files); {
	case !f.Live && u.UnitFileState == "enabled": // it starts with the host
	case f.Live && u.ActiveState == "active" && len(p.Changes) > 0:
		set.Restart, set.Why = true, "its servers change"
	case f.Live && u.ActiveState == "active" && stale:
		set.Restart, set.Why = true, "it runs with older servers"
	case u.ActiveState != "active":
		set.Start = true
	}
	if set.Enable || set.Start || set.Restart {
		p.Changes = append(p.Changes, set)
	}
}

// chrony plans a file of our own where the main file includes a directory, and
// a block in the main file otherwise. Other servers in the main file become
// comments: what is asked for is these and no others.
func chrony(p *change.Plan, servers []string, f Facts) []string {
	if !f.Chrony.Exists {
		p.Blocked = append(p.Blocked, fail.New(fail.Step, "see with which file it is started: systemctl cat "+chronyd, "chronyd is on this host and %s is not", chronyConf))
		return nil
	}
	step := !f.main().Step
	for _, o := range f.Others {
		step = step && !o.Step
		if len(o.Sources) > 0 {
			p.Warnings = append(p.Warnings, o.Path+" names servers as well ("+strings.Join(o.Sources, "; ")+"): chronyd follows them beside those of spec.time.servers")
		}
	}
	ours := lines(servers, step)
	if f.Dir != "" {
		put(p, f.own(), f.Own, "# spec.time of nodeagent\n"+ours, servers)
		if w, ok := f.Chrony.Keep(chronyConf, rewrite(f.Chrony.Content, ""), "make comments of the servers in "+chronyConf); ok {
			p.Changes = append(p.Changes, w)
		}
		return []string{f.own(), chronyConf}
	}
	if w, ok := f.Chrony.Keep(chronyConf, rewrite(f.Chrony.Content, ours), "have chronyd follow "+strings.Join(servers, ", ")); ok {
		p.Changes = append(p.Changes, w)
	}
	return []string{chronyConf}
}

func put(p *change.Plan, file string, is host.Text, content string, servers []string) {
	if w, ok := is.Write(file, "0644", "root:root", content, "write "+file+": follow "+strings.Join(servers, ", ")); ok {
		p.Changes = append(p.Changes, w)
	}
}

// outdated tells whether a client has run since before the last change of its
// files. A change from the future is the clock's own fault, which was set back
// since, and no restart would get past it.
func outdated(f Facts, u host.Unit, files []string) bool {
	return u.StartedAt > 0 && slices.ContainsFunc(files, func(file string) bool {
		at := f.Changed[file]
		return at > u.StartedAt && at <= f.Now
	})
}
