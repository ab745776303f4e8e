package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host"
)

func TestTheMountUnitOfAnXFSDisk(t *testing.T) {
	d := kubeletDisk(anyBlank())
	d.MountOptions = []string{"noatime", "logbsize=256k"}
	require.Equal(t, Header+`[Unit]
Description=Data disk kubelet
Before=local-fs.target

[Mount]
What=/dev/disk/by-label/kubelet
Where=/var/lib/kubelet
Type=xfs
Options=noatime,logbsize=256k

[Install]
WantedBy=local-fs.target
`, unitText(d))
}

func TestTheMountUnitOfAnExt4DiskIsCheckedBeforeAndEscapesWhatIsSpecial(t *testing.T) {
	d := config.Disk{Name: "50%", Filesystem: config.Filesystem{Type: "ext4", Label: "my-data"}, MountPath: "/srv/50%"}
	require.Equal(t, Header+`[Unit]
Description=Data disk 50%%
Before=local-fs.target
Requires=systemd-fsck@dev-disk-by\x2dlabel-my\x2ddata.service
After=systemd-fsck@dev-disk-by\x2dlabel-my\x2ddata.service

[Mount]
What=/dev/disk/by-label/my-data
Where=/srv/50%%
Type=ext4

[Install]
WantedBy=local-fs.target
`, unitText(d))
	require.Equal(t, `srv-50\x25.mount`, MountUnit(d.MountPath))
}

func TestKubeletNeedsEveryDiskAndContainerdThoseOfItsData(t *testing.T) {
	var disks []config.Disk
	for _, p := range []string{"/var/lib/kubelet", "/data", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "/var"} {
		disks = append(disks, config.Disk{MountPath: p})
	}
	require.Equal(t, []string{"/data", "/var", "/var/lib/kubelet", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"}, needs("kubelet.service", disks))
	require.Equal(t, []string{"/var", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"}, needs("containerd.service", disks))
	require.Equal(t, Header+"[Unit]\nRequiresMountsFor=/data\nRequiresMountsFor=\"/a b\"\n", dropInText([]string{"/data", "/a b"}))
}

func TestAUnitIsOursByItsFirstLine(t *testing.T) {
	require.True(t, Ours(host.Text{Exists: true, Content: unitText(kubeletDisk(anyBlank()))}))
	require.False(t, Ours(host.Text{Exists: true, Content: "[Mount]\n"}))
	require.False(t, Ours(host.Text{}))
}

func TestTheUUIDDependsOnHostDiskAndPathAlone(t *testing.T) {
	d := kubeletDisk(anyBlank())
	require.Equal(t, fsUUID("m", d), fsUUID("m", kubeletDisk(config.DiskSelect{Serial: "S"})))
	require.Equal(t, byte('5'), fsUUID("m", d)[14])
	require.NotEqual(t, fsUUID("m", d), fsUUID("n", d))
	d.MountPath = "/other"
	require.NotEqual(t, fsUUID("m", d), fsUUID("m", kubeletDisk(anyBlank())))
}
