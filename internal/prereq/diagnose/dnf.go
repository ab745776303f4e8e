package diagnose

import (
	"regexp"
	"strconv"
	"strings"
)

// What dnf 4 and 5 print. The sentences were captured from dnf 4.14; dnf 5's
// are those of its sources.
var (
	dnfNoMatch    = regexp.MustCompile(`(?m)No match for argument: (\S+)`)
	dnfUnable     = regexp.MustCompile(`(?m)Unable to find a match: (.+)$`)
	dnfFiltered   = regexp.MustCompile(`(?m)All matches were filtered out by (?:exclude|modular) filtering for argument: (\S+)`)
	dnfFiltered5  = regexp.MustCompile(`(?m)Argument '([^']+)' matches only excluded packages`)
	dnfHidden     = regexp.MustCompile(`(?m)package (\S+) (?:from \S+ )?is filtered out by (?:exclude|modular) filtering`)
	dnfConflict   = regexp.MustCompile(`(?m)package (\S+) (?:from \S+ )?(?:conflicts with|obsoletes) .+? provided by (\S+)`)
	dnfBoth       = regexp.MustCompile(`(?m)cannot install both (\S+) (?:from \S+ )?and (\S+)`)
	dnfFile       = regexp.MustCompile(`(?m)file \S+ from install of (\S+) conflicts with file from package (\S+)`)
	dnfFiles      = regexp.MustCompile(`(?m)file \S+ conflicts between attempted installs of (\S+) and (\S+)`)
	dnfNothing    = regexp.MustCompile(`(?m)nothing provides (.+?) needed by (\S+)`)
	dnfUnsigned   = regexp.MustCompile(`(?m)Package (\S+?)(?:\.rpm)? is not signed`)
	dnfUnknownKey = regexp.MustCompile(`(?m)Public key for (\S+?)(?:\.rpm)? is not installed`)
	dnfWrongKey   = regexp.MustCompile(`(?m)Failing package is: (\S+)`)
	dnfSignature  = regexp.MustCompile(`(?mi)^.*(?:GPG check FAILED|GPG signature verification error|Bad GPG signature|OpenPGP check|Signature verification|does not verify|Key import failed|Didn't install any keys|key (?:has )?expired|Signing key not found).*$`)
	dnfRepository = regexp.MustCompile(`(?m)(?:Failed to download metadata for repo|Errors during downloading metadata for repository|Failed to download metadata \([^)]*\) for repository) ["']([^"']+)["']`)
	dnfNetwork    = regexp.MustCompile(`(?m)^.*(?:Curl error|Status code: \d|Could not resolve host|Cannot download|Download failed|No more mirrors|Failed to download|Inconsistent server data).*$`)
	dnfErrors     = regexp.MustCompile(`(?m)^Errors during downloading metadata for repository '([^']+)':\n((?:[ ]+- .*\n)+)`)
	dnfSkipped    = regexp.MustCompile(`(?m)^Ignoring repositories: \S`)
	dnfEvidence   = regexp.MustCompile(`(?m)(?:Curl error \(\d+\): [^\[\n]+|Status code: \d+ for \S+|Inconsistent server data[^(\n]*)`)
	dnfFinal      = regexp.MustCompile(`Status code: (?:40[0134]|410)|Curl error \((?:3|1|37|51|58|60|77|90|91)\)`)
	dnfSpace      = regexp.MustCompile(`(?m)(?:needs \S+ more space on the (\S+) filesystem|At least \S+ more space needed on the (\S+) filesystem|^.*No space left on device.*$|^.*Curl error \(23\).*$|^.*(?:Failed writing received data to disk|Disk quota exceeded).*$)`)
	dnfLocked     = regexp.MustCompile(`(?m)(?:already locked by (\d+)|Waiting for process with pid (\d+)|^.*_lock\.pid.*$|^.*can't create transaction lock on (\S+).*$|^.*Failed to obtain .*lock.*$)`)
	dnfChanged    = regexp.MustCompile(`(?m)^Error: transaction check vs depsolve:\s*\n(.*)$`)
	dnfNoRepos    = regexp.MustCompile(`(?m)^.*There are no enabled repositor.*$`)
)

// Dnf classifies the end of dnf: its exit status and both of its outputs.
// Exit statuses by dnf(8): 0 success, 1 an error dnf handled, 3 one it did
// not, 200 a lock problem.
func Dnf(exit int, output string) Diagnosis {
	if exit == 0 {
		return Diagnosis{}
	}
	if m := dnfLocked.FindStringSubmatch(output); m != nil || exit == 200 {
		return locked(m)
	}
	// dnf resolves before it takes rpm's lock: another transaction, perhaps one
	// that outlived the run that started it, may end in between.
	if m := dnfChanged.FindStringSubmatch(output); m != nil {
		return Diagnosis{Kind: Changed, Transient: true, Detail: oneLine(m[1])}
	}
	if all := dnfSpace.FindAllStringSubmatch(output, -1); all != nil {
		d := Diagnosis{Kind: DiskFull, Detail: oneLine(all[0][0])}
		for _, m := range all {
			if d.Where = m[1] + m[2]; d.Where != "" {
				d.Detail = oneLine(m[0])
				break
			}
		}
		return d
	}
	for _, f := range []func(string) (Diagnosis, bool){dnfSigned, dnfMatch, dnfTogether, dnfFetch} {
		if d, ok := f(output); ok {
			return d.unlessSkipped(output)
		}
	}
	if line := dnfNoRepos.FindString(output); line != "" {
		return Diagnosis{Kind: NoRepository, Detail: oneLine(strings.TrimPrefix(line, "Error: "))}
	}
	return Diagnosis{Kind: Other, Detail: lastError(output)}
}

// unlessSkipped is d, unless dnf went on without a repository that can't be read
// (skip_if_unavailable, dnf.conf(5)): what is missing may be there. That is
// Network when trying again may help, with the packages of d; else d says it.
func (d Diagnosis) unlessSkipped(out string) Diagnosis {
	if d.Kind != NotFound && d.Kind != Dependency || !dnfSkipped.MatchString(out) {
		return d
	}
	for _, m := range dnfErrors.FindAllStringSubmatch(out, -1) {
		if e := dnfEvidence.FindString(m[2]); e != "" && !dnfFinal.MatchString(e) {
			return Diagnosis{Kind: Network, Packages: d.Packages, Where: m[1], Detail: oneLine(e), Transient: true}
		}
	}
	n, _ := dnfFetch(out)
	d.Skipped = n.Where + ": " + n.Detail
	return d
}

// locked reads the holder of a lock from a match, when the message names it.
func locked(m []string) Diagnosis {
	d := Diagnosis{Kind: Lock, Transient: true}
	if m != nil {
		d.Pid, _ = strconv.Atoi(m[1] + m[2])
		d.Where = m[3]
		d.Detail = oneLine(m[0])
	}
	return d
}

func dnfSigned(out string) (Diagnosis, bool) {
	line := dnfSignature.FindString(out)
	d := Diagnosis{Kind: Signature, Packages: unique(append(append(found(dnfUnsigned, out), found(dnfUnknownKey, out)...), found(dnfWrongKey, out)...))}
	d.Unsigned = dnfUnsigned.MatchString(out)
	if line == "" && len(d.Packages) == 0 {
		return d, false
	}
	if !d.Unsigned {
		for l := range strings.Lines(out) {
			if strings.Contains(l, "not correct for this package") || strings.Contains(l, "Public key for") {
				line = l
				break
			}
		}
		d.Detail = oneLine(strings.TrimPrefix(line, "Error: "))
	}
	return d, true
}

func dnfMatch(out string) (Diagnosis, bool) {
	missing := found(dnfNoMatch, out)
	hidden := append(found(dnfFiltered, out), found(dnfFiltered5, out)...)
	if len(missing) == 0 && len(hidden) == 0 {
		if m := dnfUnable.FindStringSubmatch(out); m != nil {
			missing = strings.Fields(m[1])
		}
	}
	switch {
	case len(missing) > 0:
		return Diagnosis{Kind: NotFound, Packages: unique(missing)}, true
	case len(hidden) > 0:
		return Diagnosis{Kind: Excluded, Packages: unique(hidden)}, true
	}
	return Diagnosis{}, false
}

// dnfTogether reads why a transaction could not be resolved or would break
// files of another package.
func dnfTogether(out string) (Diagnosis, bool) {
	for _, re := range []*regexp.Regexp{dnfConflict, dnfFile, dnfFiles, dnfBoth} {
		if m := re.FindStringSubmatch(out); m != nil {
			return Diagnosis{Kind: Conflict, Packages: unique([]string{m[1], m[2]}), Detail: oneLine(strings.TrimPrefix(m[0], "package "))}, true
		}
	}
	if hidden := found(dnfHidden, out); len(hidden) > 0 {
		return Diagnosis{Kind: Excluded, Packages: unique(hidden)}, true
	}
	if m := dnfNothing.FindStringSubmatch(out); m != nil {
		return Diagnosis{Kind: Dependency, Packages: []string{m[2]}, Detail: oneLine(m[0])}, true
	}
	return Diagnosis{}, false
}

func dnfFetch(out string) (Diagnosis, bool) {
	repo := dnfRepository.FindStringSubmatch(out)
	line := dnfNetwork.FindString(out)
	if repo == nil && line == "" {
		return Diagnosis{}, false
	}
	d := Diagnosis{Kind: Network, Detail: oneLine(line), Transient: !dnfFinal.MatchString(out)}
	if repo != nil {
		d.Where = repo[1]
	}
	if e := dnfEvidence.FindString(out); e != "" {
		d.Detail = oneLine(e)
	}
	return d, true
}

// found returns the first group of every match.
func found(re *regexp.Regexp, out string) []string {
	var names []string
	for _, m := range re.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return names
}

// lastError is the text from the last line that begins with Error on.
func lastError(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if l := strings.ToLower(strings.TrimSpace(lines[i])); strings.HasPrefix(l, "error") {
			return oneLine(lines[i:]...)
		}
	}
	return oneLine(lines[len(lines)-1])
}

var dnfStep = regexp.MustCompile(`^(Installing|Upgrading|Reinstalling|Downgrading|Erasing|Removing|Cleanup|Obsoleting)\s*:\s*(\S+)\s+(\d+/\d+)$`)
var dnfDownload = regexp.MustCompile(`^\((\d+/\d+)\): (\S+)`)

// DnfProgress turns a line of dnf's output into a short text for people; empty
// for lines that are no progress.
func DnfProgress(line string) string {
	line = strings.TrimSpace(line)
	if m := dnfStep.FindStringSubmatch(line); m != nil {
		return strings.ToLower(m[1]) + " " + m[2] + " (" + m[3] + ")"
	}
	if m := dnfDownload.FindStringSubmatch(line); m != nil {
		name := strings.TrimRight(strings.TrimSuffix(m[2], ".rpm"), ".") // dnf cuts long names
		return "fetched " + name + " (" + m[1] + ")"
	}
	return ""
}

var (
	dnfRemoving = regexp.MustCompile(`^Removing( dependent packages| unused dependencies)?:$`)
	dnfSection  = regexp.MustCompile(`^\S.*:$|^Transaction Summary`)
	dnfRow      = regexp.MustCompile(`^ (\S+)(\s|$)`)
)

// DnfRemovals lists the names in the Removing sections of dnf's transaction
// table: what it would take off the host.
func DnfRemovals(output string) []string {
	var names []string
	in := false
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case dnfRemoving.MatchString(line):
			in = true
		case dnfSection.MatchString(line):
			in = false
		case in:
			if m := dnfRow.FindStringSubmatch(line); m != nil {
				names = append(names, m[1])
			}
		}
	}
	return unique(names)
}
