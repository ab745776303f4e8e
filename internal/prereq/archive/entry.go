package archive

import (
	"archive/tar"
	"fmt"
	"path"
	"strings"
)

// Limits on what an archive may hold. Real ones have some hundred MiB and some
// dozen files.
const (
	MaxDownload = 2 << 30 // bytes of the archive, unless the configuration says otherwise
	MaxGrowth   = 4       // times the limit of the download, for all files in it
	MaxEntries  = 100_000
)

// Check tells whether one entry may be unpacked, and its clean path relative to
// the target; the target itself is ".". Refused are absolute paths, paths
// that leave the target, devices, and links that lead out of it.
func Check(h *tar.Header) (string, error) {
	name, err := inside(h.Name)
	if err != nil {
		return "", err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if name == "." {
			return "", fmt.Errorf("%q is a file without a name", h.Name)
		}
	case tar.TypeDir:
	case tar.TypeLink:
		if _, err := inside(h.Linkname); err != nil {
			return "", fmt.Errorf("%q is a hard link to %q, out of the archive", h.Name, h.Linkname)
		}
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) {
			return "", fmt.Errorf("%q is a link to the absolute path %q", h.Name, h.Linkname)
		}
		if _, err := inside(path.Join(path.Dir(name), h.Linkname)); err != nil || h.Linkname == "" {
			return "", fmt.Errorf("%q is a link to %q, out of the archive", h.Name, h.Linkname)
		}
	default:
		return "", fmt.Errorf("%q is of type %q: only files, directories and links are unpacked", h.Name, string(h.Typeflag))
	}
	return name, nil
}

// inside cleans a relative path and refuses one that isn't below the target.
func inside(name string) (string, error) {
	if name == "" || path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q is not a relative path", name)
	}
	// Any .. is refused, even one that would stay inside: whoever writes it means
	// no good, and no real archive has one. Links may climb within the target, so
	// they come here joined and cleaned.
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%q leads out of the target", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%q has .. in it", name)
		}
	}
	return clean, nil
}
