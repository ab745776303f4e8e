package distro

import (
	"fmt"
	"slices"
	"strings"
)

// Family is a group of distributions that are handled alike.
type Family string

// The families.
const (
	EL          Family = "el"     // Rocky Linux and what is built from the same sources
	Photon      Family = "photon" // VMware Photon OS
	Immutable   Family = "immutable"
	Unsupported Family = "unsupported"
)

// Evidence is what a host shows besides os-release.
type Evidence struct {
	Release             Release `json:"release"`
	ReadOnlyUsr         bool    `json:"readOnlyUsr,omitempty"`         // /usr is mounted read-only
	TransactionalUpdate bool    `json:"transactionalUpdate,omitempty"` // the program transactional-update is there
	OSTree              bool    `json:"ostree,omitempty"`              // /run/ostree-booted is there (booted from an ostree deployment)
}

// Host is the verdict on a host.
type Host struct {
	Family Family
	// Why names the evidence, for messages.
	Why string
	// Warning is set when the distribution works but isn't one nodeagent is
	// tested on.
	Warning string
}

// builtFromEL are the distributions that are rebuilds or upstreams of
// Enterprise Linux and take its packages.
var builtFromEL = []string{"almalinux", "rhel", "centos", "ol", "eurolinux", "circle", "navylinux"}

// microOS are the IDs of SUSE's immutable releases, which the Alauda OS images
// are built from. It is the second-best evidence: more than one os-release is
// seen for those, so what the host is made of counts first.
var microOS = []string{"sle-micro", "sl-micro", "sle-micro-rancher", "opensuse-microos", "opensuse-leap-micro", "alauda", "alauda-os", "alaudaos"}

// Classify says what a host is. An immutable host is recognised by what it is
// made of, whatever its os-release says.
func Classify(e Evidence) Host {
	r := e.Release
	switch {
	case e.TransactionalUpdate:
		return Host{Family: Immutable, Why: "the host has transactional-update"}
	case e.OSTree:
		return Host{Family: Immutable, Why: "the host was booted from an ostree deployment (/run/ostree-booted)"}
	case e.ReadOnlyUsr:
		return Host{Family: Immutable, Why: "/usr is mounted read-only"}
	case slices.Contains(microOS, r.ID):
		return Host{Family: Immutable, Why: fmt.Sprintf("os-release says ID=%s", r.ID)}
	case r.ID == "photon":
		return Host{Family: Photon, Why: "os-release says ID=photon"}
	case r.ID == "rocky":
		return Host{Family: EL, Why: "os-release says ID=rocky"}
	case r.ID == "fedora":
		return Host{Family: Unsupported, Why: "os-release says ID=fedora"}
	case slices.Contains(builtFromEL, r.ID) || elPlatform(r) || like(r, "rhel"):
		return Host{Family: EL, Why: fmt.Sprintf("os-release says ID=%s", r.ID),
			Warning: fmt.Sprintf("%s is treated as Enterprise Linux %s: it works, but nodeagent is not certified on it", r.Name(), major(r))}
	case r.ID == "":
		return Host{Family: Unsupported, Why: "there is no os-release with an ID"}
	}
	return Host{Family: Unsupported, Why: fmt.Sprintf("os-release says ID=%s", r.ID)}
}

func elPlatform(r Release) bool { return strings.HasPrefix(r.PlatformID, "platform:el") }

func like(r Release, id string) bool { return slices.Contains(r.IDLike, id) }

func major(r Release) string {
	if n := r.Major(); n > 0 {
		return fmt.Sprint(n)
	}
	return "of unknown version"
}
