package diagnose

import (
	"regexp"
	"strconv"
	"strings"
)

// What tdnf 2 and 3 print. Its exit status is the internal code mod 256, and
// two codes alias to 0, so the line "Error(N) : text" counts.
var (
	tdnfError    = regexp.MustCompile(`(?m)^Error\((\d+)\) : (.*)$`)
	tdnfMissing  = regexp.MustCompile(`(?m)^(\S+) package not found or not installed`)
	tdnfDisabled = regexp.MustCompile(`(?m)^Disabling Repo: '?([^'\n]+?)'?\s*$`)
	tdnfFetch    = regexp.MustCompile(`(?m)^(?:Error: (?:\d+ when|Failed to)|curl#\d+:|Error\(12\d\d\)).*$`)
	tdnfFinal    = regexp.MustCompile(`(?m)^Error: (?:40[0134]|410) when downloading`)
	tdnfNothing  = regexp.MustCompile(`(?m)^Nothing to do\.?\s*$`)
	tdnfHave     = regexp.MustCompile(`(?m)^Package \S+ is already installed\.?\s*$`)
	tdnfRepo     = regexp.MustCompile(`(?m)Failed to synchronize cache for repo '([^']+)'`)
	tdnfLock     = regexp.MustCompile(`(?m)^.*(?:failed to acquire lock on: |waiting for \S+ lock on |can't create transaction lock on )(\S+?)[,.]?(?:\s.*)?$`)
	tdnfSpace    = regexp.MustCompile(`(?m)(?:needs \S+ more space on the (\S+) filesystem|^.*No space left on device.*$)`)
	tdnfConflict = regexp.MustCompile(`(?m)(?:package |)(\S+) (?:conflicts with|obsoletes) .*?(?:provided by )?(\S+)$`)
	tdnfFile     = regexp.MustCompile(`(?m)file \S+ (?:from install of |conflicts between attempted installs of )(\S+) (?:conflicts with file from package|and) (\S+)`)
	tdnfKey      = regexp.MustCompile(`(?mi)^.*(?:signature check|No public key|not signed|key is not trusted|public key is unavailable).*$`)
)

// curlWrite is curl's error 23, "write error", above tdnf's base for curl.
const curlWrite = 1201 + 23

// tdnfKind is the kind that a code of tdnf (tdnferror.h) stands for. 2000 and up are
// plugins; the only one shipped checks repository signatures.
func tdnfKind(code int) Kind {
	switch {
	case code == 1011:
		return NotFound
	case code == 1012 || code == 1008:
		return NoRepository
	case code == curlWrite:
		return DiskFull
	case code == 1006 || code == 1007 || code >= 1200 && code < 1300 || code == 1401 || code == 2501 || code == 2502:
		return Network
	case code == 1310 || code == 1515:
		return Conflict
	case code == 1311:
		return Dependency
	case code == 1473 || code == 1474 || code >= 1504 && code <= 1514 || code == 1523 || code >= 2000 && code < 2100:
		return Signature
	}
	return Other
}

// Tdnf classifies the end of tdnf: its exit status and both of its outputs.
func Tdnf(exit int, output string) Diagnosis {
	if m := tdnfSpace.FindStringSubmatch(output); m != nil {
		return Diagnosis{Kind: DiskFull, Where: m[1], Detail: oneLine(m[0])}
	}
	codes := tdnfError.FindAllStringSubmatch(output, -1)
	if exit == 0 && len(codes) == 0 {
		return tdnfFalseSuccess(output)
	}
	d := Diagnosis{Kind: Other, Detail: lastError(output)}
	if len(codes) > 0 {
		last := codes[len(codes)-1]
		code, _ := strconv.Atoi(last[1])
		d.Kind, d.Detail = tdnfKind(code), oneLine(last[0])
		d.Transient = d.Kind == Network && code != 1204 && code != 1202
		d.Unsigned = code == 1510 || code == 1512
	}
	if m := tdnfLock.FindStringSubmatch(output); m != nil && (d.Kind == Other || len(codes) == 0) {
		return Diagnosis{Kind: Lock, Where: m[1], Detail: oneLine(m[0]), Transient: true}
	}
	switch d.Kind {
	case NotFound:
		d.Packages = unique(found(tdnfMissing, output))
		if n, ok := tdnfSkipped(output); ok { // what is missing may be there
			if n.Kind == Network {
				n.Packages = d.Packages
			}
			if n.Kind == Network && !n.Transient {
				return Diagnosis{Kind: NotFound, Packages: d.Packages, Skipped: n.Where + ": " + n.Detail}
			}
			return n
		}
		if len(d.Packages) > 0 {
			d.Detail = ""
		}
	case Network:
		d.Where = strings.Join(unique(found(tdnfRepo, output)), ", ")
	case Signature:
		if line := tdnfKey.FindString(output); line != "" {
			d.Detail = oneLine(line)
		}
		if repo := tdnfRepo.FindStringSubmatch(output); repo != nil {
			d.Packages = []string{"repository " + repo[1]}
		}
	case Conflict, Other:
		for _, re := range []*regexp.Regexp{tdnfFile, tdnfConflict} {
			if m := re.FindStringSubmatch(output); m != nil {
				d.Kind, d.Packages, d.Detail = Conflict, unique([]string{m[1], m[2]}), oneLine(m[0])
				break
			}
		}
	}
	return d
}

// tdnfFalseSuccess finds the failures that tdnf ends with status 0: a
// repository that could not be read is disabled, and then there is nothing to
// do.
func tdnfFalseSuccess(output string) Diagnosis {
	if d, ok := tdnfSkipped(output); ok && tdnfNothing.MatchString(output) && !tdnfHave.MatchString(output) {
		if d.Kind == Network && d.Detail == "" {
			d.Detail = "tdnf disabled it and then found nothing to do"
		}
		return d
	}
	return Diagnosis{}
}

// tdnfSkipped is why tdnf went on without a repository that it couldn't read
// (skip_if_unavailable).
func tdnfSkipped(output string) (Diagnosis, bool) {
	disabled := unique(found(tdnfDisabled, output))
	if len(disabled) == 0 {
		return Diagnosis{}, false
	}
	d := Diagnosis{Kind: Network, Where: strings.Join(disabled, ", "), Detail: oneLine(tdnfFetch.FindString(output)), Transient: !tdnfFinal.MatchString(output)}
	if line := tdnfKey.FindString(output); line != "" {
		d = Diagnosis{Kind: Signature, Where: d.Where, Packages: []string{"repository " + d.Where}, Detail: oneLine(line)}
	}
	return d, true
}

var (
	tdnfStep = regexp.MustCompile(`^(?:Installing/Updating|Installing|Updating|Removing): (\S+)$`)
	tdnfLoad = regexp.MustCompile(`^(\S+)\s+\d+ \d+%`)
)

// TdnfProgress turns a line of tdnf's output into a short text for people;
// empty for lines that are no progress.
func TdnfProgress(line string) string {
	line = strings.TrimSpace(line)
	switch {
	case tdnfStep.MatchString(line):
		return "installing " + tdnfStep.FindStringSubmatch(line)[1]
	case tdnfLock.MatchString(line):
		return "waiting for another tdnf to finish"
	case tdnfLoad.MatchString(line):
		return "fetching " + tdnfLoad.FindStringSubmatch(line)[1]
	}
	return ""
}
