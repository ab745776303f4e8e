package reset

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/config"
	"nodeagent/internal/host"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/run/journal"
)

// do carries changes out as a run does: what was there, the intent, the change.
func do(t *testing.T, w *hosttest.World, changes ...change.Change) {
	t.Helper()
	for _, c := range changes {
		intend(t, w, c)
		require.NoError(t, w.Apply(context.Background(), c, nil))
	}
}

// intend is as far as a run gets that is killed before the change.
func intend(t *testing.T, w *hosttest.World, c change.Change) {
	t.Helper()
	prior, err := Before(context.Background(), w, c)
	require.NoError(t, err)
	encoded, err := change.Encode(c)
	require.NoError(t, err)
	line, err := journal.Entry{Event: journal.Intent, Step: "files", ID: c.ID(), Change: encoded, Prior: prior}.Line()
	require.NoError(t, err)
	require.NoError(t, w.Append(journal.Path, line))
}

// back plans, carries out, and wants nothing left to do.
func back(t *testing.T, w *hosttest.World, o Options) change.Plan {
	t.Helper()
	ctx, r := context.Background(), New(o)
	f, err := r.Observe("files")(ctx, w, config.Spec{})
	require.NoError(t, err)
	p := Plan(config.Spec{}, f)
	for _, c := range p.Changes {
		require.NoError(t, w.Apply(ctx, c, nil), c.Summary())
	}
	f, err = r.Observe("files")(ctx, w, config.Spec{})
	require.NoError(t, err)
	require.Empty(t, Plan(config.Spec{}, f).Changes, "nothing is left to do")
	return p
}

func write(w *hosttest.World, path, content string) change.WriteFile {
	t, _ := host.ReadText(w, path)
	c, _ := t.Keep(path, content, "")
	return c
}

func TestWhatOthersChangedIsLeftAndTold(t *testing.T) {
	const path, old = "/etc/fstab", "UUID=0f1e\t/\txfs\tdefaults\t0\t0\n/swap.img\tnone\tswap\tsw\t0\t0\n"
	for name, c := range map[string]struct {
		since string // what somebody makes of it afterwards
		want  string
		told  string
	}{
		"nobody":                          {"ours\n", old, ""},
		"somebody":                        {"ours\nand theirs\n", "ours\nand theirs\n", "/etc/fstab was changed since: left as it is"},
		"it was put back by hand already": {old, old, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			do(t, w, write(w, path, "ours\n"))
			w.Files[path] = hosttest.File{Content: c.since}
			p := back(t, w, Options{})
			require.Equal(t, c.want, w.Files[path].Content)
			require.Equal(t, c.told, strings.Join(p.Warnings, "\n"))
		})
	}
}

func TestAFileGoesBackThroughEveryWriteOfOurs(t *testing.T) {
	const path = "/etc/lab/new/file"
	w := hosttest.Rocky9()
	before := w.String()
	do(t, w, write(w, path, "one\n"))
	do(t, w, write(w, path, "two\n"), change.RemoveFile{Path: path, Before: &change.Saved{Mode: "0644", Owner: "root:root", Content: "two\n"}})
	do(t, w, write(w, path, "three\n"))
	intend(t, w, write(w, path, "never written\n"))
	p := back(t, w, Options{})
	require.Equal(t, before, w.String())
	require.Equal(t, []string{"/etc/lab", "/etc/lab/new"}, p.Changes[0].(change.RemoveFile).Dirs, "the directories that were made for it go along")
}

func TestAFileThatOthersChangedInBetweenGetsTheirsBack(t *testing.T) {
	const path = "/etc/hosts"
	w := hosttest.Rocky9()
	do(t, w, write(w, path, "ours\n"))
	w.Files[path] = hosttest.File{Content: "ours\ntheirs\n"}
	do(t, w, write(w, path, "ours again\n"))
	p := back(t, w, Options{})
	require.Equal(t, "ours\ntheirs\n", w.Files[path].Content)
	require.Equal(t, []string{"/etc/hosts was changed by others in between: it gets back what they left"}, p.Warnings)
}

func TestASecretFileGoesBackWithoutItsContentInThePlan(t *testing.T) {
	const path = "/etc/secret"
	secret := func(content string) change.WriteFile {
		return change.WriteFile{Path: path, Mode: "0600", Owner: "root:root", Content: content, Secret: true}
	}
	text := func(w *hosttest.World, p change.Plan) string {
		s := w.Files[journal.Path].Content
		for _, c := range p.Changes {
			raw, err := change.Encode(c)
			require.NoError(t, err)
			s += string(raw) + c.Diff()
		}
		return s
	}
	for name, c := range map[string]struct {
		begin  map[string]hosttest.File
		writes []change.WriteFile
		since  string
	}{
		"there was none":                 {nil, []change.WriteFile{secret("hunter2")}, ""},
		"there was one":                  {map[string]hosttest.File{path: {Content: "hunter1", Mode: "0600"}}, []change.WriteFile{secret("hunter2"), secret("hunter3")}, ""},
		"it was none of a secret before": {nil, []change.WriteFile{{Path: path, Mode: "0644", Owner: "root:root", Content: "public"}, secret("hunter2")}, ""},
		"it was changed since":           {map[string]hosttest.File{path: {Content: "hunter1", Mode: "0600"}}, []change.WriteFile{secret("hunter2")}, "hunter4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			for p, f := range c.begin {
				w.Files[p] = f
			}
			before := w.String()
			for _, wr := range c.writes {
				do(t, w, wr)
			}
			if c.since != "" {
				w.Files[path] = hosttest.File{Content: c.since, Mode: "0600"}
			}
			p := back(t, w, Options{})
			require.NotContains(t, text(w, p), "hunter")
			if c.since != "" {
				require.Equal(t, c.since, w.Files[path].Content)
				require.Equal(t, []string{path + " was changed since: left as it is"}, p.Warnings)
				return
			}
			require.Equal(t, before, w.String())
		})
	}
}

func TestAServiceThatRanRunsAgainWithItsOldConfiguration(t *testing.T) {
	const path, unit = "/etc/containerd/config.toml", "containerd.service"
	w := hosttest.Rocky9()
	w.UnitStates[unit] = host.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "disabled"}
	do(t, w, write(w, path, "ours\n"), change.SetUnit{Unit: unit, Enable: true, Restart: true})
	p := back(t, w, Options{})
	var what []string
	for _, c := range p.Changes {
		what = append(what, c.Summary())
	}
	require.Equal(t, []string{"disable containerd.service: as it was", "remove " + path, "restart containerd.service: its configuration is as it was"}, what)
	require.Equal(t, "active", w.UnitStates[unit].ActiveState)
}

func TestWhatAJoinFoundThereStays(t *testing.T) {
	w := hosttest.Rocky9()
	w.Files["/etc/cni/net.d/10-theirs.conflist"] = hosttest.File{Content: "{}"}
	w.Cluster.Chains = []string{"nft ipv4 filter KUBE-OLD"}
	w.MountTable = append(w.MountTable, host.Mount{Source: "/dev/vdx", Target: "/var/lib/kubelet/plugins/theirs", Type: "xfs"})
	w.UnitStates["var-lib-kubelet-plugins-theirs.mount"] = host.Unit{LoadState: "loaded", ActiveState: "active", FragmentPath: "/etc/systemd/system/var-lib-kubelet-plugins-theirs.mount"}
	w.UnitStates["containerd.service"] = host.Unit{LoadState: "loaded", ActiveState: "active"}
	w.UnitStates["kubelet.service"] = host.Unit{LoadState: "loaded", ActiveState: "inactive"}
	before := w.String()
	do(t, w, change.FetchToken{Inline: "x"}, change.Join{NodeName: "n", Socket: "unix:///run/containerd/containerd.sock"})
	p := back(t, w, Options{})
	require.Equal(t, before, w.String())
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "kubectl drain n")
}

func TestWhatIsTakenBackStandsNoMoreAndTheRestDoes(t *testing.T) {
	w := hosttest.Rocky9()
	do(t, w, write(w, "/etc/a", "a\n"), write(w, "/etc/b", "b\n"))
	w.Files["/etc/b"] = hosttest.File{Content: "theirs\n"}
	back(t, w, Options{})
	ids, err := New(Options{}).Undone(context.Background(), w)
	require.NoError(t, err)
	require.Equal(t, []string{"file:/etc/a"}, ids)
	line, err := journal.Entry{Event: journal.Undone, ID: "reset", IDs: ids, Reset: true}.Line()
	require.NoError(t, err)
	require.NoError(t, w.Append(journal.Path, line))
	deeds := Standing(journal.Parse([]byte(w.Files[journal.Path].Content)))
	require.Len(t, deeds, 1)
	require.Equal(t, []string{"file:/etc/b"}, deeds[0].IDs)
}

func TestPackagesThatOthersNeedAreKeptAndTold(t *testing.T) {
	w := hosttest.Rocky9()
	w.Packages["socat"] = "1.0"
	do(t, w, change.InstallPackages{Manager: "dnf", Packages: []string{"kubelet-1.35.4-*", "conntrack-tools", "socat"}, Optional: []string{"ethtool", "nowhere"}})
	p := back(t, w, Options{})
	require.Empty(t, p.Changes)
	require.Equal(t, []string{"kept: conntrack-tools, ethtool, kubelet, which nodeagent installed; --remove-packages removes what nobody else needs of it"}, p.Warnings)
	w.Needs = map[string]string{"conntrack-tools": "their-tool"}
	p = back(t, w, Options{RemovePackages: true})
	require.Equal(t, []string{"kept: conntrack-tools, which nodeagent installed; their-tool needs it"}, p.Warnings)
	require.Equal(t, []change.Change{change.RemovePackages{Manager: "dnf", Packages: []string{"ethtool", "kubelet"}}}, p.Changes)
	require.Contains(t, w.Packages, "socat", "it was there before")
}

func TestOnlyKeysThatCameAreDropped(t *testing.T) {
	keys := change.ImportKeys{Repository: "r", Keys: []string{"https://repo.example/key.asc"}, StoreAs: "/etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-r"}
	for name, before := range map[string]string{"it is new": "", "the administrator had imported it": "key"} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			if before != "" {
				w.Packages[pubkeys] = before
			}
			do(t, w, keys)
			p := back(t, w, Options{})
			require.Equal(t, before == "", len(p.Changes) == 2, "the key, and the file")
			require.NotContains(t, w.Files, keys.StoreAs)
		})
	}
}

// Whatever a crash or a hand has made of a journal, a reset plans something or
// says why not.
func FuzzStandingReadsAnyJournal(f *testing.F) {
	w := hosttest.Rocky9()
	for _, c := range []change.Change{write(w, "/etc/a", "a\n"), change.SetSysctl{Key: "kernel.panic", Value: "10"}, change.Join{NodeName: "n"}, change.SetUnit{Unit: "a.service", Enable: true}} {
		raw, err := change.Encode(c)
		if err != nil {
			f.Fatal(err)
		}
		line, err := journal.Entry{Event: journal.Intent, Step: "files", ID: c.ID(), Change: raw, Prior: json.RawMessage(`{"value":"0"}`)}.Line()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := hosttest.Rocky9()
		w.Files[journal.Path] = hosttest.File{Content: string(b)}
		deeds := Standing(journal.Parse(b))
		for _, d := range deeds {
			facts, err := New(Options{ForgetDisks: true, RemovePackages: true}).Observe(d.Step)(context.Background(), w, config.Spec{})
			if err == nil {
				Plan(config.Spec{}, facts)
			}
		}
	})
}
