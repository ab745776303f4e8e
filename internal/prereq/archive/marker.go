// Package archive describes what was unpacked from an archive, and which
// entries of one may be unpacked at all. It is pure.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Marker records an archive that was unpacked to its end. It is written last,
// so a marker never stands for half an archive.
type Marker struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // of the whole archive, lower-case hex
	Into   string `json:"into"`
	Files  []File `json:"files"`
}

// File is one file as it was left. A file that has another size or time now
// was replaced by somebody else, or by another archive.
type File struct {
	Path     string `json:"path"` // absolute
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // µs since the epoch
	Link     string `json:"link,omitempty"`
}

// Directory holds the markers.
const Directory = "/var/lib/nodeagent/archives"

// Path is where the marker of an archive lies: one per archive and target, so
// that the same archive unpacked elsewhere has its own.
func Path(sha256Hex, into string) string {
	at := sha256.Sum256([]byte(into))
	return fmt.Sprintf("%s/%.16s-%s.json", Directory, sha256Hex, hex.EncodeToString(at[:4]))
}

// Encode writes a marker.
func (m Marker) Encode() string {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(b) + "\n"
}

// Decode reads a marker.
func Decode(text string) (Marker, error) {
	var m Marker
	err := json.Unmarshal([]byte(text), &m)
	return m, err
}
