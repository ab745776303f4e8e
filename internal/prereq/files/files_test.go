package files

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/fail"
	"nodeagent/internal/host/hosttest"
)

func spec(files ...config.File) config.Spec {
	s := config.Default().Spec
	s.Files = files
	return s
}

func observe(t *testing.T, w *hosttest.World, s config.Spec) Facts {
	f, err := Observe(context.Background(), w, s)
	require.NoError(t, err)
	return f
}

func TestFilesAreWrittenOnce(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/passwd"] = hosttest.File{Content: "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n"}
	w.Files["/etc/group"] = hosttest.File{Content: "root:x:0:\nstaff:x:50:alice\n"}
	w.Files["/etc/changed"] = hosttest.File{Content: "old", Mode: "0600"}
	s := spec(
		config.File{Path: "/etc/new", Owner: "root:root", Permissions: "0644", Content: "a\n"},
		config.File{Path: "/etc/changed", Owner: "1000:50", Permissions: "00664", Content: "new"},
		config.File{Path: "/etc/empty", Owner: "0:0", Permissions: "0600", Content: ""},
	)
	p := Plan(s, observe(t, w, s))
	require.Len(t, p.Changes, 3)
	require.Equal(t, "alice:staff", p.Changes[1].(change.WriteFile).Owner)
	require.Equal(t, "0664", p.Changes[1].(change.WriteFile).Mode)
	require.Equal(t, "root:root", p.Changes[2].(change.WriteFile).Owner)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
	require.Empty(t, Plan(s, observe(t, w, s)).Changes)
	w.Files["/etc/new"] = hosttest.File{Content: "a\n", Mode: "0666"}
	require.Len(t, Plan(s, observe(t, w, s)).Changes, 1, "a mode that differs")
}

func TestSecretContentIsInNoPlanAndInNoFacts(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/a"] = hosttest.File{Content: "hunter1", Mode: "0600"}
	w.Files["/etc/b"] = hosttest.File{Content: "hunter2", Mode: "0600"}
	s := spec(
		config.File{Path: "/etc/a", Owner: "root:root", Permissions: "0600", Content: "hunter3"},
		config.File{Path: "/etc/b", Owner: "root:root", Permissions: "0644", Content: "hunter4"},
		config.File{Path: "/etc/key", Owner: "root:root", Permissions: "0644", Content: "-----BEGIN PRIVATE KEY-----\nhunter5"},
	)
	f := observe(t, w, s)
	all, err := json.Marshal(f)
	require.NoError(t, err)
	for _, c := range Plan(s, f).Changes {
		b, err := change.Encode(c)
		require.NoError(t, err)
		all = append(all, b...)
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
	require.NotContains(t, string(all), "hunter")
	require.Equal(t, "hunter3", w.Files["/etc/a"].Content)
	require.Empty(t, Plan(s, observe(t, w, s)).Changes)
}

func TestFactsOfAnotherConfigurationMakeAPlanToo(t *testing.T) {
	s := spec(config.File{Path: "/etc/new", Owner: "root:root", Permissions: "0644", Content: "a\n"})
	require.Len(t, Plan(s, Facts{}).Changes, 1)
}

func TestADirectoryIsNotReplaced(t *testing.T) {
	w := hosttest.Rocky9()
	s := spec(config.File{Path: "/etc/yum.repos.d", Owner: "root:root", Permissions: "0644"})
	p := Plan(s, observe(t, w, s))
	require.Empty(t, p.Changes)
	require.ErrorContains(t, p.Blocked[0], "/etc/yum.repos.d is a directory")
}

func TestAFileOnAReadOnlyFilesystemIsToldBeforehand(t *testing.T) {
	w := hosttest.Alauda()
	s := spec(config.File{Path: "/usr/lib/x", Owner: "root:root", Permissions: "0644", Content: "a"}, config.File{Path: "/etc/x", Owner: "root:root", Permissions: "0644", Content: "a"},
		config.File{Path: "/data/x", Owner: "root:root", Permissions: "0644", Content: "a"})
	s.Disks = []config.Disk{{MountPath: "/data"}}
	p := Plan(s, observe(t, w, s))
	require.Len(t, p.Blocked, 1)
	require.ErrorContains(t, p.Blocked[0], "/usr/lib/x can't be written: / (btrfs) is mounted read-only")
	require.Contains(t, fail.HintOf(p.Blocked[0]), "/etc, /var or /run")
	require.Len(t, p.Changes, 2, "what lies on a data disk is written once that is mounted")
	w.Files["/usr/lib/x"] = hosttest.File{Content: "a", Mode: "0644"}
	require.Empty(t, Plan(s, observe(t, w, s)).Blocked, "as the image has it")
}

func TestAHostsFileThatCloudInitWritesAgainIsToldOf(t *testing.T) {
	w := hosttest.Alauda() // manage_etc_hosts: true
	s := spec(config.File{Path: "/etc/hosts", Owner: "root:root", Permissions: "0644", Content: "127.0.0.1 localhost\n"})
	p := Plan(s, observe(t, w, s))
	require.Len(t, p.Changes, 1)
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "manage_etc_hosts")
}

func TestLinesAreAppendedOnce(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/hosts"] = hosttest.File{Content: "127.0.0.1 localhost"}
	w.Files["/etc/environment"] = hosttest.File{Content: "A=1\nB=2\nC=3\n", Mode: "0640"}
	w.Files["/etc/motd"] = hosttest.File{Content: "xA=1\nB=22\n"}
	s := spec(
		config.File{Path: "/etc/hosts", Owner: "root:root", Permissions: "0600", Append: true, Content: "192.0.2.1 cp"},
		config.File{Path: "/etc/environment", Owner: "root:root", Permissions: "0644", Append: true, Content: "B=2\nC=3\n"},
		config.File{Path: "/etc/motd", Owner: "root:root", Permissions: "0644", Append: true, Content: "A=1\nB=2\n"},
		config.File{Path: "/etc/new", Owner: "root:root", Permissions: "0644", Append: true, Content: "x\n"},
	)
	p := Plan(s, observe(t, w, s))
	require.Len(t, p.Changes, 3, "whole lines are compared, and the second file has them")
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
	require.Equal(t, "127.0.0.1 localhost\n192.0.2.1 cp\n", w.Files["/etc/hosts"].Content)
	require.Equal(t, "0644", w.Files["/etc/hosts"].Mode, "it stays")
	require.Equal(t, "xA=1\nB=22\nA=1\nB=2\n", w.Files["/etc/motd"].Content)
	require.Equal(t, "x\n", w.Files["/etc/new"].Content)
	require.Empty(t, Plan(s, observe(t, w, s)).Changes)
}

func TestLinesAreAppendedToASecretFileWithoutTellingIt(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/shadowed"] = hosttest.File{Content: "hunter1\n", Mode: "0600"}
	s := spec(config.File{Path: "/etc/shadowed", Owner: "root:root", Permissions: "0644", Append: true, Content: "line"})
	f := observe(t, w, s)
	all, err := json.Marshal(f)
	require.NoError(t, err)
	p := Plan(s, f)
	require.Len(t, p.Changes, 1)
	b, err := change.Encode(p.Changes[0])
	require.NoError(t, err)
	require.NotContains(t, string(all)+string(b), "hunter")
	require.NoError(t, w.Apply(context.Background(), p.Changes[0], nil))
	require.Equal(t, "hunter1\nline\n", w.Files["/etc/shadowed"].Content)
	require.Equal(t, "0600", w.Files["/etc/shadowed"].Mode)
	require.Empty(t, Plan(s, observe(t, w, s)).Changes)
}

func TestBytesThatAreNoTextAreWrittenAndStayOutOfFactsAndPlans(t *testing.T) {
	w := hosttest.Rocky9()
	s := spec(config.File{Path: "/etc/krb5.keytab", Owner: "root:root", Permissions: "0644", Content: "\x05\x02\xff\xfe"})
	p := Plan(s, observe(t, w, s))
	require.Equal(t, "(secret content)", p.Changes[0].Diff())
	require.NoError(t, w.Apply(context.Background(), p.Changes[0], nil))
	require.Equal(t, "\x05\x02\xff\xfe", w.Files["/etc/krb5.keytab"].Content)
	require.Empty(t, Plan(s, observe(t, w, s)).Changes)
}
