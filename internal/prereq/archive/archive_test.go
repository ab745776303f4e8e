package archive

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntriesThatStayInsideAreAllowed(t *testing.T) {
	for _, c := range []struct {
		h    tar.Header
		want string
	}{
		{tar.Header{Typeflag: tar.TypeReg, Name: "bin/containerd"}, "bin/containerd"},
		{tar.Header{Typeflag: tar.TypeReg, Name: "./bin/containerd"}, "bin/containerd"},
		{tar.Header{Typeflag: tar.TypeDir, Name: "./"}, "."},
		{tar.Header{Typeflag: tar.TypeDir, Name: "bin/"}, "bin"},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/ctr", Linkname: "containerd"}, "bin/ctr"},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b/c", Linkname: "../../lib/x"}, "a/b/c"},
		{tar.Header{Typeflag: tar.TypeLink, Name: "bin/x", Linkname: "bin/containerd"}, "bin/x"},
	} {
		got, err := Check(&c.h)
		require.NoError(t, err, c.h.Name)
		require.Equal(t, c.want, got)
	}
}

func TestEntriesThatLeadOutOrAreNoFilesAreRefused(t *testing.T) {
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "/etc/passwd"},
		{Typeflag: tar.TypeReg, Name: "../etc/passwd"},
		{Typeflag: tar.TypeReg, Name: "bin/../../etc/passwd"},
		{Typeflag: tar.TypeReg, Name: "bin/../x"},
		{Typeflag: tar.TypeReg, Name: ""},
		{Typeflag: tar.TypeReg, Name: "."},
		{Typeflag: tar.TypeReg, Name: "a\x00b"},
		{Typeflag: tar.TypeSymlink, Name: "bin/x", Linkname: "/etc/shadow"},
		{Typeflag: tar.TypeSymlink, Name: "bin/x", Linkname: "../../etc/shadow"},
		{Typeflag: tar.TypeSymlink, Name: "x", Linkname: ".."},
		{Typeflag: tar.TypeSymlink, Name: "x", Linkname: ""},
		{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/shadow"},
		{Typeflag: tar.TypeLink, Name: "x", Linkname: "../shadow"},
		{Typeflag: tar.TypeChar, Name: "null"},
		{Typeflag: tar.TypeBlock, Name: "sda"},
		{Typeflag: tar.TypeFifo, Name: "fifo"},
	} {
		_, err := Check(&h)
		require.Error(t, err, "%c %q -> %q", h.Typeflag, h.Name, h.Linkname)
	}
}

func TestMarkersRoundTripAndHaveTheirOwnPlaces(t *testing.T) {
	m := Marker{URL: "https://a.example/x.tar.gz", SHA256: strings.Repeat("ab", 32), Into: "/usr/local", Files: []File{{Path: "/usr/local/bin/x", Size: 3, Modified: 7}}}
	got, err := Decode(m.Encode())
	require.NoError(t, err)
	require.Equal(t, m, got)
	require.NotEqual(t, Path(m.SHA256, "/usr/local"), Path(m.SHA256, "/opt"))
}

func FuzzCheckedNamesStayInside(f *testing.F) {
	f.Add("bin/../../x", "l", byte(tar.TypeReg))
	f.Add("a", "../..", byte(tar.TypeSymlink))
	f.Fuzz(func(t *testing.T, name, link string, kind byte) {
		got, err := Check(&tar.Header{Typeflag: kind, Name: name, Linkname: link})
		if err == nil && (strings.HasPrefix(got, "/") || strings.HasPrefix(got, "..") && (got == ".." || got[2] == '/')) {
			t.Fatal(got)
		}
	})
}
