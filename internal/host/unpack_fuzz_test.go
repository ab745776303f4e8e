package host

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever an archive holds, nothing is written outside the directory, and one
// that is refused before it is unpacked leaves the directory as it was.
func FuzzUnpackStaysInside(f *testing.F) {
	for _, entries := range [][]tar.Header{
		{{Name: "bin/a", Typeflag: tar.TypeReg, Mode: 0o755}},
		{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "l/x", Typeflag: tar.TypeReg}},
		{{Name: "d", Typeflag: tar.TypeDir}, {Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "d/l/x", Typeflag: tar.TypeReg}},
		{{Name: "a", Typeflag: tar.TypeReg}, {Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}, {Name: "a", Typeflag: tar.TypeDir}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range entries {
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
		}
		w.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		into := filepath.Join(dir, "into")
		file, err := os.Create(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		files, err := unpack(file, false, into, 1<<20)
		if err == nil {
			for _, x := range files {
				if !strings.HasPrefix(x.Path, into+"/") {
					t.Fatalf("%s is recorded", x.Path)
				}
			}
		}
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != dir && path != file.Name() && path != into && !strings.HasPrefix(path, into+"/") {
				t.Fatalf("%s was written", path)
			}
			if info, infoErr := d.Info(); err == nil && infoErr == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
				t.Fatalf("%s has mode %s", path, info.Mode())
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// What a program or a file says about itself never makes more than one line.
func FuzzShortAnswersStayShort(f *testing.F) {
	f.Add("containerd github.com/containerd/containerd v1.7.13 7c3a\n")
	f.Add("kubelet.service: Failed with result 'exit-code'.\nStopped x.\n")
	f.Add("DefaultZone=home\r\nPretty=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for what, got := range map[string]string{
			"version":      parseVersion(text),
			"last line":    lastOwnLine("kubelet.service", text),
			"default zone": parseDefaultZone([]byte(text)),
			"first line":   firstLine(text),
			"host name":    staticHostname(text),
		} {
			if strings.Contains(got, "\n") {
				t.Fatalf("%s: %q", what, got)
			}
		}
	})
}
