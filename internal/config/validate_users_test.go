package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ops"

func TestUsersAreChecked(t *testing.T) {
	for user, want := range map[string]string{
		"{name: Ops}":                              `spec.users[0].name: "Ops" can't be a user's name`,
		"{name: '-x'}":                             `"-x" can't be a user's name`,
		"{name: a.}":                               `"a." can't be a user's name`,
		"{name: ''}":                               `"" can't be a user's name`,
		"{name: a}, {name: a}":                     "spec.users[1].name: the user a is given twice",
		"{name: a, groups: [ok, 'a,b']}":           `spec.users[0].groups[1]: "a,b" can't be a group's name`,
		"{name: a, primaryGroup: '-g'}":            `spec.users[0].primaryGroup: "-g" can't be`,
		`{name: a, comment: "x\ny"}`:               "spec.users[0].comment: a colon or a control character",
		"{name: a, comment: 'x:0:0'}":              "a colon or a control character",
		"{name: a, home: home/a}":                  `spec.users[0].home: "home/a" can't stand in /etc/passwd`,
		"{name: a, home: '/x:y'}":                  `"/x:y" can't stand in /etc/passwd`,
		"{name: a, home: /}":                       "/ is nobody's home",
		"{name: a, shell: 'bash -l'}":              `spec.users[0].shell: "bash -l" can't stand`,
		"{name: a, home: /data/a}":                 "/data/a is on a data disk, which is mounted after the users are made",
		"{name: a, home: /srv/nfs/a}":              "/srv/nfs/a is on the mount of /srv/nfs, which is mounted after the users are made",
		"{name: a, passwordHash: h1dd3n}":          "spec.users[0].passwordHash: is no hash of crypt(5)",
		`{name: a, passwordHash: "$6$h1dd3n\nb:"}`: "is no hash of crypt(5)",
		"{name: a, sshAuthorizedKeys: [h1dd3n]}":   "spec.users[0].sshAuthorizedKeys[0]: has no key of a type",
		`{name: a, sudo: "ALL=ALL\nb ALL=ALL"}`:    "spec.users[0].sudo: a rule is one line",
		"{name: a, sudo: 'yes'}":                   `"yes" is no rule of sudoers`,
		`{name: a, sudo: 'ALL=(ALL) \'}`:           "is no rule of sudoers",
		"{name: root, sudo: 'ALL=(ALL) ALL'}":      "spec.users[0]: root's account is the system's",
		"{name: root, shell: /bin/zsh}":            "root's account is the system's",
	} {
		_, err := load(t, smallest+"  disks: [{name: d, select: {label: d}, mountPath: /data}]\n  mounts: [{what: 'n:/e', where: /srv/nfs, type: nfs}]\n  users: ["+user+"]\n")
		require.ErrorContains(t, err, want, user)
		require.NotContains(t, err.Error(), "h1dd3n")
	}
	_, err := load(t, smallest+"  disks: [{name: d, select: {label: d}, mountPath: /home}]\n  users: [{name: a}, {name: b, home: /var/home/b}]\n")
	require.ErrorContains(t, err, "/home/a is on a data disk")
	require.NotContains(t, err.Error(), "/var/home/b")
	c, err := load(t, smallest+"  users: [{name: ops, groups: [wheel], sudo: 'ALL=(ALL) NOPASSWD:ALL', sshAuthorizedKeys: ['"+someKey+"'], passwordHash: $6$a$b}, {name: root, sshAuthorizedKeys: ['restrict "+someKey+"']}]\n")
	require.NoError(t, err)
	require.Len(t, c.Spec.Users, 2)
}
