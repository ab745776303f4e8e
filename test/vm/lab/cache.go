package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DefaultCacheDir holds what Prepare built, unless NODEAGENT_LAB_CACHE names
// another directory.
const DefaultCacheDir = "/var/cache/nodeagent-lab"

// cache keeps built things, each in a directory named after a hash of what it
// was built from.
type cache struct {
	dir string
	log *Log
}

func openCache(log *Log) (*cache, error) {
	dir := os.Getenv("NODEAGENT_LAB_CACHE")
	if dir == "" {
		dir = DefaultCacheDir
	}
	// 0755: the signer's agent and mmdebstrap's apt look into it as other users.
	return &cache{dir: dir, log: log}, os.MkdirAll(dir, 0o755)
}

// lock makes two Prepares on one machine take turns.
func (c *cache) lock() (unlock func(), err error) {
	f, err := lockFile(filepath.Join(c.dir, ".lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// artefact returns the directory of the named thing, building it first if it
// isn't there. A build writes to a directory that gets its final name only when
// it is complete, so a broken build is never taken for a good one.
func (c *cache) artefact(name string, key []string, build func(dir string) error) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	final := filepath.Join(c.dir, name+"-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	c.log.Printf("building %s", name)
	start := time.Now()
	tmp := final + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	if err := build(tmp); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if err := os.Rename(tmp, final); err != nil {
		return "", err
	}
	c.dropOthers(name, final)
	c.log.Printf("built %s in %s", name, time.Since(start).Round(100*time.Millisecond))
	return final, nil
}

// dropOthers removes earlier builds of the same thing: each is up to a gigabyte.
func (c *cache) dropOthers(name, keep string) {
	old, _ := filepath.Glob(filepath.Join(c.dir, name+"-????????????"))
	for _, dir := range old {
		if dir != keep {
			os.RemoveAll(dir)
		}
	}
}
