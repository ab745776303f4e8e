package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/config"
	"nodeagent/internal/host/hosttest"
	"nodeagent/internal/run"
)

const (
	opsKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ops"
	rootKey = "restrict ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg"
	opsHash = "$6$salt$onlyTheShadowKnows"
)

// peopling asks for users as well.
func peopling(spec config.Spec) config.Spec {
	no := false
	spec.Users = []config.User{
		{Name: "ops", Comment: "Operators", Groups: []string{"wheel", "operators"}, SSHAuthorizedKeys: []string{opsKey}, Sudo: "ALL=(ALL) NOPASSWD:ALL", PasswordHash: opsHash, LockPassword: &no},
		{Name: "app", PrimaryGroup: "apps", Home: "/var/app", Shell: "/sbin/nologin", LockPassword: &no},
		{Name: "root", SSHAuthorizedKeys: []string{rootKey}},
	}
	return spec
}

// withSomebody is a host on which the image's maker has put a user of that name
// and a key of root's.
func withSomebody() *hosttest.World {
	w := hosttest.Rocky9()
	add := func(path, content string) {
		f := w.Files[path]
		f.Content += content
		w.Files[path] = f
	}
	add("/etc/passwd", "ops:x:1000:1000:Image:/home/ops:/bin/sh\n")
	add("/etc/group", "ops:x:1000:\noperators:x:1001:ops\n")
	add("/etc/shadow", "ops:!:19700:0:99999:7:::\n")
	w.Files["/home/ops"] = hosttest.File{Dir: true, Mode: "0700", Owner: "ops:ops"}
	w.Files["/root/.ssh"] = hosttest.File{Dir: true, Mode: "0700"}
	w.Files["/root/.ssh/authorized_keys"] = hosttest.File{Mode: "0600", Content: opsKey + "\n"}
	return w
}

func TestAPasswordHashIsInNoPlanRecordOrJournal(t *testing.T) {
	w := hosttest.Rocky9()
	spec := peopling(config.Default().Spec)
	for range 2 {
		p := text(t, run.Make(context.Background(), w, spec, steps))
		facts, err := json.Marshal(run.Observe(context.Background(), w, spec, steps))
		require.NoError(t, err)
		last, _ := up(w, spec) // the join lacks much; users come long before it
		record, err := json.Marshal(last)
		require.NoError(t, err)
		require.NotContains(t, p+string(facts)+string(record), "onlyTheShadowKnows")
		for path, f := range w.Files {
			if path != "/etc/shadow" {
				require.NotContains(t, f.Content, "onlyTheShadowKnows", path)
			}
		}
	}
}
