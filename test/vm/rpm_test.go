package vm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"nodeagent/test/vm/lab"
)

// TestTheRPMIsInstalledAndRemoved installs the package that `make rpm` left with
// the distribution's own package manager. Nothing of it is started or enabled,
// and removing it leaves what was done.
func TestTheRPMIsInstalledAndRemoved(t *testing.T) {
	l := needLAN(t)
	ctx := t.Context()
	rpms := must(filepath.Glob("../../bin/nodeagent-*.rpm"))(t)
	if len(rpms) == 0 {
		t.Fatal("no package to test: run `make rpm` first")
	}
	rpm := must(filepath.Abs(rpms[len(rpms)-1]))(t)
	for _, c := range []struct {
		flavour lab.Flavour
		manager string
	}{{lab.Rocky9, "dnf"}, {lab.Photon5, "tdnf"}} {
		t.Run(c.flavour.Name, func(t *testing.T) {
			g := must(l.StartContainerWith(ctx, c.flavour, "rpm-"+c.flavour.Name, lab.ContainerOptions{Repositories: true}))(t)
			defer g.Close()
			check(t, g.CopyIn(ctx, lab.File{Path: "/srv/nodeagent.rpm", Mode: 0o644, From: rpm}))
			do := func(script string) string {
				t.Helper()
				r := must(g.Exec(ctx, script))(t)
				if r.Code != 0 {
					t.Fatalf("%s: exit %d: %s%s", script, r.Code, r.Stdout, r.Stderr)
				}
				return r.Stdout
			}
			do("sed -i 's,http://repo.lab.test/,file:///srv/repos/,' /etc/yum.repos.d/*.repo; " + c.manager + " install --assumeyes /srv/nodeagent.rpm") // there is no network
			do("rpm -V nodeagent && nodeagent version && nodeagent config example >/dev/null")
			if out := do("systemctl is-enabled nodeagent.service; systemctl is-active nodeagent.service; true"); strings.Join(strings.Fields(out), " ") != "disabled inactive" {
				t.Errorf("the unit is %s", out)
			}
			// Keys of newer versions are passed over by an older systemd.
			if out := do("stat -c '%a %U %n' /etc/nodeagent /var/lib/nodeagent; systemd-analyze verify nodeagent.service 2>&1 || true"); !strings.HasPrefix(out, "700 root /etc/nodeagent\n700 root /var/lib/nodeagent\n") || strings.Contains(strings.NewReplacer("Unknown key 'RestartSteps'", "", "Unknown key 'RestartMaxDelaySec'", "").Replace(out), "Unknown") {
				t.Errorf("%s", out)
			}
			do("systemctl enable nodeagent.service && echo kept >/etc/nodeagent/config.yaml && echo kept >/var/lib/nodeagent/journal")
			do(c.manager + " remove --assumeyes nodeagent && ! command -v nodeagent && ! systemctl cat nodeagent.service && grep -q kept /etc/nodeagent/config.yaml && grep -q kept /var/lib/nodeagent/journal")
		})
	}
}
