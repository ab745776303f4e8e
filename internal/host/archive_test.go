package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/archive"
)

// pack makes a .tar.gz of headers; a file's content is in its Linkname.
func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

// published serves data and returns the change that installs it into a new
// directory.
func published(t *testing.T, data []byte) change.InstallArchive {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }))
	t.Cleanup(s.Close)
	sum := sha256.Sum256(data)
	dir := t.TempDir()
	return change.InstallArchive{URL: s.URL + "/a.tar.gz", SHA256: strings.ToUpper(hex.EncodeToString(sum[:])), Into: filepath.Join(dir, "into"), Marker: filepath.Join(dir, "state", "marker.json"), MaxSize: 1 << 20}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to root")
	}
}

func TestAnArchiveIsUnpackedAndRecorded(t *testing.T) {
	needRoot(t)
	c := published(t, pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o777}, file("bin/containerd", "one"),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/link", Linkname: "containerd"}, tar.Header{Typeflag: tar.TypeLink, Name: "bin/hard", Linkname: "bin/containerd"},
		tar.Header{Typeflag: tar.TypeReg, Name: "share/doc", Linkname: "text", Mode: 0o4666}))
	require.NoError(t, New().Apply(t.Context(), c, nil))
	b, err := os.ReadFile(c.Into + "/bin/link")
	require.NoError(t, err)
	require.Equal(t, "one", string(b))
	for path, mode := range map[string]os.FileMode{"/bin": 0o755 | os.ModeDir, "/bin/containerd": 0o755, "/bin/hard": 0o755, "/share": 0o755 | os.ModeDir, "/share/doc": 0o644} {
		info, err := os.Stat(c.Into + path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
	text, err := os.ReadFile(c.Marker)
	require.NoError(t, err)
	m, err := archive.Decode(string(text))
	require.NoError(t, err)
	require.Equal(t, strings.ToLower(c.SHA256), m.SHA256)
	require.Len(t, m.Files, 4)
	for _, f := range m.Files {
		info, err := New().Stat(f.Path)
		require.NoError(t, err)
		require.Equal(t, f.Link, info.Link)
		if f.Link == "" {
			require.Equal(t, []int64{f.Size, f.Modified}, []int64{info.Size, info.Modified}, f.Path)
		}
	}
	require.Empty(t, leftovers(t, c.Into))
}

// leftovers are temporary files below a directory.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	filepath.Walk(dir, func(p string, _ os.FileInfo, _ error) error {
		if strings.HasPrefix(filepath.Base(p), ".nodeagent") {
			out = append(out, p)
		}
		return nil
	})
	return out
}

func TestASecondArchiveReplacesFilesOneByOneAndARunningProgramKeepsItsOwn(t *testing.T) {
	needRoot(t)
	c := published(t, pack(t, file("bin/x", "old")))
	require.NoError(t, New().Apply(t.Context(), c, nil))
	open, err := os.Open(c.Into + "/bin/x")
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, os.WriteFile(c.Into+"/bin/.nodeagent-x", []byte("cut off"), 0o600))
	next := published(t, pack(t, file("bin/x", "new!")))
	next.Into, next.Marker = c.Into, c.Marker
	require.NoError(t, New().Apply(t.Context(), next, nil))
	b, err := os.ReadFile(c.Into + "/bin/x")
	require.NoError(t, err)
	require.Equal(t, "new!", string(b))
	old := make([]byte, 3)
	_, err = open.Read(old)
	require.NoError(t, err)
	require.Equal(t, "old", string(old))
	require.Empty(t, leftovers(t, c.Into))
}

func TestABadArchiveChangesNothing(t *testing.T) {
	needRoot(t)
	outside := filepath.Join(t.TempDir(), "outside")
	for name, data := range map[string][]byte{
		"an absolute path":    pack(t, file("bin/x", "1"), file("/etc/passwd", "2")),
		"dots":                pack(t, file("bin/x", "1"), file("../../"+outside, "2")),
		"a link out":          pack(t, file("bin/x", "1"), tar.Header{Typeflag: tar.TypeSymlink, Name: "evil", Linkname: "/etc"}, file("evil/passwd", "2")),
		"a relative link out": pack(t, file("bin/x", "1"), tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/evil", Linkname: "../../x"}),
		"a hard link out":     pack(t, file("bin/x", "1"), tar.Header{Typeflag: tar.TypeLink, Name: "evil", Linkname: "/etc/shadow"}),
		"a device":            pack(t, file("bin/x", "1"), tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}),
		"a fifo":              pack(t, file("bin/x", "1"), tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}),
		"a cut off archive":   pack(t, file("bin/x", strings.Repeat("abc", 40_000)))[:60],
		"a web page":          []byte("<html>login</html>"),
		"an xz archive":       []byte("\xfd7zXZ\x00....."),
		"gzip without a tar":  gzipped(t, "hello"),
		"a bomb":              pack(t, file("bin/x", strings.Repeat("0", 4<<20+1))), // maxSize is 1 MiB
		"too long a download": append(pack(t, file("bin/x", "1")), make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			c := published(t, data)
			err := New().Apply(t.Context(), c, nil)
			require.Error(t, err)
			require.NotEmpty(t, fail.HintOf(err))
			require.NoDirExists(t, c.Into)
			require.NoFileExists(t, c.Marker)
			require.NoFileExists(t, outside)
		})
	}
}

func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(s))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestALinkThatIsThereAlreadyLeadsNobodyOut(t *testing.T) {
	needRoot(t)
	c := published(t, pack(t, file("bin/x", "1")))
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(c.Into, 0o755))
	require.NoError(t, os.Symlink(outside, c.Into+"/bin"))
	require.Error(t, New().Apply(t.Context(), c, nil))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestAnotherDigestIsRefusedBeforeAnythingIsUnpacked(t *testing.T) {
	c := published(t, pack(t, file("bin/x", "1")))
	c.SHA256 = strings.Repeat("0", 64)
	err := New().Apply(t.Context(), c, nil)
	require.ErrorContains(t, err, "not "+c.SHA256+" as configured; nothing of it was used")
	require.NoDirExists(t, c.Into)
}

func TestASingleProgramIsPlacedAtItsPath(t *testing.T) {
	needRoot(t)
	c := published(t, []byte("\x7fELF and more"))
	c.Into = filepath.Join(filepath.Dir(c.Into), "sbin", "runc")
	require.NoError(t, New().Apply(t.Context(), c, nil))
	info, err := os.Stat(c.Into)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode())
	c.Into = filepath.Dir(c.Into)
	require.ErrorContains(t, New().Apply(t.Context(), c, nil), "needs the path of the file")
}

func TestWhatMayPassByItselfIsFetchedAgainAndWhatMayNotIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		fail  http.HandlerFunc
		times int // failures before it works
		tries int // requests seen
		want  string
	}{
		"503 twice":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 2, 3, ""},
		"503 for ever": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 99, fetchTries, "503"},
		"404":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 99, 1, "404"},
		"cut off once": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Write([]byte("x"))
		}, 1, 2, ""},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 5000)) }, 99, 1, "larger than allowed"},
		"too large, told": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.Write(make([]byte, 5000))
		}, 99, 1, "more than the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if seen++; seen <= c.times {
					c.fail(w, r)
					return
				}
				w.Write([]byte("good"))
			}))
			defer s.Close()
			got, err := fetchText(quick(t, time.Millisecond), s.URL)
			require.Equal(t, c.tries, seen)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, "good", got)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, s.URL)
		})
	}
}

// fetchText is fetch into memory, 4 KiB at most.
func fetchText(ctx context.Context, source string) (string, error) {
	var b bytes.Buffer
	err := New().fetch(ctx, source, 4096, func() (io.Writer, error) { b.Reset(); return &b, nil })
	return b.String(), err
}

func TestFilesAreFetchedFromThisHostToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.WriteFile(path, []byte("here"), 0o644))
	for _, source := range []string{path, "file://" + strings.ReplaceAll(path, " ", "%20")} {
		got, err := fetchText(t.Context(), source)
		require.NoError(t, err)
		require.Equal(t, "here", got)
	}
	_, err := fetchText(t.Context(), filepath.Dir(path))
	require.ErrorContains(t, err, "not a regular file")
}

func TestARedirectNeverLeavesHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("x")) }))
	defer plain.Close()
	via, err := http.NewRequest(http.MethodGet, "https://a.example", nil)
	require.NoError(t, err)
	to, err := http.NewRequest(http.MethodGet, plain.URL, nil)
	require.NoError(t, err)
	require.ErrorContains(t, client().CheckRedirect(to, []*http.Request{via}), "redirected from https to http")
}
