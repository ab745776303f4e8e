package host

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// TestARealDnf runs the host's own functions against a real dnf and rpm in a
// throw-away root. Its parts are one story.
func TestARealDnf(t *testing.T) {
	if os.Getenv(dnfInside) == "" {
		enterThrowAwayRoot(t)
		return
	}
	d := &dnfStory{t: t, l: New(), dir: "/srv/repos"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServer(http.Dir(d.dir)).ServeHTTP(w, r)
	}))
	defer server.Close()
	d.url = server.URL
	run(t, nil, "sh", "-c", "rm -f /etc/yum.repos.d/*.repo /etc/pki/rpm-gpg/*nodeagent*")
	for _, part := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"O4 a repository without metadata is told by id and URL", d.probe},
		{"a key that is a web page is refused", d.notAKey},
		{"keys are stored and imported", d.keys},
		{"P1 an excluded package is called excluded", d.excluded},
		{"P2 a version that isn't there is not found", d.notFound},
		{"what is asked for is installed, optional packages where there are some", d.install},
		{"a second time is fine", d.install},
		{"another version is an upgrade", d.upgrade},
		{"what a cut-off transaction harmed is fetched again, though its repository hides it", d.cutOff},
		{"packages go again, but not what others need", d.remove},
		{"P6 a lock is waited for and its holder named", d.locked},
		{"P8 conflicts are solved only by removing what is listed", d.conflict},
		{"a missing dependency is named", d.dependency},
		{"an unsigned package is refused", d.unsigned},
		{"keys are fetched anew when the signer has changed", d.rotated},
		{"a server that comes back is waited for", d.network},
		{"a key is dropped", d.dropKey},
	} {
		if !t.Run(part.name, part.run) {
			return
		}
	}
}

type dnfStory struct {
	t   *testing.T
	l   *Linux
	dir string
	url string
	log []string // progress of the last install
}

// repo writes a .repo file; more are further lines of it.
func (d *dnfStory) repo(t *testing.T, id, location string, more ...string) {
	t.Helper()
	text := "[" + id + "]\nname=" + id + "\nbaseurl=" + location + "\nenabled=1\ngpgcheck=1\nmetadata_expire=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-" + id + "\n" + strings.Join(more, "\n") + "\n"
	require.NoError(t, os.WriteFile("/etc/yum.repos.d/"+id+".repo", []byte(text), 0o644))
}

func (d *dnfStory) install1(ctx context.Context, c change.InstallPackages) error {
	d.log = nil
	c.Manager = "dnf"
	return d.l.Apply(ctx, c, func(s string) { d.log = append(d.log, s) })
}

// quick makes the pauses between tries short.
func quick(t *testing.T, first time.Duration) context.Context {
	return context.WithValue(t.Context(), paceKey{}, first)
}

func (d *dnfStory) installed(t *testing.T, name string) string {
	t.Helper()
	have, err := d.l.rpmQuery(t.Context(), []string{name})
	require.NoError(t, err)
	return have[name]
}

func (d *dnfStory) key(repo, name string) change.ImportKeys {
	return change.ImportKeys{Repository: repo, Keys: []string{d.url + "/" + name + ".asc"}, StoreAs: "/etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-" + repo}
}

func (d *dnfStory) probe(t *testing.T) {
	require.NoError(t, d.l.Apply(t.Context(), change.ProbeRepository{Repository: "kubernetes", BaseURL: d.url + "/kubernetes/"}, nil))
	err := d.l.Apply(t.Context(), change.ProbeRepository{Repository: "kubernetes", BaseURL: d.url + "/9.7"}, nil)
	require.ErrorContains(t, err, "repository kubernetes has no metadata at "+d.url+"/9.7")
	require.ErrorContains(t, err, "404")
}

func (d *dnfStory) notAKey(t *testing.T) {
	c := d.key("kubernetes", "first")
	c.Keys = []string{d.url + "/kubernetes/"}
	require.ErrorContains(t, d.l.Apply(t.Context(), c, nil), "is not an OpenPGP public key")
	require.NoFileExists(t, c.StoreAs)
}

func (d *dnfStory) keys(t *testing.T) {
	for _, repo := range []string{"kubernetes", "runtime"} {
		require.NoError(t, d.l.Apply(t.Context(), d.key(repo, "first"), nil))
	}
	require.Contains(t, run(t, nil, "rpm", "-q", "--qf", "%{SUMMARY}\n", "gpg-pubkey"), "first")
	info, err := os.Stat(d.key("kubernetes", "").StoreAs)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	d.repo(t, "kubernetes", d.url+"/kubernetes", "exclude=kubelet kubeadm kubernetes-cni")
	d.repo(t, "runtime", "file://"+d.dir+"/runtime")
}

func (d *dnfStory) excluded(t *testing.T) {
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubelet-1.34.2-*"}})
	require.ErrorContains(t, err, "kubelet-1.34.2-* is excluded")
}

func (d *dnfStory) notFound(t *testing.T) {
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubelet-1.34.2-0", "kubeadm-1.35.4-*"}, Optional: []string{"nosuch"}, Unlock: []string{"kubernetes"}})
	require.ErrorContains(t, err, "no enabled repository has kubelet-1.34.2-0")
	require.NotContains(t, err.Error(), "nosuch")
	require.Empty(t, d.installed(t, "kubeadm"), "it is one transaction")
}

func (d *dnfStory) install(t *testing.T) {
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubelet-1.34.2-*", "iptables"}, Optional: []string{"socat", "kubeadm-1.35.4-*", "cri-tools"}, Unlock: []string{"kubernetes"}})
	require.NoError(t, err)
	require.Equal(t, "1.34.2-1.el9", d.installed(t, "kubelet"))
	require.Equal(t, "1.35.4-1.el9", d.installed(t, "kubeadm"))
	require.Equal(t, "1.8.10-1.el9", d.installed(t, "iptables"))
	require.Contains(t, strings.Join(d.log, "\n"), "going on without socat, cri-tools")
}

func (d *dnfStory) upgrade(t *testing.T) {
	require.NoError(t, d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubelet-1.35.4-*"}, Unlock: []string{"kubernetes"}}))
	require.Equal(t, "1.35.4-1.el9", d.installed(t, "kubelet"))
	require.Contains(t, strings.Join(d.log, "\n"), "upgrading kubelet-1.35.4-1.el9.noarch (1/2)")
}

// cutOff is an empty file of a package whose database entry says that it is
// whole, as a power cut leaves it (found by cutting a guest's power).
func (d *dnfStory) cutOff(t *testing.T) {
	files := strings.Fields(run(t, nil, "rpm", "-ql", "kubelet"))
	require.NotEmpty(t, files, "a kubelet without files can't be harmed")
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NotEmpty(t, whole)
	require.NoError(t, os.Truncate(files[0], 0))
	// Without the repository, the message names the package and the way out.
	err = d.install1(t.Context(), change.InstallPackages{CutOff: 1})
	require.ErrorContains(t, err, "kubelet is damaged since a package transaction was cut off, and can't be installed again")
	require.Contains(t, fail.HintOf(err), "kubelet")
	require.NoError(t, d.install1(t.Context(), change.InstallPackages{CutOff: 1, Unlock: []string{"kubernetes"}}))
	require.Contains(t, strings.Join(d.log, "\n"), "installing again what was cut off: kubelet")
	again, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, whole, again)
}

func (d *dnfStory) locked(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	require.NoError(t, sleep.Start())
	stop := func() { sleep.Process.Kill(); sleep.Wait() }
	defer stop() // a second time does nothing
	lock := "/var/cache/dnf/metadata_lock.pid"
	who := "process " + strconv.Itoa(sleep.Process.Pid) + " (sleep)"
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(sleep.Process.Pid)), 0o644))
	err := d.install1(quick(t, time.Millisecond), change.InstallPackages{Packages: []string{"runc"}})
	require.ErrorContains(t, err, "locked by "+who)
	require.Equal(t, fail.Timeout, fail.KindOf(err))
	told := "" // the lock goes when somebody is told that it is waited for
	require.NoError(t, d.l.Apply(quick(t, 100*time.Millisecond), change.InstallPackages{Manager: "dnf", Packages: []string{"runc"}}, func(s string) {
		if told == "" {
			told = s
			stop()
			os.Remove(lock)
		}
	}))
	require.Contains(t, told, "waiting for "+who)
	// rpm's own lock, which names nobody.
	rpmdb := strings.TrimSpace(run(t, nil, "rpm", "--eval", "%{_dbpath}"))
	holder := exec.Command("python3", "-c", "import fcntl,time\nf=open('"+rpmdb+"/.rpm.lock','w')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',flush=True)\ntime.sleep(60)")
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	defer func() { holder.Process.Kill(); holder.Wait() }()
	_, err = out.Read(make([]byte, 8))
	require.NoError(t, err)
	err = d.install1(quick(t, time.Millisecond), change.InstallPackages{Packages: []string{"podman"}})
	require.ErrorContains(t, err, "locked by process "+strconv.Itoa(holder.Process.Pid)+" (python3)")
}

func (d *dnfStory) conflict(t *testing.T) {
	require.NoError(t, d.install1(t.Context(), change.InstallPackages{Packages: []string{"podman"}}))
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"containerd.io"}})
	require.ErrorContains(t, err, "containerd.io-2.2.9-1.el9.noarch conflicts with ")
	require.Contains(t, fail.HintOf(err), "spec.packages.remove")
	err = d.install1(t.Context(), change.InstallPackages{Packages: []string{"containerd.io"}, Remove: []string{"runc"}})
	require.ErrorContains(t, err, "would also remove podman")
	require.NotEmpty(t, d.installed(t, "podman"))
	require.NoError(t, d.install1(t.Context(), change.InstallPackages{Packages: []string{"containerd.io"}, Remove: []string{"runc", "podman"}}))
	require.Empty(t, d.installed(t, "podman"))
	require.Equal(t, "2.2.9-1.el9", d.installed(t, "containerd.io"))
}

func (d *dnfStory) dependency(t *testing.T) {
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"broken"}})
	require.ErrorContains(t, err, "nothing provides libnothere.so.1 needed by broken-1.0-1.el9.noarch")
}

func (d *dnfStory) unsigned(t *testing.T) {
	d.repo(t, "unsigned", "file://"+d.dir+"/unsigned")
	defer os.Remove("/etc/yum.repos.d/unsigned.repo")
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"unsigned"}, Keys: []change.ImportKeys{d.key("unsigned", "first")}})
	require.ErrorContains(t, err, "is not signed")
	require.Empty(t, d.installed(t, "unsigned"))
}

func (d *dnfStory) rotated(t *testing.T) {
	run(t, nil, "rpm", "-e", "--nodeps", "kubelet", "kubeadm", "kubernetes-cni")
	run(t, nil, "sh", "-c", "cp /srv/repos/rotated/*.rpm /srv/repos/kubernetes/ && cp -r /srv/repos/rotated/repodata /srv/repos/kubernetes/ && cp /srv/repos/second.asc /srv/repos/first.asc")
	run(t, nil, "dnf", "clean", "all")
	err := d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubeadm-1.35.4-*"}, Unlock: []string{"kubernetes"}})
	require.ErrorContains(t, err, "signature of")
	err = d.install1(t.Context(), change.InstallPackages{Packages: []string{"kubeadm-1.35.4-*"}, Unlock: []string{"kubernetes"}, Keys: []change.ImportKeys{d.key("kubernetes", "first")}})
	require.NoError(t, err)
	require.Contains(t, strings.Join(d.log, "\n"), "fetching the signing keys anew")
	// A key that is there already is replaced by what its source holds.
	require.NoError(t, d.l.renewKeys(t.Context(), []change.ImportKeys{d.key("kubernetes", "second")}))
	require.Equal(t, 1, strings.Count(run(t, nil, "rpm", "-q", "--qf", "%{SUMMARY}\n", "gpg-pubkey"), "second"))
}

func (d *dnfStory) network(t *testing.T) {
	var up atomic.Bool // how often dnf itself asks again differs by its version
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.FileServer(http.Dir(d.dir)).ServeHTTP(w, r)
	}))
	defer flaky.Close()
	d.repo(t, "kubernetes", flaky.URL+"/kubernetes", "retries=1")
	require.NoError(t, d.l.Apply(quick(t, 10*time.Millisecond), change.InstallPackages{Manager: "dnf", Packages: []string{"kubernetes-cni"}}, func(s string) {
		if strings.Contains(s, "trying again") {
			up.Store(true)
		}
	}))
	require.True(t, up.Load())
	flaky.Close()
	run(t, nil, "dnf", "clean", "all")
	err := d.install1(quick(t, 10*time.Millisecond), change.InstallPackages{Packages: []string{"kubelet-1.34.2-*"}})
	require.ErrorContains(t, err, "repository kubernetes can't be read: Curl error (7)")
}

func (d *dnfStory) remove(t *testing.T) {
	ctx := t.Context()
	require.NotEmpty(t, d.installed(t, "kubelet"))
	require.NotEmpty(t, d.installed(t, "kubernetes-cni"), "kubelet requires it")
	needed, err := d.l.Needed(ctx, []string{"kubernetes-cni"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubernetes-cni": "kubelet"}, needed)
	needed, err = d.l.Needed(ctx, []string{"kubelet", "kubernetes-cni"})
	require.NoError(t, err)
	require.Empty(t, needed)
	c := change.RemovePackages{Manager: "dnf", Packages: []string{"kubelet", "kubernetes-cni"}}
	for range 2 { // a second time is fine
		require.NoError(t, d.l.Apply(ctx, c, nil))
	}
	require.Empty(t, d.installed(t, "kubelet"))
	require.Empty(t, d.installed(t, "kubernetes-cni"))
	// What comes next has kubelet.
	require.NoError(t, d.install1(ctx, change.InstallPackages{Packages: []string{"kubelet-1.35.4-*"}, Unlock: []string{"kubernetes"}}))
}

func (d *dnfStory) dropKey(t *testing.T) {
	before := strings.Fields(d.installed(t, "gpg-pubkey"))
	require.NotEmpty(t, before)
	keys := change.RemoveKeys{Repository: "kubernetes", Keys: before[:1]}
	for range 2 {
		require.NoError(t, d.l.Apply(t.Context(), keys, nil))
	}
	require.Len(t, strings.Fields(d.installed(t, "gpg-pubkey")), len(before)-1)
}
