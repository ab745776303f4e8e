package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodeagent/internal/change"
	"nodeagent/internal/fail"
	"nodeagent/internal/prereq/archive"
)

// applyInstallArchive fetches an archive or a program, checks its digest
// before anything of it is used, unpacks it and records what it unpacked. It may
// be repeated at any point: files are replaced one by one, the record is last.
func (l *Linux) applyInstallArchive(ctx context.Context, c change.InstallArchive, progress func(string)) error {
	f, err := scratchFile(c.Into)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := l.download(ctx, c, f, progress); err != nil {
		return err
	}
	kind, err := sniff(f)
	if err != nil {
		return err
	}
	var files []archive.File
	switch kind {
	case "gzip", "tar":
		progress("unpacking into " + c.Into)
		files, err = unpack(f, kind == "gzip", c.Into, archive.MaxGrowth*c.MaxSize)
	case "program":
		files, err = placeProgram(f, c.Into)
	default:
		return fail.New(fail.Step, "repack it as .tar.gz", "%s is %s, which nodeagent can't unpack", c.URL, kind)
	}
	if err != nil {
		return unpackFailure(c, err)
	}
	m := archive.Marker{URL: c.URL, SHA256: strings.ToLower(c.SHA256), Into: c.Into, Files: files}
	return l.writeAtomic(ctx, c.Marker, []byte(m.Encode()), 0o600, 0, 0)
}

// scratchFile returns a file without a name on the filesystem of target, so
// that a crash leaves nothing behind.
func scratchFile(target string) (*os.File, error) {
	dir := target
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		if dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".nodeagent-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// download fetches into f and compares the digest.
func (l *Linux) download(ctx context.Context, c change.InstallArchive, f *os.File, progress func(string)) error {
	sum := sha256.New()
	start := func() (io.Writer, error) {
		sum.Reset()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
		return io.MultiWriter(f, sum, &meter{progress: progress, last: time.Now()}), nil
	}
	if err := l.fetch(ctx, c.URL, c.MaxSize, start); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, c.SHA256) {
		return fail.New(fail.Step, "compare with the digest its publisher gives; correct spec.runtime.archives[].sha256 only if that agrees",
			"%s has SHA-256 %s, not %s as configured; nothing of it was used", c.URL, got, strings.ToLower(c.SHA256))
	}
	return nil
}

// meter tells how far a download is, every five seconds.
type meter struct {
	progress func(string)
	n        int64
	last     time.Time
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if time.Since(m.last) >= 5*time.Second {
		m.last = time.Now()
		m.progress("fetched " + change.Size(m.n))
	}
	return len(p), nil
}

// sniff tells by its first bytes what a file is: "gzip", "tar", "program", or a
// name for people of what can't be unpacked.
func sniff(f *os.File) (string, error) {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	head = head[:n]
	for _, m := range []struct {
		at    int
		magic string
		kind  string
	}{
		{0, "\x1f\x8b", "gzip"},
		{257, "ustar", "tar"},
		{0, "\x7fELF", "program"},
		{0, "#!", "program"},
		{0, "\xfd7zXZ\x00", "an xz archive"},
		{0, "\x28\xb5\x2f\xfd", "a zstd archive"},
		{0, "BZh", "a bzip2 archive"},
		{0, "PK\x03\x04", "a zip archive"},
		{0, "\xed\xab\xee\xdb", "an RPM package"},
		{0, "!<arch>", "a Debian package"},
	} {
		if len(head) >= m.at && bytes.HasPrefix(head[m.at:], []byte(m.magic)) {
			return m.kind, nil
		}
	}
	return "neither a tar archive nor a program", nil
}

func unpackFailure(c change.InstallArchive, err error) error {
	return fail.Wrap(fail.Step, err, "what was there before is still in use; mend the cause and run again", "unpacking %s into %s", c.URL, c.Into)
}

// placeProgram puts one program at the path into.
func placeProgram(f *os.File, into string) ([]archive.File, error) {
	if info, err := os.Stat(into); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; a single program needs the path of the file to write, such as %s", into, filepath.Join(into, "runc"))
	}
	dir, err := openDir(filepath.Dir(into), false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := within(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	name := filepath.Base(into)
	if err := place(root, name, f, 0o755); err != nil {
		return nil, err
	}
	if err := syncFile(dir, filepath.Dir(into)); err != nil {
		return nil, err
	}
	file, err := placed(root, name, filepath.Dir(into))
	return []archive.File{file}, err
}
