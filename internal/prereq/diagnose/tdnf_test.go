package diagnose

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTdnfFailuresAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		exit int
		out  string
		want Diagnosis
	}{
		"already installed": {0, "Package kubelet-1.35.4-1.x86_64 is already installed.\nNothing to do.\n", Diagnosis{}},
		"unknown package": {243, "nosuchpkg package not found or not installed\nError(1011) : No matching packages\n",
			Diagnosis{Kind: NotFound, Packages: []string{"nosuchpkg"}}},
		"unknown option": {140, "No such option: --disableexcludes=kubernetes\nError(908) : Command line error: option is invalid.\n",
			Diagnosis{Kind: Other, Detail: "Error(908) : Command line error: option is invalid."}},
		"no name": {233, "Error(1001) : Package name expected but was not provided\n",
			Diagnosis{Kind: Other, Detail: "Error(1001) : Package name expected but was not provided"}},
		"no repositories": {244, "Error(1012) : There are no enabled repos.\n",
			Diagnosis{Kind: NoRepository, Detail: "Error(1012) : There are no enabled repos."}},
		"aborted": {8, "Error(1032) : Operation aborted.\n", Diagnosis{Kind: Other, Detail: "Error(1032) : Operation aborted."}},
		"no solution": {30, "1. package containerd.io-2.2.9-1.x86_64 conflicts with runc provided by runc-1.1.12-1.ph5.x86_64\nFound 1 problem(s) while resolving\nError(1301) : Solv general runtime error\n",
			Diagnosis{Kind: Conflict, Packages: []string{"containerd.io-2.2.9-1.x86_64", "runc-1.1.12-1.ph5.x86_64"},
				Detail: "package containerd.io-2.2.9-1.x86_64 conflicts with runc provided by runc-1.1.12-1.ph5.x86_64"}},
		"a file conflict": {245, "file /usr/bin/runc conflicts between attempted installs of a-1-1.x86_64 and b-1-1.x86_64\nError(1525) : rpm transaction failed\n",
			Diagnosis{Kind: Conflict, Packages: []string{"a-1-1.x86_64", "b-1-1.x86_64"},
				Detail: "file /usr/bin/runc conflicts between attempted installs of a-1-1.x86_64 and b-1-1.x86_64"}},
		"DNS": {183, "Error: Failed to synchronize cache for repo 'Kubernetes'\nError(1207) : Couldn't resolve host name\n",
			Diagnosis{Kind: Network, Where: "Kubernetes", Transient: true, Detail: "Error(1207) : Couldn't resolve host name"}},
		"not root":                       {65, "Error(1601) : Operation not permitted. You have to be root.\n", Diagnosis{Kind: Other, Detail: "Error(1601) : Operation not permitted. You have to be root."}},
		"1024 is 0 mod 256":              {0, "Error(1024) : A memory allocation was requested with an invalid size\n", Diagnosis{Kind: Other, Detail: "Error(1024) : A memory allocation was requested with an invalid size"}},
		"1280 is 0 mod 256, and network": {0, "Error(1280) : curl\n", Diagnosis{Kind: Network, Transient: true, Detail: "Error(1280) : curl"}},
		"a full disk":                    {24, "Error(1224) : Failed writing received data to disk/application\n", Diagnosis{Kind: DiskFull, Detail: "Error(1224) : Failed writing received data to disk/application"}},
		"an unsigned package":            {230, "RPM not signed\nError(1510) : RPM not signed. Use --nogpgcheck to ignore.\n", Diagnosis{Kind: Signature, Unsigned: true, Detail: "RPM not signed"}},
		"rpm is locked": {245, "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)\nError(1525) : rpm transaction failed\n",
			Diagnosis{Kind: Lock, Where: "/var/lib/rpm/.rpm.lock", Transient: true, Detail: "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)"}},
		"exit 1 without a word": {1, "", Diagnosis{Kind: Other}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Tdnf(c.exit, c.out)
			require.Equal(t, c.want, d)
			require.Equal(t, d.Kind == None, d.Sentence() == "")
		})
	}
}

func TestP3ARepositoryWhoseKeyIsUnknownIsASignatureFailure(t *testing.T) {
	d := Tdnf(212, "repo md signature check: No public key\nError(2004) : Failed to verify repository metadata\nFailed to synchronize cache for repo 'Kubernetes'\n")
	require.Equal(t, Signature, d.Kind)
	require.Equal(t, []string{"repository Kubernetes"}, d.Packages)
	require.False(t, d.Unsigned, "the keys are imported again, the check is never switched off")
	require.Contains(t, d.Sentence(), "No public key")
}

func TestP4ADisabledRepositoryAndNothingToDoIsAFailure(t *testing.T) {
	d := Tdnf(0, "Refreshing metadata for: 'Kubernetes'\nDisabling Repo: 'Kubernetes'\nNothing to do.\n")
	require.Equal(t, Diagnosis{Kind: Network, Where: "Kubernetes", Transient: true, Detail: "tdnf disabled it and then found nothing to do"}, d)
	require.Equal(t, Signature, Tdnf(0, "repo md signature check: No public key\nDisabling Repo: 'Kubernetes'\nNothing to do.\n").Kind)
	require.Equal(t, None, Tdnf(0, "Disabling Repo: 'extras'\nPackage kubelet-1.35.4-1.x86_64 is already installed.\nNothing to do.\n").Kind)
}

func TestAPackageThatIsMissingBesideADisabledRepositoryIsNotCalledMissing(t *testing.T) {
	const end = "Disabling Repo: 'Kubernetes'\nkubelet-1.35.4-* package not found or not installed\nError(1011) : No matching packages\n"
	require.Equal(t, Diagnosis{Kind: Network, Where: "Kubernetes", Packages: []string{"kubelet-1.35.4-*"}, Transient: true, Detail: "Error: Failed to synchronize cache for repo 'Kubernetes' from 'http://repo.example/k'"},
		Tdnf(243, "Refreshing metadata for: 'Kubernetes'\nError: Failed to synchronize cache for repo 'Kubernetes' from 'http://repo.example/k'\n"+end))
	gone := Tdnf(243, "Error: 404 when downloading http://repo.example/k/repodata/repomd.xml\n. Please check repo url.\n"+end)
	require.Equal(t, NotFound, gone.Kind, "a wrong URL doesn't mend itself")
	require.Equal(t, "no enabled repository has kubelet-1.35.4-*; it went on without a repository that can't be read, Kubernetes: Error: 404 when downloading http://repo.example/k/repodata/repomd.xml", gone.Sentence())
	require.Equal(t, Signature, Tdnf(243, "repo md signature check: No public key\n"+end).Kind)
}

func TestTdnfProgressLinesBecomeShortTexts(t *testing.T) {
	for line, want := range map[string]string{
		"Installing/Updating: kubelet-1.35.4-150500.1.1.x86_64":                              "installing kubelet-1.35.4-150500.1.1.x86_64",
		"kubelet                                13076423 100%":                               "fetching kubelet",
		"WARNING: failed to acquire lock on: /var/run/.tdnf-instance-lockfile, retrying ...": "waiting for another tdnf to finish",
		"Complete!": "", "": "", "Testing transaction": "",
	} {
		require.Equal(t, want, TdnfProgress(line), line)
	}
}

func FuzzTdnfFindsEveryErrorLine(f *testing.F) {
	f.Add(0, "Error(1024) : x")
	f.Add(243, "a package not found or not installed\nError(1011) : No matching packages")
	f.Fuzz(func(t *testing.T, exit int, out string) {
		d := Tdnf(exit, out)
		if d.Kind == None && (exit != 0 || tdnfError.MatchString(out)) {
			t.Fatalf("%d %q", exit, out)
		}
		TdnfProgress(out)
	})
}
