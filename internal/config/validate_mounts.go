package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	mountOption = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/=@+~^%-]*$`)
	nfsExport   = regexp.MustCompile(`^(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):/\S*$`)
	smbShare    = regexp.MustCompile(`^//[A-Za-z0-9_.:-]+/[^/].*$`)
	userAndPass = regexp.MustCompile(`//[^/@]*:[^/@]*@`)
	sourceTag   = regexp.MustCompile(`^(LABEL|UUID|PARTUUID|PARTLABEL|ID)=`)
)

// The system's own places. Nothing is mounted on or over all of these; below
// closed ones nothing is mounted either.
var (
	closedPlaces = []string{"/proc", "/sys", "/dev", "/boot", "/etc/systemd", "/var/lib/nodeagent", "/etc/nodeagent", "/run/nodeagent", "/run/systemd", "/var/lib/rpm"}
	systemPlaces = []string{"/etc", "/usr", "/run", "/bin", "/sbin", "/lib", "/lib64", "/root", "/tmp", "/var/tmp"}
)

// mounts checks what is to be mounted besides the data disks.
func (k *checker) mounts(s *Spec) {
	seen := map[string]bool{}
	for i, m := range s.Mounts {
		at := fmt.Sprintf("spec.mounts[%d]", i)
		k.mountType(at, m)
		k.mountSource(at+".what", m)
		k.mountPoint(at+".where", m, s.Disks)
		if seen[m.Where] {
			k.bad(at+".where", "keep one", "%s is a mount point twice", m.Where)
		}
		seen[m.Where] = true
		for j, o := range m.Options {
			k.mountOption(fmt.Sprintf("%s.options[%d]", at, j), m, o)
		}
	}
	if _, circle := s.MountsInOrder(); len(circle) > 0 && len(seen) == len(s.Mounts) {
		k.bad("spec.mounts", "bind from a directory that no mount of this list hides", "the mounts of %s and %s wait for each other", circle[0].Where, circle[len(circle)-1].Where)
	}
}

func (k *checker) mountType(at string, m Mount) {
	bind := slices.Contains(m.Options, "bind")
	known := slices.Concat(localTypes, slices.Sorted(maps.Keys(networkTypes)))
	switch {
	case m.Type == "" && bind, m.Type == "bind":
		k.bad(at+".type", "a bind mount has type: none and options: [bind]", "%q is not the type of a bind mount", m.Type)
	case m.Type == "":
		k.bad(at+".type", "one of "+strings.Join(known, ", "), "missing")
	case slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "ntfs", "swap", "squashfs", "iso9660"}, m.Type):
		k.bad(at+".type", "describe it in spec.disks", "%s lies on a block device, and those belong to spec.disks", m.Type)
	case !slices.Contains(known, m.Type):
		k.bad(at+".type", "one of "+strings.Join(known, ", "), "%q is no filesystem type that nodeagent mounts", m.Type)
	case m.Type == "none" && !bind:
		k.bad(at+".options", "options: [bind]", "type none is for bind mounts only, and the option bind is missing")
	case m.Type != "none" && bind:
		k.bad(at+".type", "a bind mount has type: none", "a bind mount can't be of type %s", m.Type)
	}
}

func (k *checker) mountSource(at string, m Mount) {
	switch what := m.What; {
	case what == "":
		k.bad(at, "the source as mount(8) takes it", "missing")
	case userAndPass.MatchString(what):
		k.bad(at, "put user and password into a file that only root can read, and name it in options: credentials=FILE", "it holds a password, and mount units are readable by everybody")
	case !printable(what):
		k.bad(at, "printable ASCII without backslashes and quotes, no blank at its ends; a Windows share is //server/share", "%q can't go into a mount unit", what)
	case strings.HasPrefix(what, "/dev/") || sourceTag.MatchString(what):
		k.bad(at, "describe it in spec.disks", "%s is a block device, and those belong to spec.disks", what)
	case m.Bind():
		k.absolute(at, what)
		if within(m.Where, what) {
			k.bad(at, "bind from a directory outside of the mount point", "%s would be hidden by the mount on %s itself", what, m.Where)
		}
	case (m.Type == "nfs" || m.Type == "nfs4") && !nfsExport.MatchString(what):
		k.bad(at, "server:/path, an IPv6 address in brackets", "%q is not an NFS export", what)
	case (m.Type == "cifs" || m.Type == "smb3") && !smbShare.MatchString(what):
		k.bad(at, "//server/share", "%q is not an SMB share", what)
	}
}

func (k *checker) mountPoint(at string, m Mount, disks []Disk) {
	before := len(k.d.problems)
	k.absolute(at, m.Where)
	if len(k.d.problems) > before {
		return
	}
	if !printable(m.Where) {
		k.bad(at, "printable ASCII without backslashes and quotes, no blank at its end", "%q can't be a mount point", m.Where)
		return
	}
	for _, p := range closedPlaces {
		if within(m.Where, p) || within(p, m.Where) {
			k.bad(at, "mount it elsewhere, such as below /mnt or /srv", "a mount on %s would hide or change %s, which belongs to the system", m.Where, p)
			return
		}
	}
	if slices.Contains(systemPlaces, m.Where) {
		k.bad(at, "mount it on a directory below, or elsewhere; for a tmpfs on /tmp the distribution has tmp.mount", "%s belongs to the system", m.Where)
	}
	for _, d := range disks {
		if d.MountPath != "" && within(m.Where, d.MountPath) {
			k.bad(at, "mount it below the disk, or elsewhere", "a mount on %s would hide the data disk %s, which is mounted on %s", m.Where, d.Name, d.MountPath)
		}
	}
}

func (k *checker) mountOption(at string, m Mount, o string) {
	key, value, _ := strings.Cut(o, "=")
	switch {
	case slices.Contains([]string{"pass", "passwd", "password", "password2", "secret", "passphrase"}, key), (key == "user" || key == "username") && strings.Contains(value, "%"):
		hint := "put user and password into a file that only root can read: credentials=FILE"
		if m.Type == "ceph" {
			hint = "put the key into a file that only root can read: secretfile=FILE"
		}
		k.bad(at, hint, "%s= holds a secret, and mount units are readable by everybody", key)
	case !mountOption.MatchString(o):
		k.bad(at, "one option an entry; letters, digits and . : / = @ + ~ ^ % -", "%q is not a mount option", o)
	case strings.HasPrefix(o, "x-") || o == "noauto" || o == "auto" || o == "comment":
		k.bad(at, "leave it away: nodeagent writes the mount unit itself", "%s has a meaning in fstab only", o)
	case o == "rbind":
		k.bad(at, "bind each of the mounts below by an entry of its own", "rbind can't be unmounted as a whole")
	case slices.Contains([]string{"remount", "move", "loop"}, key):
		k.bad(at, "", "%s is nothing that a mount unit can do", o)
	}
}

// printable tells whether a value can stand in a unit file and in mountinfo as
// it is.
func printable(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`\"'`, r) })
}
