package distro

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const rocky9 = `NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
ANSI_COLOR="0;32"
CPE_NAME="cpe:/o:rocky:rocky:9::baseos"
SUPPORT_END="2032-05-31"
ROCKY_SUPPORT_PRODUCT="Rocky-Linux-9"
ROCKY_SUPPORT_PRODUCT_VERSION="9.4"
`

const photon5 = `NAME="VMware Photon OS"
VERSION="5.0"
ID=photon
VERSION_ID=5.0
PRETTY_NAME="VMware Photon OS/Linux"
ANSI_COLOR="1;34"
`

func TestReleasesAreReadAndClassified(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		id     string
		major  int
		family Family
		warns  bool
	}{
		"Rocky 9":                      {rocky9, "rocky", 9, EL, false},
		"Rocky 8":                      {"ID=\"rocky\"\nVERSION_ID=\"8.10\"\nPLATFORM_ID=\"platform:el8\"\n", "rocky", 8, EL, false},
		"Rocky 10 with vendor keys":    {"VENDOR_NAME=\"RESF\"\nVENDOR_URL=\"https://resf.org/\"\nID=\"rocky\"\nVERSION_ID=\"10.0\"\n", "rocky", 10, EL, false},
		"O1 Rocky with ostree's keys":  {"OSTREE_VERSION='48.84.202401'\nID=\"rocky\"\nID_LIKE='rhel fedora'\nVERSION_ID=\"9.3\"\nVARIANT_ID='x'\n", "rocky", 9, EL, false},
		"O2 Photon unquoted":           {photon5, "photon", 5, Photon, false},
		"O3 Oracle Linux":              {"ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"8.5\"\nPLATFORM_ID=\"platform:el8\"\n", "ol", 8, EL, true},
		"AlmaLinux":                    {"ID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n", "almalinux", 9, EL, true},
		"RHEL":                         {"ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\n", "rhel", 9, EL, true},
		"CentOS Stream without a dot":  {"ID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"9\"\n", "centos", 9, EL, true},
		"a rebuild nobody knows":       {"ID=newel\nID_LIKE=\"rhel fedora\"\nPLATFORM_ID=platform:el9\n", "newel", 9, EL, true},
		"Fedora":                       {"ID=fedora\nVERSION_ID=41\nPLATFORM_ID=\"platform:f41\"\n", "fedora", 41, Unsupported, false},
		"like Fedora alone":            {"ID=ultramarine\nID_LIKE=fedora\nVERSION_ID=40\n", "ultramarine", 40, Unsupported, false},
		"Debian":                       {"ID=debian\nVERSION_ID=\"12\"\n", "debian", 12, Unsupported, false},
		"SLE Micro":                    {"NAME=\"SLE Micro\"\nVERSION_ID=\"5.5\"\nID=\"sle-micro\"\nID_LIKE=\"suse\"\n", "sle-micro", 5, Immutable, false},
		"no version":                   {"ID=rocky\n", "rocky", 0, EL, false},
		"empty":                        {"", "", 0, Unsupported, false},
		"comments, blanks and spaces":  {"# hi\n\n  ID=rocky  \n", "rocky", 0, EL, false},
		"a key that ends in ID":        {"XID=fedora\nBUILD_ID=1\nID=rocky\n", "rocky", 0, EL, false},
		"the last value of a key wins": {"ID=fedora\nID=rocky\n", "rocky", 0, EL, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := Parse(c.text)
			require.Equal(t, c.id, r.ID)
			require.Equal(t, c.major, r.Major())
			h := Classify(Evidence{Release: r})
			require.Equal(t, c.family, h.Family)
			require.Equal(t, c.warns, h.Warning != "", h.Warning)
			require.NotEmpty(t, h.Why)
		})
	}
}

func TestO1IDLikeIsAListAndOstreeVersionIsNotVersion(t *testing.T) {
	r := Parse("ID=\"rocky\"\nOSTREE_VERSION='48.84.1'\nID_LIKE='rhel fedora'\n")
	require.Equal(t, Release{ID: "rocky", IDLike: []string{"rhel", "fedora"}}, r)
}

func TestQuotesAndEscapesAreUndone(t *testing.T) {
	r := Parse(`PRETTY_NAME="A \"quoted\" \$name"` + "\n" + `VERSION_ID='1\2'` + "\n" + `ID=a\b`)
	require.Equal(t, `A "quoted" $name`, r.PrettyName)
	require.Equal(t, `1\2`, r.VersionID)
	require.Equal(t, "ab", r.ID)
}

func TestAHostIsImmutableByWhatItIsMadeOfWhateverItsName(t *testing.T) {
	for _, e := range []Evidence{
		{Release: Parse(rocky9), ReadOnlyUsr: true},
		{Release: Parse(rocky9), OSTree: true},
		{Release: Release{ID: "acp-os"}, TransactionalUpdate: true},
	} {
		h := Classify(e)
		require.Equal(t, Immutable, h.Family)
		require.NotEmpty(t, h.Why)
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add(rocky9)
	f.Add(photon5)
	f.Add("ID='")
	f.Add(`ID="\`)
	f.Fuzz(func(t *testing.T, s string) {
		r := Parse(s)
		_ = Classify(Evidence{Release: r})
		if r.Major() < 0 {
			t.Fatal("negative")
		}
	})
}
