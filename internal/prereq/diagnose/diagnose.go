// Package diagnose turns what a package manager prints when it fails into a
// kind, the packages concerned, one sentence and a hint. Its functions are
// pure; each package manager's words are in a file of its own.
package diagnose

import (
	"fmt"
	"strings"
)

// Kind is why a package manager failed.
type Kind string

// The kinds.
const (
	None         Kind = ""              // it did not fail
	NotFound     Kind = "not found"     // no enabled repository has a package of that name and version
	Excluded     Kind = "excluded"      // there is one, but an exclude or version lock hides it
	Conflict     Kind = "conflict"      // it can't be installed beside another package
	Dependency   Kind = "dependency"    // something it requires is in no repository
	Signature    Kind = "signature"     // a signature is missing, wrong, or by a key that isn't trusted
	Network      Kind = "network"       // a repository could not be read
	DiskFull     Kind = "disk full"     // no space left
	Lock         Kind = "lock"          // another process holds a lock of the package manager or of rpm
	NoRepository Kind = "no repository" // no repository is enabled at all
	Changed      Kind = "changed"       // somebody else changed the database while the transaction was prepared
	Other        Kind = "other"
)

// Diagnosis is one classified failure.
type Diagnosis struct {
	Kind Kind
	// Packages are the arguments concerned as they were given (not found,
	// excluded), or the two packages that conflict.
	Packages []string
	// Where is the repository (network), the filesystem (disk full) or the lock.
	Where string
	// Detail is the evidence in the package manager's own words, on one line.
	Detail string
	// Skipped is a repository that the package manager went on without, and why;
	// trying again won't help.
	Skipped string
	// Pid holds the lock; 0 when the message doesn't tell.
	Pid int
	// Transient is set when trying again may help.
	Transient bool
	// Unsigned is set for Signature when there is no signature at all, so that no
	// key can mend it.
	Unsigned bool
}

// Sentence names what happened and the evidence.
func (d Diagnosis) Sentence() string {
	names := strings.Join(d.Packages, ", ")
	s := ""
	switch d.Kind {
	case None:
		return ""
	case NotFound:
		return "no enabled repository has " + names + d.skipped()
	case Excluded:
		s = names + " is excluded: a repository has it, but an exclude= line or a version lock hides it"
	case Conflict:
		s = "packages conflict"
		if len(d.Packages) >= 2 {
			s = fmt.Sprintf("%s conflicts with %s", d.Packages[0], strings.Join(d.Packages[1:], ", "))
		}
	case Dependency:
		s = "a dependency of " + or(names, "the packages asked for") + " is in no enabled repository"
	case Signature:
		s = "the signature of " + or(names, "a package or repository") + " does not check"
		if d.Unsigned {
			s = names + " is not signed, and signatures are checked"
		}
	case Network:
		s = "repository " + d.Where + " can't be read"
		if d.Where == "" {
			s = "packages can't be fetched"
		}
	case DiskFull:
		s = "no space left on " + or(d.Where, "a filesystem") + " for the packages"
	case Lock:
		s = "the package database is locked"
		if d.Pid > 0 {
			s += fmt.Sprintf(" by process %d", d.Pid)
		}
	case NoRepository:
		s = "no package repository is enabled on this host"
	case Changed:
		s = "the package database was changed while the transaction was being prepared"
	default:
		s = "the package manager failed"
	}
	if d.Detail != "" {
		s += ": " + d.Detail
	}
	return s + d.skipped()
}

func (d Diagnosis) skipped() string {
	if d.Skipped == "" {
		return ""
	}
	return "; it went on without a repository that can't be read, " + d.Skipped
}

// Hint is the next action.
func (d Diagnosis) Hint() string {
	switch d.Kind {
	case NotFound:
		for _, p := range d.Packages {
			if kernel, ok := strings.CutPrefix(p, "kernel-modules-extra-"); ok { // a newer one's modules don't fit the kernel that runs
				return "a reboot is required: the repositories have left kernel " + kernel + " behind; dnf upgrade kernel, reboot, and run again"
			}
		}
		return "check the version and the repositories in spec.packages.repositories; the Kubernetes repositories hold one minor release each, so the v1.NN of the URL must be that of spec.kubernetes.version"
	case Excluded:
		return "see exclude= in /etc/yum.repos.d and /etc/dnf/dnf.conf, and: dnf versionlock list"
	case Conflict:
		if len(d.Packages) >= 2 {
			return fmt.Sprintf("list %s in spec.packages.remove to have it removed in the same transaction, or choose another runtime", bare(d.Packages[1]))
		}
		return "remove one of them, or choose another runtime"
	case Dependency:
		return "enable the repository that has it (on Enterprise Linux: baseos, appstream and often crb or epel)"
	case Signature:
		if d.Unsigned {
			return "sign the packages, or set gpgCheck: false for that repository if you trust every hop to it"
		}
		return "check that spec.packages.repositories[].gpgKeys names the key that signs this repository now"
	case Network:
		return "check baseURL, name resolution, proxy and route from this host: curl -I BASEURL/repodata/repomd.xml"
	case DiskFull:
		return "free space there and run again: what is done stays done"
	case Lock:
		return "wait for that process or end it, and run again"
	case Changed:
		return "let the other package manager end and run again; if it stays so, look at: dnf check, rpm -Va --nofiles --nodigest"
	case NoRepository:
		return "add spec.packages.repositories, or enable the distribution's"
	}
	return "run the same command by hand to see all of its output"
}

// bare cuts version, release and architecture off a full package name:
// runc-1.1.12-1.el9.x86_64 → runc.
func bare(nevra string) string {
	parts := strings.Split(nevra, "-")
	if len(parts) < 3 {
		return nevra
	}
	return strings.Join(parts[:len(parts)-2], "-")
}

// Bare is the name in a full package name such as runc-1.1.12-1.el9.x86_64.
func Bare(nevra string) string { return bare(nevra) }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// oneLine joins lines and bounds their length, for a sentence.
func oneLine(lines ...string) string {
	var out []string
	for _, l := range lines {
		if l = strings.Join(strings.Fields(l), " "); l != "" {
			out = append(out, l)
		}
	}
	s := strings.Join(out, "; ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

// unique keeps the first of each.
func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
