package mounts

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/disk"
	"nodeagent/internal/fail"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
)

func spec(list ...config.Mount) config.Spec {
	s := config.Default().Spec
	s.Disks, s.Mounts = nil, list
	return s
}

func plan(t *testing.T, w *hosttest.World, s config.Spec) change.Plan {
	t.Helper()
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return Plan(s, f)
}

func carryOut(t *testing.T, w *hosttest.World, p change.Plan) {
	t.Helper()
	require.Empty(t, p.Blocked)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
}

func ids(p change.Plan) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.ID())
	}
	return strings.Join(out, "\n")
}

var (
	scratch = config.Mount{What: "tmpfs", Where: "/srv/scratch", Type: "tmpfs", Options: []string{"size=50%"}}
	export  = config.Mount{What: "server.example:/export", Where: "/srv/nfs", Type: "nfs4", Options: []string{"hard"}}
	shared  = config.Mount{What: "/home/shared", Where: "/srv/shared", Type: "none", Options: []string{"bind"}}
)

func rocky() *hosttest.World {
	w := hosttest.Rocky9()
	w.Files["/usr/sbin/mount.nfs4"] = hosttest.File{Mode: "0755"}
	w.Files["/home/shared"] = hosttest.File{Dir: true}
	return w
}

func TestNothingIsReadWhenNothingIsAskedFor(t *testing.T) {
	f, err := Observe(context.Background(), hosttest.Rocky9(), spec())
	require.NoError(t, err)
	require.Zero(t, f)
	require.Empty(t, Plan(spec(), f))
}

func TestAMountInMemoryIsAUnitOfTheLocalFilesystems(t *testing.T) {
	w, s := rocky(), spec(scratch)
	p := plan(t, w, s)
	require.Equal(t, []change.Change{
		change.WriteFile{Path: "/etc/systemd/system/srv-scratch.mount", Mode: "0644", Owner: "root:root", What: "write the mount unit of /srv/scratch", Content: disk.Header + `[Unit]
Description=/srv/scratch from the configuration

[Mount]
What=tmpfs
Where=/srv/scratch
Type=tmpfs
Options=size=50%%

[Install]
WantedBy=local-fs.target
`},
		change.WriteFile{Path: "/etc/systemd/system/kubelet.service.d/10-nodeagent-other-mounts.conf", Mode: "0644", Owner: "root:root", What: "let kubelet.service wait for its mounts",
			Content: disk.Header + "[Unit]\nAfter=srv-scratch.mount\n"},
		change.Mount{Unit: "srv-scratch.mount", Source: "tmpfs", Target: "/srv/scratch", Type: "tmpfs"},
	}, p.Changes)
	carryOut(t, w, p)
	require.Empty(t, plan(t, w, s))
}

func TestANetworkMountWaitsForARouteOnceAndForTheNetworkAtBoot(t *testing.T) {
	w, s := rocky(), spec(export)
	p := plan(t, w, s)
	require.IsType(t, change.WaitRoute{}, p.Changes[0])
	unit := p.Changes[1].(change.WriteFile).Content
	require.Contains(t, unit, "Options=hard,_netdev\n")
	require.Contains(t, unit, "WantedBy=remote-fs.target multi-user.target\n")
	carryOut(t, w, p)
	require.Empty(t, plan(t, w, s))

	s.Network.DefaultRoute.Family = "none"
	require.NotContains(t, ids(plan(t, rocky(), s)), "route")
	require.NotContains(t, ids(plan(t, rocky(), spec(scratch))), "route")
}

func TestABindMountOfANetworkMountWaitsForTheNetworkToo(t *testing.T) {
	p := plan(t, rocky(), spec(config.Mount{What: "/srv/nfs/images", Where: "/srv/images", Type: "none", Options: []string{"bind"}}, export))
	require.Empty(t, p.Blocked)
	require.Equal(t, `route
file:/etc/systemd/system/srv-nfs.mount
file:/etc/systemd/system/srv-images.mount
file:/etc/systemd/system/kubelet.service.d/10-nodeagent-other-mounts.conf
mount:/srv/nfs
mount:/srv/images`, ids(p))
	require.Contains(t, p.Changes[2].(change.WriteFile).Content, "Options=bind,_netdev\n")
}

func TestABindMountIsKnownByWhatItShows(t *testing.T) {
	w, s := rocky(), spec(shared)
	carryOut(t, w, plan(t, w, s))
	require.Empty(t, plan(t, w, s))
	for i, m := range w.MountTable {
		if m.Target == "/srv/shared" {
			w.MountTable[i].Root = "/home/other"
		}
	}
	p := plan(t, w, s)
	require.ErrorContains(t, p.Blocked[0], "spec.mounts: /srv/shared: /home/other of /dev/vda1 (xfs) is mounted there, not /home/shared (none)")
}

func TestTheTypesThatTheKernelShowsUnderAnotherName(t *testing.T) {
	for _, c := range []struct {
		asked config.Mount
		now   host.Mount
		same  bool
	}{
		{config.Mount{What: "s:/e/", Type: "nfs"}, host.Mount{Source: "s:/e", Type: "nfs4"}, true},
		{config.Mount{What: "s:/e", Type: "nfs4"}, host.Mount{Source: "s:/e", Type: "nfs"}, false},
		{config.Mount{What: "s:/e", Type: "nfs"}, host.Mount{Source: "s:/f", Type: "nfs4"}, false},
		{config.Mount{What: "s:/v", Type: "glusterfs"}, host.Mount{Source: "s:/v", Type: "fuse.glusterfs"}, true},
		{config.Mount{What: "mon.example:6789:/a", Type: "ceph"}, host.Mount{Source: "192.0.2.7:6789:/a", Type: "ceph"}, true},
		{config.Mount{What: "mon.example:6789:/a", Type: "ceph"}, host.Mount{Source: "192.0.2.7:6789:/b", Type: "ceph"}, false},
		{config.Mount{What: "tmpfs", Type: "tmpfs"}, host.Mount{Source: "tmpfs", Type: "ramfs"}, false},
	} {
		c.asked.Where = "/x"
		f := Facts{Mounted: map[string]host.Mount{"/x": c.now}}
		require.Equal(t, c.same, f.mounted(c.asked), "%+v", c)
	}
}

func TestWhatIsInTheWayIsRefusedAndNothingIsDone(t *testing.T) {
	for name, c := range map[string]struct {
		mount config.Mount
		spoil func(*hosttest.World)
		kind  fail.Kind
		want  string
	}{
		"fstab": {scratch, func(w *hosttest.World) {
			w.Files["/etc/fstab"] = hosttest.File{Content: "# theirs\n//s/x /srv/scratch/ cifs password=canary 0 0\n"}
		}, fail.Safety, "line 2 of /etc/fstab mounts something there already"},
		"a unit of the administrator": {scratch, func(w *hosttest.World) {
			w.Files["/etc/systemd/system/srv-scratch.mount"] = hosttest.File{Content: "[Mount]\nOptions=password=canary\n"}
		}, fail.Safety, "/etc/systemd/system/srv-scratch.mount is there and isn't nodeagent's"},
		"a unit of the distribution": {scratch, func(w *hosttest.World) {
			w.UnitStates["srv-scratch.mount"] = host.Unit{LoadState: "loaded", ActiveState: "inactive", UnitFileState: "static", FragmentPath: "/usr/lib/systemd/system/srv-scratch.mount"}
		}, fail.Safety, "/usr/lib/systemd/system/srv-scratch.mount is a unit of the system for it"},
		"a masked unit": {scratch, func(w *hosttest.World) { w.UnitStates["srv-scratch.mount"] = host.Unit{LoadState: "masked"} }, fail.Safety, "srv-scratch.mount is masked"},
		"another mount": {scratch, func(w *hosttest.World) {
			w.MountTable = append(w.MountTable, host.Mount{Source: "/dev/vdz", Target: "/srv/scratch", Type: "xfs", Root: "/"})
		}, fail.Safety, "/dev/vdz (xfs) is mounted there, not tmpfs (tmpfs)"},
		"files": {scratch, func(w *hosttest.World) { w.Files["/srv/scratch/a/b"] = hosttest.File{} }, fail.Safety, "it holds /srv/scratch/a/b, which the mount would hide"},
		"a link": {scratch, func(w *hosttest.World) {
			w.Files["/srv/scratch"] = hosttest.File{Link: "/home/shared"}
		}, fail.Safety, "/srv/scratch -> /home/shared"},
		"a file":              {scratch, func(w *hosttest.World) { w.Files["/srv/scratch"] = hosttest.File{} }, fail.Safety, "it is a file"},
		"a source that lacks": {shared, func(w *hosttest.World) { delete(w.Files, "/home/shared") }, fail.Step, "its source /home/shared isn't there"},
		"a source that is a file": {shared, func(w *hosttest.World) {
			w.Files["/home/shared"] = hosttest.File{Content: "x"}
		}, fail.Step, "its source /home/shared is a file"},
		"a source behind a link": {shared, func(w *hosttest.World) {
			w.Files["/home/shared"] = hosttest.File{Link: "/opt"}
		}, fail.Step, "/home/shared -> /opt"},
		"no program": {export, func(w *hosttest.World) { delete(w.Files, "/usr/sbin/mount.nfs4") }, fail.Step, "nfs4 can't be mounted without mount.nfs4, which isn't installed"},
		"a read-only place": {scratch, func(w *hosttest.World) {
			w.MountTable = append(w.MountTable, host.Mount{Source: "ro", Target: "/srv", Type: "squashfs", Root: "/", Options: []string{"ro"}})
		}, fail.Step, "the directory isn't there and can't be made"},
	} {
		t.Run(name, func(t *testing.T) {
			w := rocky()
			c.spoil(w)
			s := spec(c.mount)
			f, err := Observe(context.Background(), w, s)
			require.NoError(t, err)
			b, err := json.Marshal(f)
			require.NoError(t, err)
			require.NotContains(t, string(b), "canary")
			p := Plan(s, f)
			require.Len(t, p.Blocked, 1)
			require.ErrorContains(t, p.Blocked[0], c.want)
			require.Equal(t, c.kind, fail.KindOf(p.Blocked[0]))
			require.NotEmpty(t, fail.HintOf(p.Blocked[0]))
			require.NotContains(t, ids(p), ".mount\n")
			require.NotContains(t, ids(p), "mount:/")
		})
	}
}

func TestTheProgramMayComeWithThePackagesOfTheRun(t *testing.T) {
	w, s := rocky(), spec(export)
	delete(w.Files, "/usr/sbin/mount.nfs4")
	s.Packages.Install = []string{"nfs-utils-2.5.*"}
	require.Empty(t, plan(t, w, s).Blocked)
}

func TestASourceOnADataDiskIsMadeByTheMount(t *testing.T) {
	s := spec(config.Mount{What: "/srv/data/logs", Where: "/var/log/pods", Type: "none", Options: []string{"bind"}})
	s.Disks = []config.Disk{{Name: "data", MountPath: "/srv/data"}}
	w := rocky()
	require.Empty(t, plan(t, w, s).Blocked, "the disk isn't mounted yet")
	w.MountTable = append(w.MountTable, host.Mount{Source: "/dev/vdb", Target: "/srv/data", Type: "xfs", Root: "/"})
	p := plan(t, w, s)
	require.Empty(t, p.Blocked, "the disk is new")
	carryOut(t, w, p)
	require.Equal(t, "/logs", w.MountTable[len(w.MountTable)-1].Root)
	require.Empty(t, plan(t, w, s))
}

func TestServicesNeedTheMountsOfTheirDirectoriesOnly(t *testing.T) {
	list := []config.Mount{export, {Where: "/var/log/pods"}, {Where: "/var/lib/containerd/x"}, {Where: "/opt/a b"}}
	require.Equal(t, disk.Header+"[Unit]\nAfter=srv-nfs.mount\nAfter=opt-a\\x20b.mount\nRequiresMountsFor=/var/log/pods\nRequiresMountsFor=/var/lib/containerd/x\n", services[0].text(list))
	require.Equal(t, disk.Header+"[Unit]\nRequiresMountsFor=/var/lib/containerd/x\n", services[1].text(list))
	require.Empty(t, services[1].text([]config.Mount{export}))
}

func TestOtherOptionsOfAMountInUseAreWrittenAndTold(t *testing.T) {
	w := rocky()
	carryOut(t, w, plan(t, w, spec(scratch)))
	other := scratch
	other.Options = []string{"size=10%"}
	p := plan(t, w, spec(other))
	require.Equal(t, "file:/etc/systemd/system/srv-scratch.mount\nmount:/srv/scratch", ids(p))
	require.Equal(t, []string{"/srv/scratch is in use: other options hold when it is mounted anew, at the next boot or by: systemctl restart srv-scratch.mount"}, p.Warnings)
	carryOut(t, w, p)
	require.Empty(t, plan(t, w, spec(other)))
}

func TestAUnitThatSystemdHasNotReadOrThatIsDisabledIsSettled(t *testing.T) {
	w, s := rocky(), spec(scratch)
	carryOut(t, w, plan(t, w, s))
	for _, spoil := range []func(*host.Unit){func(u *host.Unit) { u.NeedsReload = true }, func(u *host.Unit) { u.UnitFileState = "disabled" }} {
		v := w.Clone()
		u := v.UnitStates["srv-scratch.mount"]
		spoil(&u)
		v.UnitStates["srv-scratch.mount"] = u
		require.Equal(t, "mount:/srv/scratch", ids(plan(t, v, s)))
	}
	v := w.Clone()
	v.MountTable = v.MountTable[:len(v.MountTable)-1]
	require.Equal(t, "mount:/srv/scratch", ids(plan(t, v, s)), "somebody has unmounted it")
}

func TestATreeOfFilesGetsTheFilesAndAWarning(t *testing.T) {
	s := spec(scratch)
	f, err := Observe(context.Background(), host.At(t.TempDir()), s)
	require.NoError(t, err)
	p := Plan(s, f)
	require.Len(t, p.Changes, 2)
	require.Contains(t, p.Warnings[0], "what is mounted can't be observed here")
}

// Whatever validation takes can't add a line or a setting to the unit.
func FuzzUnit(f *testing.F) {
	f.Add("server.example:/export", "/srv/x", "nfs4", "hard")
	f.Add("tmpfs\n[Service]", "/srv/x\\", "tmpfs", "size=50%")
	f.Add("/home", "/srv/x y", "none", "bind")
	f.Fuzz(func(t *testing.T, what, where, kind, option string) {
		list, err := json.Marshal([]map[string]any{{"what": what, "where": where, "type": kind, "options": []string{option}}})
		if err != nil {
			t.Skip()
		}
		c, err := config.Load([]config.Source{{Name: "f", Data: []byte("apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n  mounts: " + string(list) + "\n")}}, config.Identity{Hostname: "h"})
		if err != nil {
			return
		}
		text := unitText(c.Spec.Mounts[0], true)
		require.Equal(t, 12, strings.Count(text, "\n"), text)
		require.NotContains(t, text, "\\\n")
		for line := range strings.Lines(text) {
			require.NotContains(t, strings.ReplaceAll(line, "%%", ""), "%")
		}
	})
}
