package host

import (
	"path/filepath"
	"strings"
)

// parseMountinfo reads proc_pid_mountinfo(5). Lines that aren't of its form are
// skipped.
func parseMountinfo(b []byte) []Mount {
	var out []Mount
	for line := range strings.Lines(string(b)) {
		head, tail, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 6 || len(g) < 1 {
			continue
		}
		m := Mount{Device: f[2], Root: DecodeOctal(f[3]), Target: DecodeOctal(f[4]), Options: strings.Split(f[5], ","), Type: g[0]}
		if len(g) > 1 {
			m.Source = DecodeOctal(g[1])
		}
		out = append(out, m)
	}
	return out
}

// DecodeOctal decodes the escapes of mountinfo and fstab: \040 is a blank.
func DecodeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctalDigit(s[i+1]) && isOctalDigit(s[i+2]) && isOctalDigit(s[i+3]) && s[i+1] < '4' {
			out.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func isOctalDigit(c byte) bool { return c >= '0' && c <= '7' }

// mountOf returns the mount that holds an absolute, resolved path: the last one
// of the longest target, since later mounts cover earlier ones.
func mountOf(mounts []Mount, path string) (Mount, bool) {
	var best Mount
	found := false
	for _, m := range mounts {
		if covers(m.Target, path) && (!found || len(m.Target) >= len(best.Target)) {
			best, found = m, true
		}
	}
	return best, found
}

// covers tells whether path is dir or below it.
func covers(dir, path string) bool {
	dir = filepath.Clean(dir)
	return dir == path || dir == "/" || strings.HasPrefix(path, dir+"/")
}
