package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/fail"
)

const mountsHead = "apiVersion: nodeagent/v1alpha1\nkind: NodeConfig\nspec:\n  kubernetes: {version: v1.35.4}\n  join: {token: {file: /t}}\n" +
	"  disks: [{name: data, select: {label: data}, filesystem: {type: xfs, label: data}, mountPath: /srv/data}]\n  mounts: "

func loadMounts(list string) (Spec, error) {
	c, err := Load([]Source{{Name: "test", Data: []byte(mountsHead + list + "\n")}}, Identity{Hostname: "h"})
	if err != nil {
		return Spec{}, err
	}
	return c.Spec, nil
}

func TestMountsAreChecked(t *testing.T) {
	at := func(where string) string { return "[{what: tmpfs, where: " + where + ", type: tmpfs}]" }
	with := func(option string) string {
		return "[{what: //server.example/share, where: /srv/x, type: cifs, options: ['" + option + "']}]"
	}
	for _, c := range []struct{ list, want string }{
		{"[{where: /srv/x, type: tmpfs}]", "spec.mounts[0].what: missing"},
		{"[{what: tmpfs, where: /srv/x}]", "spec.mounts[0].type: missing"},
		{"[{what: /dev/sdb1, where: /srv/x, type: virtiofs}]", "/dev/sdb1 is a block device, and those belong to spec.disks"},
		{"[{what: LABEL=x, where: /srv/x, type: virtiofs}]", "LABEL=x is a block device"},
		{"[{what: PARTUUID=x, where: /srv/x, type: xfs}]", "xfs lies on a block device"},
		{"[{what: x, where: /srv/x, type: zfs}]", `"zfs" is no filesystem type that nodeagent mounts`},
		{"[{what: /home, where: /srv/x, type: none}]", "the option bind is missing"},
		{"[{what: /home, where: /srv/x, type: bind}]", `"bind" is not the type of a bind mount`},
		{"[{what: /home, where: /srv/x, options: [bind]}]", `"" is not the type of a bind mount`},
		{"[{what: /home, where: /srv/x, type: tmpfs, options: [bind]}]", "a bind mount can't be of type tmpfs"},
		{"[{what: home, where: /srv/x, type: none, options: [bind]}]", `"home" is not a clean absolute path`},
		{"[{what: /srv/x/y, where: /srv/x, type: none, options: [bind]}]", "/srv/x/y would be hidden by the mount on /srv/x itself"},
		{"[{what: server, where: /srv/x, type: nfs4}]", `"server" is not an NFS export`},
		{"[{what: '/export', where: /srv/x, type: nfs}]", `"/export" is not an NFS export`},
		{"[{what: server.example/share, where: /srv/x, type: cifs}]", `"server.example/share" is not an SMB share`},
		{`[{what: '\\server\share', where: /srv/x, type: cifs}]`, "a Windows share is //server/share"},
		{`[{what: "tmpfs\nExecStart=x", where: /srv/x, type: tmpfs}]`, "can't go into a mount unit"},
		{"[{what: '//user:canary@server/share', where: /srv/x, type: cifs}]", "it holds a password"},
		{at("srv/x"), `"srv/x" is not a clean absolute path`},
		{at("/srv/x/"), `"/srv/x/" is not a clean absolute path`},
		{at("/srv/../etc"), "is not a clean absolute path"},
		{at(`"/srv/x\nWhat=y"`), "is not a clean absolute path"},
		{at(`'/srv/"x'`), "can't be a mount point"},
		{at("/"), "a mount on / would hide or change"},
		{at("/var"), "a mount on /var would hide or change /var/lib/nodeagent"},
		{at("/var/lib/nodeagent/x"), "belongs to the system"},
		{at("/dev/shm"), "would hide or change /dev"},
		{at("/proc/x"), "would hide or change /proc"},
		{at("/boot/efi"), "would hide or change /boot"},
		{at("/usr"), "/usr belongs to the system"},
		{at("/tmp"), "/tmp belongs to the system"},
		{at("/root"), "/root belongs to the system"},
		{at("/srv"), "would hide the data disk data, which is mounted on /srv/data"},
		{at("/srv/data"), "would hide the data disk data"},
		{"[{what: a, where: /srv/x, type: tmpfs}, {what: b, where: /srv/x, type: tmpfs}]", "spec.mounts[1].where: /srv/x is a mount point twice"},
		{"[{what: /b/x, where: /a, type: none, options: [bind]}, {what: /a/x, where: /b, type: none, options: [bind]}]", "the mounts of /a and /b wait for each other"},
		{with("password=canary"), "password= holds a secret"},
		{with("pass=canary"), "credentials=FILE"},
		{with("username=me%canary"), "username= holds a secret"},
		{with("ro,rw"), `"ro,rw" is not a mount option`},
		{with("a b"), `"a b" is not a mount option`},
		{with("x-systemd.automount"), "has a meaning in fstab only"},
		{with("noauto"), "has a meaning in fstab only"},
		{with("remount"), "remount is nothing that a mount unit can do"},
		{"[{what: /home, where: /srv/x, type: none, options: [bind, rbind]}]", "rbind can't be unmounted as a whole"},
		{"[{what: 'a:6789:/', where: /srv/x, type: ceph, options: ['secret=canary']}]", "secretfile=FILE"},
	} {
		_, err := loadMounts(c.list)
		require.Error(t, err, c.list)
		text := err.Error() + fail.HintOf(err)
		require.Contains(t, text, c.want, c.list)
		require.NotContains(t, text, "canary", c.list)
	}
}

func TestMountsThatCanBeMadeAreTaken(t *testing.T) {
	for _, list := range []string{
		"[{what: 'server.example:/export', where: /srv/x, type: nfs4, options: [hard, nfsvers=4.2, 'clientaddr=192.0.2.1']}]",
		"[{what: '[2001:db8::1]:/', where: /srv/x, type: nfs}]",
		"[{what: //server.example/my share, where: /srv/x, type: cifs, options: [credentials=/etc/smb, uid=0, seal]}]",
		"[{what: tmpfs, where: /srv/data/scratch, type: tmpfs, options: [size=50%, mode=1777]}]",
		"[{what: /srv/data/logs, where: /var/log/pods, type: none, options: [bind, ro]}]",
		"[{what: 'a.example,b.example:/', where: /srv/x, type: ceph, options: [name=me, secretfile=/etc/ceph/me]}]",
	} {
		_, err := loadMounts(list)
		require.NoError(t, err, list)
	}
}

func TestMountsComeAfterWhatTheyLieOnAndNeedItsNetwork(t *testing.T) {
	bind := func(what, where string) Mount {
		return Mount{What: what, Where: where, Type: "none", Options: []string{"bind"}}
	}
	s := Spec{Mounts: []Mount{
		bind("/b/x", "/a"), bind("/nfs/x", "/b"), {What: "tmpfs", Where: "/nfs/scratch", Type: "tmpfs"}, {What: "s:/", Where: "/nfs", Type: "nfs"}, bind("/home", "/c"),
		{What: "tag", Where: "/p", Type: "9p", Options: []string{"trans=virtio"}}, {What: "192.0.2.1", Where: "/q", Type: "9p", Options: []string{"trans=tcp"}},
	}}
	order, circle := s.MountsInOrder()
	require.Empty(t, circle)
	var at []string
	for _, m := range order {
		at = append(at, m.Where)
	}
	require.Equal(t, "/nfs /b /a /nfs/scratch /c /p /q", strings.Join(at, " "))
	require.Equal(t, map[string]bool{"/nfs": true, "/b": true, "/a": true, "/nfs/scratch": true, "/q": true}, s.RemoteMounts())
}
