package host

import (
	"strings"
	"testing"
)

// Short answers of programs and short files: what is read out of them stands in
// them, and nothing they say makes the reader fail.
func FuzzReadClaim(f *testing.F) {
	f.Add(claimSector("ce662ad4-429d-5fc6-b27b-055d2990a4ef"))
	f.Add(append([]byte(claimText+"x\n"), make([]byte, 600)...))
	f.Add([]byte(claimText))
	f.Fuzz(func(t *testing.T, sector []byte) {
		uuid := readClaim(sector)
		if uuid == "" {
			return
		}
		// A claim stands for a filesystem that may be made again: a sector is one
		// only if we could have written it.
		if string(sector) != string(claimSector(uuid)) {
			t.Errorf("%q was read out of a sector that isn't ours", uuid)
		}
	})
}

func FuzzParseVersionFindsAWordOfTheText(f *testing.F) {
	f.Add("containerd github.com/containerd/containerd/v2 v2.2.9 1c4457e00facac03ce1d75f7b6777a7a851e5c41")
	f.Add("Kubernetes v1.35.4\n")
	f.Add("v1.")
	f.Fuzz(func(t *testing.T, out string) {
		v := parseVersion(out)
		if !strings.Contains(out, v) || strings.ContainsAny(v, " \t\n/") {
			t.Errorf("%q gives %q", out, v)
		}
	})
}

func FuzzParseNeededFindsNamesOfTheText(f *testing.F) {
	f.Add("error: Failed dependencies:\n\tlibnftnl.so.11()(64bit) is needed by (installed) iptables-nft-1.8.10-2.el9.x86_64\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, n := range parseNeeded(out) {
			if n == "" || !strings.Contains(out, n) || strings.ContainsAny(n, " \t\n") {
				t.Errorf("%q gives %q", out, n)
			}
		}
	})
}

func FuzzDefaultZoneIsOneWordAtMost(f *testing.F) {
	f.Add([]byte("# comment\nDefaultZone=public\nCleanupOnExit=yes\n"))
	f.Add([]byte("DefaultZone=\n DefaultZone = internal \r\n"))
	f.Fuzz(func(t *testing.T, conf []byte) {
		if z := parseDefaultZone(conf); z == "" || z != strings.TrimSpace(z) || strings.Contains(z, "\n") {
			t.Errorf("zone %q", z)
		}
	})
}

func FuzzStaticHostnameIsOneLine(f *testing.F) {
	f.Add("# set by cloud-init\nprdk8snod001\n")
	f.Add("\n\n a \n")
	f.Fuzz(func(t *testing.T, text string) {
		if n := staticHostname(text); n != strings.TrimSpace(n) || strings.Contains(n, "\n") {
			t.Errorf("%q gives %q", text, n)
		}
	})
}
