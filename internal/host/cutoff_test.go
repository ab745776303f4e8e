package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatRPMVerifyCallsHarm(t *testing.T) {
	for line, want := range map[string]bool{
		"S.5....T.    /usr/bin/kubelet":               true,
		"missing     /usr/bin/kubeadm":                true,
		"missing   d /usr/share/doc/kubelet/README":   false,
		"S.5....T.  c /etc/sysconfig/kubelet":         false,
		".......T.    /usr/bin/kubelet":               false,
		"....L....    /usr/bin/link":                  true,
		"Unsatisfied dependencies for kubelet-1.35.4": false,
		"": false,
		"error: rpmdb: BDB0113 Thread/process 12/3 failed": false,
		".M.......  g /var/lib/kubelet":                    false,
		"missing     /usr/bin/crictl (Permission denied)":  false,
	} {
		require.Equal(t, want, harmed(line), line)
	}
}
