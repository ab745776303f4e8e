package change

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// SavedDirectory holds the keepsakes.
const SavedDirectory = "/var/lib/nodeagent/saved"

// Keepsake is a file of secret content as it was before nodeagent first wrote
// it. It lies in a file of its own that only root can read, since the journal
// holds no secrets.
type Keepsake struct {
	Path   string   `json:"path"`
	Before *Content `json:"before"` // nil when the file did not exist
	Wrote  []string `json:"wrote"`  // SHA-256 of what nodeagent wrote there
}

// Content is a whole file.
type Content struct {
	Mode  string `json:"mode"`
	Owner string `json:"owner"`
	Data  []byte `json:"data"`
}

// KeepsakePath is where the keepsake of a path lies.
func KeepsakePath(path string) string { return SavedDirectory + "/" + Sum(path)[:32] + ".json" }

// Sum is a content's SHA-256 in hex.
func Sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// Keep adds to the keepsake of a file what is about to be written there; old is
// the keepsake that exists, or nil, and now the file as it is.
func Keep(old []byte, path string, now *Content, content string) ([]byte, error) {
	k := Keepsake{Path: path, Before: now}
	if len(old) > 0 {
		if err := json.Unmarshal(old, &k); err != nil {
			return nil, err
		}
	}
	if sum := Sum(content); !slices.Contains(k.Wrote, sum) {
		k.Wrote = append(k.Wrote, sum)
	}
	return json.Marshal(k)
}
