package change

import (
	"fmt"
	"strings"
)

// ProbeRepository checks that a repository answers before it is enabled: a
// .repo file with a dead URL breaks every later use of the package manager.
type ProbeRepository struct {
	Repository string `json:"repository"`
	BaseURL    string `json:"baseURL"` // with $releasever and the like filled in
}

func (c ProbeRepository) ID() string { return "probe:" + c.Repository }
func (c ProbeRepository) Summary() string {
	return fmt.Sprintf("check that repository %s answers at %s", c.Repository, c.BaseURL)
}
func (c ProbeRepository) Diff() string { return "" }
func (c ProbeRepository) Class() Class { return Wait }

// ImportKeys imports OpenPGP keys into the RPM database, from URLs or files.
type ImportKeys struct {
	Repository string   `json:"repository"`
	Keys       []string `json:"keys"`
	StoreAs    string   `json:"storeAs"` // local copy under /etc/pki/rpm-gpg, named in the .repo file
}

func (c ImportKeys) ID() string { return "keys:" + c.Repository }
func (c ImportKeys) Summary() string {
	return fmt.Sprintf("import %d signing key(s) of repository %s", len(c.Keys), c.Repository)
}
func (c ImportKeys) Diff() string { return strings.Join(c.Keys, "\n") }
func (c ImportKeys) Class() Class { return Additive }

// InstallPackages installs packages in one transaction. Signatures are
// checked as the repositories say.
type InstallPackages struct {
	Manager  string   `json:"manager"`            // dnf, tdnf
	Packages []string `json:"packages"`           // specs: "kubelet-1.35.4-*", "socat"
	Optional []string `json:"optional,omitempty"` // left out when no repository has them
	Unlock   []string `json:"unlock,omitempty"`   // repositories whose excludes don't count for this transaction; "main" is dnf.conf
	Remove   []string `json:"remove,omitempty"`   // conflicting packages the user listed for removal
	// Keys are fetched anew, once, when a signature doesn't check: a stored key
	// may have been renewed or replaced.
	Keys []ImportKeys `json:"keys,omitempty"`
	// CutOff is when a transaction began that was cut off, in seconds since the
	// epoch: what it left behind is removed and what it damaged is installed
	// again. 0: there was none.
	CutOff int64 `json:"cutOff,omitempty"`
}

func (c InstallPackages) ID() string { return "packages" }
func (c InstallPackages) Summary() string {
	if len(c.Packages)+len(c.Optional) == 0 {
		return "clean up after a package transaction that was cut off"
	}
	s := fmt.Sprintf("install %d package(s) with %s: %s", len(c.Packages)+len(c.Optional), c.Manager, strings.Join(c.Packages, " "))
	if len(c.Optional) > 0 {
		s += " and, where there is one, " + strings.Join(c.Optional, " ")
	}
	if len(c.Remove) > 0 {
		s += "; remove " + strings.Join(c.Remove, " ") + " where in conflict"
	}
	if c.CutOff != 0 {
		s += "; clean up after a transaction that was cut off"
	}
	return s
}
func (c InstallPackages) Diff() string { return "" }

// Mends tells whether a change makes good what an accident has damaged, so that
// what is seen of the host before it says little.
func Mends(c Change) bool {
	p, ok := c.(InstallPackages)
	return ok && p.CutOff != 0
}
func (c InstallPackages) Class() Class { return Additive }

// InstallArchive fetches, checks and unpacks an archive (or one program).
type InstallArchive struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	Into   string `json:"into"`
	Marker string `json:"marker"` // file that records what was unpacked
	// MaxSize limits the download, in bytes; what is unpacked is limited to four
	// times that.
	MaxSize int64 `json:"maxSize"`
}

func (c InstallArchive) ID() string      { return "archive:" + c.URL }
func (c InstallArchive) Summary() string { return fmt.Sprintf("unpack %s into %s", c.URL, c.Into) }
func (c InstallArchive) Diff() string    { return "sha256 " + c.SHA256 }
func (c InstallArchive) Class() Class    { return Additive }
