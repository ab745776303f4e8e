package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
)

// tdnfStandIn is not tdnf: it answers each call with the next of the outputs
// that the real program was seen to give, and notes its arguments.
const tdnfStandIn = `#!/bin/sh
n=$(cat /srv/tdnf/n); echo $((n+1)) >/srv/tdnf/n
echo "$@" >>/srv/tdnf/calls
[ -f /srv/tdnf/$n.sh ] && . /srv/tdnf/$n.sh
sed 1d /srv/tdnf/$n >&2
exit $(head -n1 /srv/tdnf/$n)
`

// TestATdnfStandIn holds what the host does with tdnf's answers, in a
// throw-away root with a real rpm.
func TestATdnfStandIn(t *testing.T) {
	if os.Getenv(dnfInside) == "" {
		enterThrowAwayRoot(t)
		return
	}
	require.NoError(t, os.WriteFile("/usr/bin/tdnf", []byte(tdnfStandIn), 0o755))
	key := change.ImportKeys{Repository: "kubernetes", Keys: []string{"/srv/repos/first.asc"}, StoreAs: "/etc/pki/rpm-gpg/RPM-GPG-KEY-nodeagent-kubernetes"}
	c := change.InstallPackages{Manager: "tdnf", Packages: []string{"kubernetes-cni"}, Unlock: []string{"kubernetes"}, Keys: []change.ImportKeys{key}}
	bring := "rpm -i --nosignature /srv/repos/kubernetes/kubernetes-cni-1.8.0.rpm >&2"
	drop := func() { run(t, nil, "sh", "-c", "rpm -e kubernetes-cni || true") }
	// play answers with these outputs, each with a script that runs first.
	play := func(t *testing.T, c change.InstallPackages, answers ...[2]string) (calls string, err error) {
		t.Helper()
		drop()
		run(t, nil, "sh", "-c", "rm -rf /srv/tdnf && mkdir /srv/tdnf && echo 0 >/srv/tdnf/n")
		for i, a := range answers {
			require.NoError(t, os.WriteFile(fmt.Sprintf("/srv/tdnf/%d", i), []byte(a[0]), 0o644))
			require.NoError(t, os.WriteFile(fmt.Sprintf("/srv/tdnf/%d.sh", i), []byte(a[1]), 0o644))
		}
		err = New().Apply(quick(t, time.Millisecond), c, nil)
		b, _ := os.ReadFile("/srv/tdnf/calls")
		return strings.TrimSpace(string(b)), err
	}
	good := [2]string{"0\nInstalling/Updating: kubernetes-cni-1.8.0-1.el9.noarch\nComplete!\n", bring}

	t.Run("installs with excludes off and no argument to the option", func(t *testing.T) {
		calls, err := play(t, c, good)
		require.NoError(t, err)
		require.Equal(t, "--assumeyes --disableexcludes install kubernetes-cni", calls)
	})
	t.Run("P3 an unknown key is imported again and the check stays on", func(t *testing.T) {
		calls, err := play(t, c, [2]string{"212\nrepo md signature check: No public key\nError(2004) : Failed\nFailed to synchronize cache for repo 'Kubernetes'\n"}, good)
		require.NoError(t, err)
		require.NotContains(t, calls, "nogpgcheck")
		require.FileExists(t, key.StoreAs)
		_, err = play(t, c, [2]string{"212\nrepo md signature check: No public key\nError(2004) : Failed\n"}, [2]string{"212\nrepo md signature check: No public key\nError(2004) : Failed\n"})
		require.ErrorContains(t, err, "No public key")
		require.Contains(t, fail.HintOf(err), "gpgKeys")
	})
	t.Run("P4 a disabled repository and nothing to do is a failure", func(t *testing.T) {
		bad := [2]string{"0\nDisabling Repo: 'Kubernetes'\nNothing to do.\n"}
		_, err := play(t, c, bad, bad, bad)
		require.ErrorContains(t, err, "repository Kubernetes can't be read")
	})
	t.Run("success that rpm doesn't know of is a failure", func(t *testing.T) {
		_, err := play(t, c, [2]string{"0\nComplete!\n"})
		require.ErrorContains(t, err, "tdnf reported success, but kubernetes-cni is not installed")
	})
	t.Run("status 0 with an error line is a failure", func(t *testing.T) {
		_, err := play(t, c, [2]string{"0\nError(1024) : A memory allocation was requested with an invalid size\n"})
		require.ErrorContains(t, err, "Error(1024)")
	})
	t.Run("optional packages that are nowhere are left out", func(t *testing.T) {
		with := c
		with.Optional = []string{"cri-tools"}
		calls, err := play(t, with, [2]string{"243\ncri-tools package not found or not installed\nError(1011) : No matching packages\n"}, good)
		require.NoError(t, err)
		require.Equal(t, "--assumeyes --disableexcludes install kubernetes-cni cri-tools\n--assumeyes --disableexcludes install kubernetes-cni", calls)
	})
	t.Run("a package that is nowhere is looked for in fresh metadata once", func(t *testing.T) {
		miss := [2]string{"243\nkubernetes-cni package not found or not installed\nError(1011) : No matching packages\n"}
		calls, err := play(t, c, miss, miss)
		require.ErrorContains(t, err, "no enabled repository has kubernetes-cni")
		require.Equal(t, "--assumeyes --disableexcludes install kubernetes-cni\n--assumeyes --disableexcludes --refresh install kubernetes-cni", calls)
	})
}
