package vm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"nodeagent/test/vm/lab"
)

func TestContainerGuestHasSystemdFirewalldDnfAndDisks(t *testing.T) {
	l := needLAN(t)
	c, err := l.StartContainer(t.Context(), lab.Rocky9, "container1", 1)
	check(t, err)
	defer c.Close()
	r := must(c.Exec(t.Context(), `set -ex
for i in $(seq 100); do firewall-cmd --state && break; done
firewall-cmd --list-all
rpm -q rocky-release
lsblk
systemctl --failed --no-pager
mkfs.xfs -q -L one /dev/loop*[0-9]
mount LABEL=one /srv || mount /dev/loop*[0-9] /srv
findmnt /srv
umount /srv`))(t)
	t.Log(r.Stdout, r.Stderr)
	if r.Code != 0 || !strings.Contains(r.Stdout, "public") {
		t.Errorf("exit %d", r.Code)
	}
}

// The steps that a container can carry, at native speed: what a run costs that
// finds nothing to do. Packages, disks and kernel need the virtual machine.
func TestARunThatChangesNothingAtNativeSpeed(t *testing.T) {
	l := needLAN(t)
	c, err := l.StartContainer(t.Context(), lab.Rocky9, "container2")
	check(t, err)
	defer c.Close()
	check(t, c.CopyIn(t.Context(), lab.File{Path: lab.Binary, Mode: 0o755, From: binary(t)}, lab.File{Path: "/etc/nodeagent/config.yaml", Mode: 0o600, Content: `apiVersion: nodeagent/v1alpha1
kind: NodeConfig
spec:
  kubernetes: {version: v1.34.4}
  firewall: {cni: cilium, allow: ["30000-32767/tcp", "30000-32767/udp"]}
  files: [{path: /etc/motd, content: "a worker\n"}]
  join: {token: {file: /etc/nodeagent/join-command}}
`}))
	const up = "until firewall-cmd --state; do :; done 2>/dev/null; nodeagent up --until firewall --skip packages --skip disks --skip kernel -o json 2>/dev/null"
	runs := []lastRun{}
	for range 3 {
		r := must(c.Exec(t.Context(), up))(t)
		var last lastRun
		if err := json.Unmarshal([]byte(r.Stdout[strings.Index(r.Stdout, "{"):]), &last); err != nil || r.Code != 0 {
			t.Fatalf("exit %d: %v\n%s%s", r.Code, err, r.Stdout, r.Stderr)
		}
		runs = append(runs, last)
		t.Logf("%d changes in %s", last.Changes, last.Took)
	}
	if runs[0].Changes == 0 || runs[1].Changes != 0 || runs[2].Changes != 0 {
		t.Errorf("changes: %d, then %d and %d", runs[0].Changes, runs[1].Changes, runs[2].Changes)
	}
}
