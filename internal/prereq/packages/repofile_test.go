package packages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepositorySectionsAreReadAsDnfReadsThem(t *testing.T) {
	text := `# comment
[main]
gpgcheck=1
exclude=foo,bar

[kubernetes]
name=Kubernetes
baseurl=https://pkgs.example/core:/stable:/v1.35/rpm/
enabled = 1
exclude=kubelet kubeadm
 kubectl
	cri-tools
password=hunter2

[media]
baseurl=file:///media/a
        file:///media/b
enabled=0
; another comment
[broken
[mixed]
mirrorlist=https://mirrors.example/list
`
	require.Equal(t, []Section{
		{File: "f", ID: "main", Enabled: true, Local: true, Exclude: []string{"foo", "bar"}},
		{File: "f", ID: "kubernetes", Enabled: true, Exclude: []string{"kubelet", "kubeadm", "kubectl", "cri-tools"}},
		{File: "f", ID: "media", Local: true},
		{File: "f", ID: "mixed", Enabled: true},
	}, parseRepo("f", text))
}

func FuzzParseRepoNeverPanics(f *testing.F) {
	f.Add("[a]\nexclude=b\n c\n")
	f.Add(" x\n[\n=")
	f.Fuzz(func(t *testing.T, s string) {
		for _, s := range parseRepo("f", s) {
			s.hides("kubelet")
		}
	})
}
