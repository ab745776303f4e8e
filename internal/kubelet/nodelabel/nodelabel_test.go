package nodelabel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANodeMayNotGiveItselfLabelsOfKubernetes(t *testing.T) {
	for key, allowed := range map[string]bool{
		"type": true, "example.com/type": true, "kubernetes.io.example.com/x": true,
		"kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true, "node.kubernetes.io/instance-type": true, "node.kubernetes.io/anything": true, "x.node.kubernetes.io/y": true, "kubelet.kubernetes.io/x": true,
		"node-role.kubernetes.io/worker": false, "kubernetes.io/role": false, "k8s.io/x": false, "foo.k8s.io/x": false, "node-restriction.kubernetes.io/x": false,
	} {
		text, hint := Check(key)
		require.Equal(t, allowed, text == "", key)
		require.Equal(t, allowed, hint == "", key)
		require.Equal(t, allowed, Own(key), key)
	}
}
