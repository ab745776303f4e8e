package cloudinit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/host/hosttest"
)

func TestWhatCloudInitWritesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Settings
	}{
		"no cloud-init":  {nil, Settings{}},
		"as it comes":    {map[string]string{main: "#cloud-config\nusers: [default]\n"}, Settings{Hostname: true}},
		"disabled":       {map[string]string{main: "", "/etc/cloud/cloud-init.disabled": ""}, Settings{}},
		"kept":           {map[string]string{main: "preserve_hostname: True\n"}, Settings{}},
		"kept, in words": {map[string]string{main: "preserve_hostname: 'yes'\n"}, Settings{}},
		"the later file": {map[string]string{main: "preserve_hostname: true\nmanage_etc_hosts: true", "/etc/cloud/cloud.cfg.d/05-x.cfg": "{preserve_hostname: false, manage_etc_hosts: false}"}, Settings{Hostname: true}},
		"localhost":      {map[string]string{main: "preserve_hostname: true\nmanage_etc_hosts: localhost"}, Settings{Hosts: true}},
		"nested":         {map[string]string{main: "system_info:\n  preserve_hostname: true\n"}, Settings{Hostname: true}},
		"in user-data":   {map[string]string{main: "preserve_hostname: false\nmanage_etc_hosts: true", userData: "#cloud-config\npreserve_hostname: true\n"}, Settings{Hosts: true}},
		"no YAML":        {map[string]string{main: "preserve_hostname: true", "/etc/cloud/cloud.cfg.d/x.cfg": "a: [", "/etc/cloud/cloud.cfg.d/README": "a: ["}, Settings{Unread: []string{"/etc/cloud/cloud.cfg.d/x.cfg"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosttest.Rocky9()
			for p, text := range c.files {
				w.Files[p] = hosttest.File{Content: text}
			}
			got, err := Read(w)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func FuzzAddNeverPanics(f *testing.F) {
	f.Add("preserve_hostname: true\nmanage_etc_hosts: {a: 1}")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		s := Settings{Hostname: true}
		if !s.add(text) && (!s.Hostname || s.Hosts) {
			t.Error("a file that can't be read changed something")
		}
	})
}
