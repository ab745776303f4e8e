package vm_test

import (
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
