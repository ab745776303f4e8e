package lab

import (
	"path/filepath"
	"slices"
	"strings"
)

// Flavour says how a guest differs from the plain Debian tree below it: the
// userland stays Debian's, what a node agent looks at is the distribution's.
type Flavour struct {
	Name    string
	Without []string          // Debian packages whose files are taken out
	Debs    []string          // Debian packages that are unpacked into the tree
	Rename  map[string]string // path: new path
	Files   []File
	Remove  []string // paths
	Mask    []string // units that a stock host doesn't run
	Enable  []string // units that a stock host runs
	Disable []string // units that are there and don't run

	Repo    string     // the lab's repository with the distribution's own packages
	Key     string     // where the signer of that repository lies on the host
	Release rpmPackage // the package that says which distribution this is
	RPMs    []string   // names of stock packages in the RPM database
	Install []string   // packages of Repo that a stock host really has

	Swap  []SwapFile
	Spec  Sections
	Baked bool // Kubernetes and containerd are part of the image
	// ReadOnly makes the root filesystem a device that can't be written; /etc is
	// an overlay, and /var and others lie on a second disk.
	ReadOnly bool
}

// Flavours are all that there are.
var Flavours = []Flavour{Rocky9, Rocky9Boot, Photon5, Alauda}

// FlavourNamed finds one by its name.
func FlavourNamed(name string) (Flavour, bool) {
	i := slices.IndexFunc(Flavours, func(f Flavour) bool { return f.Name == name })
	if i < 0 {
		return Flavour{}, false
	}
	return Flavours[i], true
}

// FlavourNames lists them for people.
func FlavourNames() string {
	var names []string
	for _, f := range Flavours {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// Seed is what differs from guest to guest of a flavour: the name that
// cloud-init's stand-in gives an immutable host.
func (f Flavour) Seed(hostName string) []File {
	if !f.ReadOnly {
		return nil
	}
	return []File{{Path: "/var/lib/cloud/data/set-hostname", Content: hostName + "\n"}}
}

// Sections are the parts of a NodeConfig that differ by distribution: YAML
// below spec.
type Sections struct {
	Packages, Runtime, Firewall, Disks string
}

// SwapFile is a file that is swap from the first boot on.
type SwapFile struct {
	Path string
	MiB  int
}

// debianNoise are Debian's own timers and services, which no flavour has.
var debianNoise = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
	"fstrim.timer", "mdcheck_start.timer", "mdcheck_continue.timer", "mdmonitor-oneshot.timer", "man-db.timer",
	"dnf-makecache.timer", "getty@tty1.service",
}

// stockPackages are RPMs without files for every name in the RPM databases of
// the flavours of one repository, so that asking for one of them finds it
// installed.
func stockPackages(repo string) []rpmPackage {
	seen := map[string]bool{}
	var out []rpmPackage
	for _, f := range Flavours {
		if f.Repo != repo {
			continue
		}
		if !seen[f.Release.name] {
			seen[f.Release.name] = true
			out = append(out, f.Release)
		}
		for _, name := range f.RPMs {
			if !seen[name] {
				seen[name] = true
				out = append(out, rpmPackage{name: name, version: f.Release.version, release: f.Release.release, arch: "noarch"})
			}
		}
	}
	return out
}

// stockRPM is the file name of such a package.
func (f Flavour) stockRPM(repos, name string) string {
	return filepath.Join(repos, f.Repo, name+"-"+f.Release.version+"-"+f.Release.release+".noarch.rpm")
}
